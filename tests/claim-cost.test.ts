/**
 * What a claim reads does not grow with what was sent before: each polling query is explained with many old
 * messages in the tables, and may read so many pages and no more (issue: cost must not grow).
 */
import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { persistAttempts } from "../db/attempts.ts";
import type { Database, Session } from "../db/client.ts";
import { claimDueAttempts, overdueDecisions, overdueLimits } from "../db/due-attempts.ts";
import { storeEvents } from "../db/events.ts";
import { foldEvents } from "../db/folding.ts";
import { acceptMessages } from "../db/inbox.ts";
import { claimNotifications, parkOverdue, recordDelivered } from "../db/notifications.ts";
import { claimLeftBehind, claimOwnCommands, markPublished, publishedButNotTaken } from "../db/outbox.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { unreviewed } from "../db/reviews.ts";
import { settle } from "../db/settlement.ts";
import { overdueWrites, take } from "../db/takes.ts";
import { nextUntold } from "../db/untold.ts";
import { attemptIdOf, type AttemptId, messageIdFrom, submitIdOf } from "../domain/ids.ts";
import { describeText } from "../domain/segment.ts";
import {
  ask,
  DEMO,
  freshNumber,
  holder,
  idOf,
  openFacts,
  pagesRead,
  planned,
  PRICE,
  receipt,
  response,
  write,
} from "./facts.ts";

const OLD_BATCHES = 60;
const BATCH = 50;
/** Of these a claim may read all: what is under way is bounded by windows and pace. */
const OPEN = 8;
/** Claimed at a time here: each costs the pages of its update. */
const ROWS = 8;
/** Fewer than the old rows of any table fill: whoever looks at all of them cannot stay below. */
const MOST_PAGES = 100;

let database: Database;
beforeAll(async () => {
  database = await openFacts();
  for (let i = 0; i < OLD_BATCHES; i++) {
    await finish(await accept(BATCH));
    // As autovacuum does in time: until then a new table's plans are guesses, and what left an index is in it.
    if (i % 8 === 0) await ask(database, "VACUUM ANALYZE");
  }
  // Some of everything that is still to be done, so that the claims have something to find.
  await queue(await accept(OPEN));
  await accept(OPEN);
  await ask(database, "VACUUM ANALYZE");
}, 240_000);
afterAll(() => database.close());

async function accept(count: number): Promise<{ attempt: AttemptId; number: string }[]> {
  const text = "hello";
  const made = Array.from({ length: count }, () => ({
    id: messageIdFrom(Date.now(), randomBytes(10)),
    number: freshNumber(),
  }));
  await acceptMessages(database, {
    sender: { enterpriseId: "ent_demo", ...DEMO, currency: "CNY", unitPriceUnits: PRICE },
    messages: made.map(({ id, number }) => ({
      id,
      number,
      text,
      ...describeText(text),
      reference: undefined,
      webhookUrl: "http://127.0.0.1:1/hook",
      validitySeconds: 3_600,
    })),
    answer: {},
  });
  return made.map(({ id, number }) => ({ attempt: attemptIdOf(id, 1), number }));
}

async function queue(made: readonly { attempt: AttemptId }[]): Promise<void> {
  const attempts = made.map((it) => it.attempt);
  await database.transaction((tx) => reserveForAttempts(tx, attempts));
  await database.transaction((tx) =>
    persistAttempts(
      tx,
      attempts.map((it) => planned(it, 1)),
    ),
  );
}

/** From the outbox to the customer, by the statements that do it every day. */
async function finish(made: readonly { attempt: AttemptId; number: string }[]): Promise<void> {
  await queue(made);
  const attempts = made.map((it) => it.attempt);
  const token = randomUUID();
  await claimOwnCommands(database, token, attempts);
  await markPublished(
    database,
    token,
    attempts.map((it) => ({ submitId: submitIdOf(it), entryId: "1-0" })),
  );
  await take(
    database,
    holder(),
    attempts.map((it) => write(it)),
  );
  await storeEvents(
    database,
    attempts.map((it) => response(it)),
  );
  await storeEvents(
    database,
    made.map(({ attempt, number }) => receipt(idOf(attempt), number)),
  );
  let full = true;
  while (full) full = (await database.transaction((tx) => foldEvents(tx, 1_000))).eventCount > 0;
  await database.transaction((tx) => settle(tx, attempts));
  await tellCustomers();
}

const claimAll = (on: Session, token: string, limit: number) =>
  claimNotifications(on, { token, limit, leaseMs: 60_000, allowedAtFirst: limit, loads: [], crowded: [] });

async function tellCustomers(): Promise<void> {
  const token = randomUUID();
  const claimed = await claimAll(database, token, BATCH);
  await Promise.all(
    claimed.map(({ id }) =>
      recordDelivered(database, { id, token, httpStatus: 204, error: null, durationMs: 1 }),
    ),
  );
}

/** Pages that the statements of `work` read, by PostgreSQL's own account; nothing of it is kept. */
async function pagesOf(work: (on: Session) => Promise<unknown>): Promise<number> {
  let pages = 0;
  const undo = new Error("undone on purpose");
  const run = database.transaction(async (tx) => {
    await work({
      ...tx,
      async run(what, values) {
        pages += await pagesRead(tx, what.text, values);
        return [];
      },
    });
    throw undo;
  });
  await run.catch((error: unknown) => {
    if (error !== undo) throw error;
  });
  return pages;
}

const CLAIMS: Record<string, (on: Session) => Promise<unknown>> = {
  "attempts that are due": (on) => claimDueAttempts(on, ROWS),
  "commands left behind": (on) => claimLeftBehind(on, randomUUID(), ROWS),
  "published commands that nobody took": (on) => publishedButNotTaken(on, "", ROWS),
  "events to fold": (on) => foldEvents(on, 100),
  "writes without an answer": (on) => overdueWrites(on, 3_000, ROWS),
  "decisions that are due": (on) => overdueDecisions(on, 5_000, ROWS),
  "messages past their limit": (on) => overdueLimits(on, 5_000, ROWS),
  "workflows to be told": (on) => nextUntold(on, ROWS),
  "what needs a person": (on) => unreviewed(on, 300_000, ROWS),
  notifications: (on) => claimAll(on, randomUUID(), ROWS),
  "notifications of dead hosts": (on) => parkOverdue(on, 60_000, 100),
};

describe("with thousands of old messages", () => {
  it("what was made is old: everything of it has ended", async () => {
    const [row] = await ask<{ done: bigint; told: bigint }>(
      database,
      `SELECT (SELECT count(*) FROM messages WHERE final_at IS NOT NULL) AS done,
              (SELECT count(*) FROM notifications WHERE status = 'delivered') AS told`,
    );
    expect(row).toEqual({ done: BigInt(OLD_BATCHES * BATCH), told: BigInt(OLD_BATCHES * BATCH) });
  });

  it("a query that reads a whole table would be noticed here", async () => {
    expect(await pagesOf((on) => ask(on, "SELECT max(price_units) FROM messages"))).toBeGreaterThan(
      MOST_PAGES,
    );
  });

  it.each(Object.entries(CLAIMS))("the claim of %s reads a bounded number of pages", async (_name, claim) => {
    expect(await pagesOf(claim)).toBeLessThan(MOST_PAGES);
  });
});
