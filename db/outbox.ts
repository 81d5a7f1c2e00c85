/**
 * Commands between their commit and the stream (C1, C2). A row is claimed with a token, and whoever
 * writes back must still hold it.
 */
import { applicationsWith } from "./applications-with.ts";
import { type Session, statement } from "./client.ts";
import { modeOf, type PublicationMode } from "./publication.ts";

export interface ClaimedCommand {
  submitId: string;
  attemptId: string;
  channelId: string;
  payload: string;
  schemaVersion: number;
}

/** Tries before a command that cannot be published is dead (C7). */
export const MAX_PUBLISH_TRIES = 12;

/**
 * Claims the commands of these attempts that are not published yet. A re-run of an attempt's own
 * publish takes its row over at once, also while an earlier claim's lease runs (C4).
 */
export async function claimOwnCommands(
  session: Session,
  token: string,
  attemptIds: readonly string[],
): Promise<ClaimedCommand[]> {
  return (await session.run(CLAIM_OWN, [token, attemptIds])).map(toCommand);
}

/** Claims what was left behind: due rows, and rows whose claim ran out (C4). */
export async function claimLeftBehind(
  session: Session,
  token: string,
  limit: number,
): Promise<ClaimedCommand[]> {
  return (await session.run(CLAIM_LEFT, [token, limit])).map(toCommand);
}

/** Marks what the stream took; only rows that this claim still holds. */
export async function markPublished(
  session: Session,
  token: string,
  published: readonly { submitId: string; entryId: string }[],
): Promise<void> {
  await session.run(MARK, [token, published.map((it) => it.submitId), published.map((it) => it.entryId)]);
}

/**
 * Gives claimed rows back. Where the stream answered and refused, the try counts, and the last one
 * makes a row dead (C7); where it did not answer, the try did not happen (D12).
 */
export async function markUnpublished(
  session: Session,
  token: string,
  submitIds: readonly string[],
  error: "stream_unavailable" | "stream_refused",
): Promise<void> {
  const what = error === "stream_refused" ? REFUSED : UNANSWERED;
  await session.run(what, [
    token,
    submitIds,
    error,
    ...(error === "stream_refused" ? [MAX_PUBLISH_TRIES] : []),
  ]);
}

/** Pending commands of these attempts that did not go to the shadow stream yet (C5). */
export async function notShadowed(
  session: Session,
  attemptIds: readonly string[],
): Promise<ClaimedCommand[]> {
  return (await session.run(NOT_SHADOWED, [attemptIds])).map(toCommand);
}

/** Keeps where a row went in shadow and a hash of what it held; the row itself stays pending. */
export async function markShadowed(
  session: Session,
  shadowed: readonly { submitId: string; entryId: string; payload: string }[],
): Promise<void> {
  await session.run(MARK_SHADOWED, [
    shadowed.map((it) => it.submitId),
    shadowed.map((it) => it.entryId),
    shadowed.map((it) => it.payload),
  ]);
}

/** A command that cannot be understood or written: it waits for a person and is never dropped (C7). */
export async function markDead(session: Session, submitId: string, error: string): Promise<void> {
  await session.run(DEAD, [submitId, error]);
}

export interface CommandState {
  status: "pending" | "publishing" | "published" | "dead";
  /** That holds for its application. */
  mode: PublicationMode;
}

/** What became of the commands of these attempts, for those that a claim did not get. */
export async function commandStates(
  session: Session,
  attemptIds: readonly string[],
): Promise<Map<string, CommandState>> {
  const rows = await session.run(STATES, [attemptIds]);
  return new Map(rows.map(({ attempt_id, status, mode }) => [attempt_id, { status, mode }]));
}

export interface UntakenCommand {
  submitId: string;
  channelId: string;
  entryId: string;
}

/**
 * Published commands with a part that was never taken, or throttled last and not written again: the
 * sweeper asks the stream whether their entries are still there (C4). Slow is not lost.
 */
export async function publishedButNotTaken(
  session: Session,
  afterSubmitId: string,
  limit: number,
): Promise<UntakenCommand[]> {
  const rows = await session.run(NOT_TAKEN, [afterSubmitId, limit]);
  return rows.map((row) => ({
    submitId: row.submit_id,
    channelId: row.channel_id,
    entryId: row.stream_entry_id,
  }));
}

/** Puts commands whose entry is gone back to pending, unless somebody did so in between. */
export async function publishAgain(session: Session, lost: readonly UntakenCommand[]): Promise<number> {
  const rows = await session.run(AGAIN, [lost.map((it) => it.submitId), lost.map((it) => it.entryId)]);
  return rows.length;
}

const toCommand = (row: CommandRow): ClaimedCommand => ({
  submitId: row.submit_id,
  attemptId: row.attempt_id,
  channelId: row.channel_id,
  payload: row.payload,
  schemaVersion: row.schema_version,
});

interface CommandRow {
  submit_id: string;
  attempt_id: string;
  channel_id: string;
  payload: string;
  schema_version: number;
}

const CLAIMED = `
      SET status = 'publishing', lease_owner = $1, lease_expires_at = clock_timestamp() + interval '5 seconds',
          attempt_count = attempt_count + 1, updated_at = clock_timestamp(),
          next_attempt_at = clock_timestamp() + interval '5 seconds'`;

const CLAIM_OWN = statement<CommandRow>(
  "outbox.claim_own",
  `UPDATE submit_outbox o ${CLAIMED}
    WHERE submit_id IN (SELECT submit_id FROM attempts WHERE id = ANY($2::text[]))
      AND status IN ('pending', 'publishing') AND ${modeOf("o.application_id")} = 'live'
   RETURNING submit_id, attempt_id, channel_id, payload, schema_version`,
);

