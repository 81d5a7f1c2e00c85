/** Step 4, and the sweeper's: claimed commands go to the stream in one pipeline, then are marked (C2). */
import { randomUUID } from "node:crypto";
import type { Session } from "../db/client.ts";
import {
  claimOwnCommands,
  type ClaimedCommand,
  commandStates,
  markPublished,
  markShadowed,
  markUnpublished,
  notShadowed,
} from "../db/outbox.ts";
import type { PublishAnswer } from "../domain/steps.ts";
import { atPoint } from "../fault-points/at-point.ts";
import type { Streams } from "../gateway-bridge/streams.ts";

export interface PublishDeps {
  database: Session;
  streams: Pick<Streams, "add" | "addToShadow">;
}

export const publishBatch =
  (deps: PublishDeps) =>
  async (attemptIds: string[]): Promise<PublishAnswer[]> => {
    const token = randomUUID();
    const claimed = await atPoint("publish_claim", () => claimOwnCommands(deps.database, token, attemptIds));
    const published = await publishClaimed(deps, token, claimed);
    const left = attemptIds.filter((id) => !published.has(id));
    const why = left.length === 0 ? new Map<string, PublishAnswer>() : await whyLeft(deps.database, left);
    await publishToShadow(
      deps,
      [...why].flatMap(([id, it]) => (isShadowed(it) ? [id] : [])),
    );
    return attemptIds.map((id) =>
      published.has(id) ? { kind: "published" } : (why.get(id) ?? leftBehind("stream_unavailable")),
    );
  };

/** The only way a command gets to its stream (C5). Answers the attempts whose command is there. */
export async function publishClaimed(
  deps: PublishDeps,
  token: string,
  claimed: readonly ClaimedCommand[],
): Promise<Set<string>> {
  if (claimed.length === 0) return new Set();
  const added = await atPoint("publish_add", () => deps.streams.add(claimed));
  const entries = added.flatMap((it) => ("entryId" in it ? [it] : []));
  if (entries.length > 0) {
    await atPoint("publish_mark", () => markPublished(deps.database, token, entries));
  }
  for (const error of ["stream_unavailable", "stream_refused"] as const) {
    const failed = added.flatMap((it) => ("error" in it && it.error === error ? [it.submitId] : []));
    if (failed.length > 0) await markUnpublished(deps.database, token, failed, error);
  }
  const there = new Set(entries.map((it) => it.submitId));
  return new Set(claimed.filter((it) => there.has(it.submitId)).map((it) => it.attemptId));
}

/**
 * In shadow the rows stay pending; what would have gone out is kept beside them, to be compared (C5). A
 * stream that does not answer costs a comparison and nothing else.
 */
async function publishToShadow(deps: PublishDeps, attemptIds: string[]): Promise<void> {
  if (attemptIds.length === 0) return;
  const commands = await notShadowed(deps.database, attemptIds);
  const payloads = new Map(commands.map((it) => [it.submitId, it.payload]));
  const added = await deps.streams.addToShadow(commands);
  const entries = added.flatMap((it) =>
    "entryId" in it ? [{ ...it, payload: payloads.get(it.submitId) ?? "" }] : [],
  );
  if (entries.length > 0) await markShadowed(deps.database, entries);
}

const isShadowed = (answer: PublishAnswer): boolean =>
  answer.kind === "left_to_sweeper" && answer.why === "shadow";

async function whyLeft(database: Session, attemptIds: string[]): Promise<Map<string, PublishAnswer>> {
  const states = await commandStates(database, attemptIds);
  return new Map(
    [...states].map(([id, { status, mode }]): [string, PublishAnswer] => {
      if (status === "published") return [id, { kind: "published" }];
      if (status === "dead") return [id, leftBehind("dead")];
      return [id, leftBehind(mode === "live" ? "stream_unavailable" : mode)];
    }),
  );
}

const leftBehind = (why: (PublishAnswer & { kind: "left_to_sweeper" })["why"]): PublishAnswer => ({
  kind: "left_to_sweeper",
  why,
});
