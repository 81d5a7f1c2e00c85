/**
 * Puts right what a crash left between two steps: committed and not published, published and not
 * taken, written and not answered, due and not told, limit passed, workflow missing (C4, D10, I).
 * Every turn ends when nothing is due; no scan can be filled by rows that it must skip.
 */
import { randomUUID } from "node:crypto";
import { publishClaimed } from "../activities/publish.ts";
import type { Database } from "../db/client.ts";
import { readDeploymentFact, writeDeploymentFact } from "../db/deployment-facts.ts";
import { overdueDecisions, overdueLimits, type Page, rebuildPage, startAgain } from "../db/due-attempts.ts";
import { storeEvents } from "../db/events.ts";
import { claimLeftBehind, publishAgain, publishedButNotTaken, type UntakenCommand } from "../db/outbox.ts";
import { alertOverdue } from "../db/overdue.ts";
import { openReviews, unreviewed } from "../db/reviews.ts";
import { overdueWrites } from "../db/takes.ts";
import { publishesAnything } from "../db/publication.ts";
import { addUntold, nextUntold, removeUntold } from "../db/untold.ts";
import { noResponseEventKey } from "../domain/ids.ts";
import { atPoint } from "../fault-points/at-point.ts";
import type { Streams } from "../gateway-bridge/streams.ts";
import type { TemporalConfig } from "./config.ts";
import type { Metrics } from "./metrics.ts";
import { every, type Log, type Loop, loop } from "./service.ts";
import type { Tells } from "./tells.ts";
import { namespaceIdentity, type Temporal } from "./temporal.ts";

interface Deps {
  database: Database;
  streams: Streams;
  temporal: Temporal;
  tells: Tells;
  metrics: Metrics;
  log: Log;
}

/** Beyond the response timeout, so that the gateway itself is usually first to notice. */
const UNANSWERED_GRACE_MS = 3_000;
const UNTOLD_AFTER_MS = 5_000;
/** The workflow's own timer ends a message first. */
const PAST_LIMIT_GRACE_MS = 5_000;
/** An outcome that stays unknown for so long is listed for a person (D12). */
const UNKNOWN_FOR_MS = 300_000;
const REBUILD_PAGE = 1_000;
/** Work that is due for longer, whatever holds it up, is somebody's to look at (K). */
const OVERDUE_MS = 300_000;
const LOOK_FOR_OVERDUE_MS = 30_000;

/** One loop a concern, so that one that fails or waits does not hold up the others. */
export function createSweeper(deps: Deps, config: TemporalConfig["sweeper"]): Loop[] {
  const sweep = (kind: string, turn: (batch: number) => Promise<number>): Loop =>
    loop({
      name: `sweep_${kind}`,
      log: deps.log,
      pause: every(config.everyMs),
      async turn() {
        const did = await turn(config.batch);
        if (did > 0) {
          deps.metrics.recoveries.inc({ kind }, did);
          deps.log.info({ kind, count: did }, "put right what was left behind");
        }
        return { did, full: did >= config.batch };
      },
    });
  return [
    sweep("unpublished", (batch) => publishLeftBehind(deps, batch)),
    sweep("lost_from_stream", (batch) => publishLost(deps, batch)),
    sweep("unanswered", (batch) => callUnknown(deps, batch)),
    sweep("decided_elsewhere", (batch) => tellUntold(deps, batch)),
    sweep("untold", (batch) =>
      tellPages(deps, (start) => overdueDecisions(deps.database, UNTOLD_AFTER_MS, batch, start)),
    ),
    sweep("unreviewed", (batch) => openReviewsFor(deps, batch)),
    sweep("past_limit", (batch) =>
      tellPages(deps, (start) => overdueLimits(deps.database, PAST_LIMIT_GRACE_MS, batch, start)),
    ),
    sweep("workflow_missing", () => rebuildIfTemporalIsNew(deps)),
    loop({
      name: "alert_overdue",
      log: deps.log,
      pause: every(LOOK_FOR_OVERDUE_MS),
      turn: () => alertOf(deps),
    }),
  ];
}

async function alertOf(deps: Deps): Promise<{ did: number; full: boolean }> {
  const stages = await alertOverdue(deps.database, OVERDUE_MS, Date.now());
  for (const stage of stages) deps.log.error({ stage }, "work is overdue");
  return { did: stages.length, full: false };
}