/**
 * Steps from application to application that has something unpublished and takes rows of those alone
 * that are live: 10,000 rows that one holds back cost the others nothing (C4, C5). In random order, so
 * that nobody's backlog always comes first.
 */
const CLAIM_LEFT = statement<CommandRow>(
  "outbox.claim_left",
  `WITH RECURSIVE ${applicationsWith("waiting", "submit_outbox", "status IN ('pending', 'publishing')")},
   live AS MATERIALIZED (
     SELECT application_id FROM waiting WHERE ${modeOf("waiting.application_id")} = 'live' ORDER BY random()
   ), due AS MATERIALIZED (
     SELECT row.submit_id FROM live CROSS JOIN LATERAL (
       SELECT submit_id FROM submit_outbox
        WHERE application_id = live.application_id
          AND status IN ('pending', 'publishing') AND next_attempt_at <= statement_timestamp()
          AND (status = 'pending' OR lease_expires_at <= clock_timestamp())
        ORDER BY next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED) row
      LIMIT $2
   )
   UPDATE submit_outbox o ${CLAIMED}
    WHERE submit_id = ANY (ARRAY(SELECT submit_id FROM due))
   RETURNING submit_id, attempt_id, channel_id, payload, schema_version`,
);

const MARK = statement<Record<string, never>>(
  "outbox.mark",
  `UPDATE submit_outbox o
      SET status = 'published', stream_entry_id = t.entry_id, published_at = clock_timestamp(),
          lease_owner = NULL, lease_expires_at = NULL, last_error = NULL, updated_at = clock_timestamp()
     FROM unnest($2::text[], $3::text[]) AS t(submit_id, entry_id)
    WHERE o.submit_id = t.submit_id AND o.status = 'publishing' AND o.lease_owner = $1`,
);

const REFUSED = statement<Record<string, never>>(
  "outbox.refused",
  `UPDATE submit_outbox
      SET status = CASE WHEN attempt_count >= $4 THEN 'dead' ELSE 'pending' END,
          next_attempt_at = clock_timestamp() + least(60, power(2, attempt_count)) * interval '1 second',
          lease_owner = NULL, lease_expires_at = NULL, last_error = $3, updated_at = clock_timestamp()
    WHERE submit_id = ANY($2::text[]) AND status = 'publishing' AND lease_owner = $1`,
);

const UNANSWERED = statement<Record<string, never>>(
  "outbox.unanswered",
  `UPDATE submit_outbox
      SET status = 'pending', attempt_count = attempt_count - 1,
          next_attempt_at = clock_timestamp() + interval '1 second',
          lease_owner = NULL, lease_expires_at = NULL, last_error = $3, updated_at = clock_timestamp()
    WHERE submit_id = ANY($2::text[]) AND status = 'publishing' AND lease_owner = $1`,
);

const NOT_SHADOWED = statement<CommandRow>(
  "outbox.not_shadowed",
  `SELECT submit_id, attempt_id, channel_id, payload, schema_version FROM submit_outbox
    WHERE submit_id IN (SELECT submit_id FROM attempts WHERE id = ANY($1::text[]))
      AND status = 'pending' AND shadow_entry_id IS NULL`,
);

const MARK_SHADOWED = statement<Record<string, never>>(
  "outbox.mark_shadowed",
  `UPDATE submit_outbox o
      SET shadow_entry_id = t.entry_id, shadow_payload_hash = sha256(convert_to(t.payload, 'UTF8')),
          updated_at = clock_timestamp()
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(submit_id, entry_id, payload)
    WHERE o.submit_id = t.submit_id AND o.status = 'pending'`,
);

const DEAD = statement<Record<string, never>>(
  "outbox.dead",
  `UPDATE submit_outbox
      SET status = 'dead', lease_owner = NULL, lease_expires_at = NULL, last_error = $2,
          updated_at = clock_timestamp()
    WHERE submit_id = $1`,
);

const STATES = statement<CommandState & { attempt_id: string }>(
  "outbox.states",
  `SELECT o.attempt_id, o.status, ${modeOf("o.application_id")} AS mode FROM submit_outbox o
    WHERE o.submit_id IN (SELECT submit_id FROM attempts WHERE id = ANY($1::text[]))`,
);

const NOT_TAKEN = statement<{ submit_id: string; channel_id: string; stream_entry_id: string }>(
  "outbox.not_taken",
  `SELECT DISTINCT o.submit_id, o.channel_id, o.stream_entry_id
     FROM segments s
     JOIN attempts a ON a.id = s.attempt_id AND a.state = 'queued'
     JOIN submit_outbox o ON o.submit_id = a.submit_id AND o.status = 'published'
          AND o.published_at < clock_timestamp() - interval '5 seconds'
     LEFT JOIN LATERAL (
            SELECT t.write_number, t.answer FROM takes t
             WHERE t.submit_id = a.submit_id AND t.part = s.part
             ORDER BY t.write_number DESC LIMIT 1) last ON true
    WHERE s.result IS NULL AND o.submit_id > $1
      AND (last.write_number IS NULL OR last.answer = 'throttled')
    ORDER BY o.submit_id LIMIT $2`,
);

const AGAIN = statement<{ submit_id: string }>(
  "outbox.again",
  `UPDATE submit_outbox o
      SET status = 'pending', next_attempt_at = clock_timestamp(), attempt_count = 0,
          last_error = 'entry_lost', updated_at = clock_timestamp()
     FROM unnest($1::text[], $2::text[]) AS t(submit_id, entry_id)
    WHERE o.submit_id = t.submit_id AND o.status = 'published' AND o.stream_entry_id = t.entry_id
   RETURNING o.submit_id`,
);
