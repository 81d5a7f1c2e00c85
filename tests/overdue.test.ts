/** Work that nobody does raises an alert, whatever the reason, and the alert stays (K). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import type { FoldedBatch } from "../db/folding.ts";
import { listReviews } from "../db/ops.ts";
import { alertOverdue } from "../db/overdue.ts";
import { openReviews } from "../db/reviews.ts";
import { messageIdOf } from "../domain/ids.ts";
import { foldBatch } from "../workers/fold-batch.ts";
import {
  acceptedMessage,
  ask,
  countOf,
  openFacts,
  passLimit,
  queuedAttempt,
  receiptFor,
  response,
  segmentsOf,
  store,
  told,
  written,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());
beforeEach(() =>
  ask(
    database,
    `TRUNCATE messages, inbox, attempts, segments, takes, submit_outbox, supplier_events, alerts CASCADE`,
  ),
);

const OVERDUE_MS = 300_000;
/** Ids hold the time at which a message was accepted, which no test can move: the clock moves instead. */
const look = (): Promise<string[]> => alertOverdue(database, OVERDUE_MS, Date.now() + 20 * 60_000);
const openAlerts = (): Promise<{ kind: string; subject: string; detail: string }[]> =>
  ask(database, `SELECT kind, subject, detail FROM alerts WHERE cleared_at IS NULL ORDER BY id`);
const age = (table: string, column: string): Promise<unknown> =>
  ask(database, `UPDATE ${table} SET ${column} = ${column} - interval '20 minutes'`);

describe("work that has been due for more than five minutes", () => {
  const stages: { stage: string; begin: () => Promise<unknown>; age: [string, string] }[] = [
    { stage: "start", begin: () => acceptedMessage(database), age: ["messages", "created_at"] },
    { stage: "publish", begin: () => queuedAttempt(database), age: ["submit_outbox", "next_attempt_at"] },
    {
      stage: "answer",
      begin: async () => written(database, await queuedAttempt(database)),
      age: ["takes", "taken_at"],
    },
    {
      stage: "fold",
      begin: async () => {
        const attempt = await queuedAttempt(database);
        await written(database, attempt);
        await store(database, response(attempt));
      },
      age: ["supplier_events", "due_at"],
    },
    {
      stage: "settle",
      begin: async () => {
        const attempt = await queuedAttempt(database);
        await written(database, attempt);
        await told(database, response(attempt, { answer: "rejected" }));
      },
      age: ["attempts", "due_at"],
    },
    {
      stage: "expire",
      begin: async () => passLimit(database, await queuedAttempt(database)),
      age: ["messages", "expires_at"],
    },
  ];

  it.each(stages)(
    "alerts once a stage, and stays until a person clears it: $stage (K)",
    async ({ stage, begin, age: [table, column] }) => {
      await begin();
      expect(await look()).toEqual([]);

      await age(table, column);
      expect(await look()).toEqual([stage]);
      expect(await look()).toEqual([]);
      expect(await openAlerts()).toMatchObject([{ kind: "work_overdue", subject: stage }]);

      await ask(
        database,
        `TRUNCATE messages, inbox, attempts, segments, takes, submit_outbox, supplier_events CASCADE`,
      );
      expect(await look()).toEqual([]);
      expect(await openAlerts()).toHaveLength(1);
    },
  );

  it("is not a command that an operator holds back (C5)", async () => {
    await queuedAttempt(database);
    await age("submit_outbox", "next_attempt_at");
    await ask(
      database,
      `INSERT INTO publication (mode) VALUES ('paused') ON CONFLICT (singleton) DO UPDATE SET mode = 'paused'`,
    );
    try {
      expect(await look()).toEqual([]);
    } finally {
      await ask(database, `UPDATE publication SET mode = 'live'`);
    }
    expect(await look()).toEqual(["publish"]);
  });

  it("counts from when an attempt fell due, however often it was claimed since", async () => {
    await acceptedMessage(database);
    await age("messages", "created_at");
    await ask(database, `UPDATE inbox SET due_at = now() + interval '1 second', start_count = 0`);
    expect(await look()).toEqual(["start"]);
  });
});

describe("an event that cannot be folded", () => {
  const idsOf = ({ due }: FoldedBatch): string[] => due.map((it) => it.attemptId);

  it("is set aside with an alert, and the others of its batch are folded at once (D2)", async () => {
    const poisoned = await queuedAttempt(database);
    const healthy = [await queuedAttempt(database), await queuedAttempt(database)];
    const attempts = [poisoned, ...healthy];
    for (const it of attempts) await written(database, it);
    await ask(
      database,
      `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN IF NEW.attempt_id = '${poisoned}' THEN RAISE EXCEPTION '13800000000 is poison'; END IF; RETURN NEW; END $$;
       CREATE TRIGGER poison BEFORE UPDATE ON segments FOR EACH ROW EXECUTE FUNCTION poison()`,
    );
    await store(database, ...attempts.map((it) => response(it)));
    await store(database, ...(await Promise.all(attempts.map((it) => receiptFor(database, it)))));
    const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
    let due: string[];
    try {
      due = idsOf(await foldBatch({ database, log: quiet }, 100));
    } finally {
      await ask(database, `DROP TRIGGER poison ON segments; DROP FUNCTION poison()`);
    }

    expect(due.toSorted()).toEqual(healthy.toSorted());
    expect(await segmentsOf(database, poisoned)).toMatchObject([{ result: null }]);
    const alerts = await openAlerts();
    expect(new Set(alerts.map((it) => `${it.kind} ${it.detail}`))).toEqual(
      new Set(["event_not_folded P0001"]),
    );
    // Nothing is lost: it waits, and folds once the fault is gone.
    expect(
      await countOf(database, "supplier_events WHERE folded_at IS NULL AND due_at > received_at"),
    ).toBeGreaterThan(0);
    expect(idsOf(await told(database))).toEqual([poisoned]);
  });
});

describe("the list of reviews", () => {
  it("shows the one review that is open behind 10,000 that wait", async () => {
    const attempt = await queuedAttempt(database);
    await ask(
      database,
      `INSERT INTO reviews (attempt_id, message_id, reason, since, waiting_since)
       SELECT '${attempt}_' || n, $1, 'outcome_unknown', now() - interval '1 day', now()
         FROM generate_series(1, 10000) n`,
      [messageIdOf(attempt)],
    );
    await openReviews(database, [{ attemptId: attempt, reason: "command_dead" }]);
    await ask(database, `ANALYZE reviews`);

    expect((await listReviews(database, undefined, 10)).map((it) => it.attempt_id)).toEqual([attempt]);
  });
});