async function publishLeftBehind(deps: Deps, batch: number): Promise<number> {
  if (!(await publishesAnything(deps.database))) return 0;
  // Asked before anything is claimed: while Redis is away no try is counted (D12).
  await deps.streams.ping();
  const token = randomUUID();
  const claimed = await claimLeftBehind(deps.database, token, batch);
  if (claimed.length === 0) return 0;
  await atPoint("sweep_publish", () => publishClaimed(deps, token, claimed));
  return claimed.length;
}

/** Walks all candidates in pages: those whose entry still stands cannot hide one that is lost. */
async function publishLost(deps: Deps, batch: number): Promise<number> {
  let put = 0;
  let after = "";
  for (;;) {
    const page = await publishedButNotTaken(deps.database, after, batch);
    const lost: UntakenCommand[] = [];
    for (const it of page) {
      if (!(await deps.streams.entryIsAlive(it.channelId, it.entryId))) lost.push(it);
    }
    if (lost.length > 0) put += await atPoint("sweep_lost", () => publishAgain(deps.database, lost));
    const last = page.at(-1);
    if (last === undefined || page.length < batch) return put;
    after = last.submitId;
  }
}

/** A take without an outcome, and nobody left to wait for it: the outcome is unknown, never guessed (I). */
async function callUnknown(deps: Deps, batch: number): Promise<number> {
  const writes = await overdueWrites(deps.database, UNANSWERED_GRACE_MS, batch);
  if (writes.length === 0) return 0;
  const events = writes.map((it) => ({
    key: noResponseEventKey(it.submitId, it.part, it.writeNumber),
    kind: "no_response" as const,
    supplierId: it.supplierId,
    slot: it.slot,
    epoch: it.epoch,
    attemptId: it.attemptId,
    submitId: it.submitId,
    part: it.part,
    writeNumber: it.writeNumber,
  }));
  await atPoint("sweep_unanswered", () => storeEvents(deps.database, events));
  deps.streams.wake("events");
  return writes.length;
}

/** All pages each turn: attempts that give no answer cannot hide those behind them. */
async function tellPages(deps: Deps, read: (start: Page["next"]) => Promise<Page>): Promise<number> {
  let told = 0;
  let start: Page["next"];
  do {
    const page = await read(start);
    told += await tellAll(deps, page.attemptIds);
    start = page.next;
  } while (start !== undefined);
  return told;
}

/** A workflow that is not there is started again from the facts; one that does not answer is retried. */
async function tellAll(deps: Deps, attemptIds: string[]): Promise<number> {
  if (attemptIds.length === 0) return 0;
  const outcomes = await atPoint("sweep_told", () =>
    Promise.all(attemptIds.map((id) => deps.tells.tellNow(id))),
  );
  const missing = attemptIds.filter((_, index) => outcomes[index] === "no_workflow");
  if (missing.length > 0) await startAgain(deps.database, missing);
  // Those that gave no answer are not progress: the next turn comes after the pause.
  return outcomes.filter((outcome) => outcome !== "no_answer").length;
}

/** What no rule may decide becomes visible: stored, alerting, and shown by its workflow (C7, D12). */
async function openReviewsFor(deps: Deps, batch: number): Promise<number> {
  const opened = await openReviews(deps.database, await unreviewed(deps.database, UNKNOWN_FOR_MS, batch));
  await addUntold(deps.database, opened);
  return opened.length;
}

/** Committed without their workflow, by a cancel or above: it is told until it has heard. */
async function tellUntold(deps: Deps, batch: number): Promise<number> {
  const attemptIds = await nextUntold(deps.database, batch);
  const outcomes = await Promise.all(attemptIds.map((id) => deps.tells.tellNow(id)));
  const heard = attemptIds.filter((_, index) => outcomes[index] !== "no_answer");
  await removeUntold(deps.database, heard);
  return heard.length;
}

const nextPage = (database: Database, after: string): Promise<string | undefined> =>
  atPoint("sweep_rebuild", () => rebuildPage(database, after, REBUILD_PAGE));

/** Another namespace than the one that the open workflows lived in: all of them are rebuilt. */
async function rebuildIfTemporalIsNew(deps: Deps): Promise<number> {
  const identity = await namespaceIdentity(deps.temporal);
  const known = await readDeploymentFact(deps.database, "temporal_namespace_id");
  if (known === identity) return 0;
  let pages = 0;
  if (known !== undefined) {
    let after: string | undefined = "";
    while ((after = await nextPage(deps.database, after)) !== undefined) pages++;
    deps.log.warn({ pages }, "Temporal's data is new: open attempts are started again from their facts");
  }
  await writeDeploymentFact(deps.database, "temporal_namespace_id", identity);
  return pages === 0 ? 0 : 1;
}
