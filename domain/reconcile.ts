/**
 * What outbox, stream, pending entries and takes say about one submit id, held against each other (C6).
 * Only what disagrees is named; a command that is merely slow is no difference.
 */
export const DIFFERENCES = {
  entry_without_outbox_row: "An entry stands on the stream and no outbox row knows its submit id",
  entry_on_another_channel: "An entry stands on the stream of another channel than its outbox row names",
  entry_payload_differs: "An entry holds another payload than its outbox row",
  entry_of_dead_command: "An entry is still to be read although its command is dead",
  entry_not_recorded: "An entry stands on the stream and its outbox row is not published",
  entry_superseded: "An entry stands on the stream beside the one that its outbox row names",
  acknowledged_not_deleted: "An entry was acknowledged and is still there",
  pending_and_finished: "A gateway holds an entry of which nothing is left to write",
  pending_too_old: "An entry was delivered and no gateway has touched it for a minute",
  published_but_entry_gone_and_not_taken: "A published part was never taken and its entry is gone",
  due_but_not_published: "A command has been due for a minute and is not published",
  unpublished_but_written: "Every part was written and the outbox row is not published",
  written_but_never_answered: "A part was written and its outcome was never recorded, not even as unknown",
  take_without_outbox_row: "A part was taken and no outbox row knows its submit id",
  shadow_payload_differs: "What went to the shadow stream is not the outbox row's payload",
} as const;

export type DifferenceKind = keyof typeof DIFFERENCES;

export interface Difference {
  kind: DifferenceKind;
  submitId: string;
  channelId: string | null;
  entryId: string | null;
}

/** An entry of a command stream as Redis tells it. */
export interface EntryFacts {
  entryId: string;
  submitId: string;
  payload: string;
  /** pending: read by a gateway and not acknowledged. */
  state: "undelivered" | "pending" | "acknowledged";
  /** How long no gateway has touched a pending one. */
  idleMs: number;
}

/** The same command as PostgreSQL tells it. */
export interface CommandFacts {
  status: "pending" | "publishing" | "published" | "dead";
  channelId: string;
  entryId: string | null;
  payload: string;
  /** Every part has its result, or the attempt is decided: nothing is left to write. */
  finished: boolean;
}

/** A gateway that lives claims what lies idle every second or so. */
export const PENDING_TOO_OLD_MS = 60_000;

/** The first thing that is wrong with an entry on the stream of `channelId`, if anything is. */
export function judgeEntry(
  channelId: string,
  entry: EntryFacts,
  command: CommandFacts | undefined,
): DifferenceKind | undefined {
  if (command === undefined) return "entry_without_outbox_row";
  if (command.channelId !== channelId) return "entry_on_another_channel";
  if (command.payload !== entry.payload) return "entry_payload_differs";
  if (entry.state === "acknowledged") return "acknowledged_not_deleted";
  if (command.status === "dead") return "entry_of_dead_command";
  if (command.status !== "published") return "entry_not_recorded";
  if (command.entryId !== entry.entryId) return "entry_superseded";
  if (command.finished) return "pending_and_finished";
  if (entry.state === "pending" && entry.idleMs >= PENDING_TOO_OLD_MS) return "pending_too_old";
  return undefined;
}
