/** What happens to facts that are old: slices made ahead, dropped whole, and what goes by age. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, openDatabase } from "../db/client.ts";
import { storedKeyOf } from "../db/events.ts";
import { books } from "../db/ledger.ts";
import { replayNotification } from "../db/notifications.ts";
import { retain, type RetentionReport, type RetentionRules } from "../db/retention.ts";
import { readSlices } from "../db/slices.ts";
import { findMessage } from "../db/story.ts";
import { analyzeGrown } from "../db/table-statistics.ts";
import { type AttemptId, messageIdOf, notificationIdOf } from "../domain/ids.ts";
import {
  acceptedMessage,
  ask,
  countOf,
  DEMO,
  openFacts,
  only,
  queuedAttempt,
  receipt,
  receiptFor,
  response,
  settled,
  store,
  told,
  untilWaiting,
  written,
} from "./facts.ts";
import { freshDatabase, until, vault } from "./servers.ts";

const AUGUST = Date.parse("2026-08-15T12:00:00Z");
const DAY_OF_AUGUST = "20260801_20260901";
const KEEP: RetentionRules = {
  slice: "month",
  aheadDays: 45,
  keepDays: {
    messages: 30,
    supplierEvents: 30,
    idempotencyKeys: 30,
    admissions: 7,
    anomalies: 30,
    alerts: 30,
    audit: 30,
  },
};

let url: string;
let database: Database;

beforeEach(async () => {
  url = await freshDatabase();
  database = await openFacts(url);
  await ask(database, "SELECT add_slice('2026-08-01Z', '2026-09-01Z')");
});
afterEach(() => database.close());

const turn = (rules = KEEP, dryRun = false): Promise<RetentionReport> =>
  retain(database, rules, { actor: "sweeper", note: undefined }, dryRun);

const outcomes = ({ past }: RetentionReport): string[] =>
  past.map((it) => `${it.content} ${it.name} ${it.outcome}`);

/** A message of August that was delivered, with its events of August; its customer was told. */
async function oldMessage(): Promise<AttemptId> {
  const attempt = await queuedAttempt(database, { at: AUGUST, webhookUrl: "https://a.example/hook" });
  await written(database, attempt);
  await told(database, response(attempt), await receiptFor(database, attempt));
  await settled(database, attempt);
  await ask(database, "UPDATE notifications SET status = 'delivered', delivered_at = now()");
  await eventsOfAugust();
  return attempt;
}

/** As if everything that suppliers said had been said in August. */
async function eventsOfAugust(): Promise<void> {
  const august = "event_time('2026-08-15Z') | (id & 1048575)";
  await ask(database, `UPDATE supplier_event_keys SET event_id = ${august.replace("(id", "(event_id")}`);
  await ask(database, `UPDATE supplier_events SET id = ${august}`);
}

const alerts = async (): Promise<string[]> =>
  (
    await ask<{ alert: string }>(database, "SELECT kind || ' ' || subject AS alert FROM alerts ORDER BY 1")
  ).map((row) => row.alert);

describe("slices ahead of time", () => {
  it("are made until the days ahead are covered, once", async () => {
    const rules = { ...KEEP, aheadDays: 200 };
    expect((await turn(rules)).added).toBeGreaterThanOrEqual(3);
    expect((await turn(rules)).added).toBe(0);

    const { slices, nowMs } = await readSlices(database);
    const last = slices.at(-1);
    expect(last?.endsMs).toBeGreaterThan(nowMs + 200 * 86_400_000);
    expect(slices.filter((it) => it.endsMs === last?.endsMs).map((it) => it.content)).toEqual([
      "messages",
      "supplier_events",
    ]);
  });

  it("are asked for again where a table is locked, and keep nobody waiting", async () => {
    const release = await held(
      "LOCK TABLE notifications_default IN ROW EXCLUSIVE MODE",
      "notifications_default",
    );

    const making = turn({ ...KEEP, aheadDays: 100 });
    await untilWaiting(database, 1);
    const begun = performance.now();
    await acceptedMessage(database);
    expect(performance.now() - begun).toBeLessThan(4_000);
    await release();
    expect((await making).added).toBeGreaterThan(0);
  });

  it("take in what came before they were there, and say so until then", async () => {
    const early = await acceptedMessage(database, { at: Date.parse("2031-05-06T07:08:09Z") });
    expect(await turn()).toMatchObject({ withoutSlice: 1 });
    expect(await alerts()).toEqual(["rows_without_slice default partitions"]);

    await ask(database, "SELECT add_slice('2031-05-01Z', '2031-06-01Z')");

    expect(await turn()).toMatchObject({ withoutSlice: 0 });
    expect(await countOf(database, "messages_20310501_20310601 WHERE id = $1", [messageIdOf(early)])).toBe(1);
  });
});

describe("a slice that is past its time", () => {
  it("is dropped with everything about its messages, and the books still balance (D5, L)", async () => {
    const attempt = await oldMessage();

    const report = await turn();

    expect(outcomes(report)).toEqual([
      `messages ${DAY_OF_AUGUST} dropped`,
      `supplier_events ${DAY_OF_AUGUST} dropped`,
    ]);
    for (const table of ["messages", "attempts", "segments", "submit_outbox", "takes", "notifications"]) {
      expect(await countOf(database, table), table).toBe(0);
    }
    expect(await findMessage(database, DEMO.applicationId, messageIdOf(attempt))).toBeUndefined();
    expect(await books(database)).toMatchObject({ balanced: true, reserved: 325n, charged: 325n });
    expect(await countOf(database, "ledger_transfers WHERE message_id = $1", [messageIdOf(attempt)])).toBe(2);
    expect(await countOf(database, "audit_log WHERE action = 'drop_slice' AND actor = 'sweeper'")).toBe(2);
    expect(outcomes(await turn())).toEqual([]);
  });

  it("answers not found to a replay of its webhooks, and keeps a late receipt as unmatched (D14)", async () => {
    const attempt = await oldMessage();
    const late = await receiptFor(database, attempt, { stat: "UNDELIV" });
    await turn();

    const notification = notificationIdOf(messageIdOf(attempt), 0);
    expect(await replayNotification(database, DEMO.applicationId, notification)).toEqual({
      kind: "not_found",
    });
    expect(await told(database, late)).toMatchObject({ eventCount: 1, unmatched: 1, due: [] });
    expect(await books(database)).toMatchObject({ balanced: true, charged: 325n, refunded: 0n });
  });

  it("stands while a message in it is open, says so, and goes when it has ended", async () => {
    const open = await queuedAttempt(database, { at: AUGUST });

    expect((await turn()).past).toMatchObject([
      { content: "messages", outcome: "waits", open: { messages: 1, attempts: 1, notifications: 0 } },
      { content: "supplier_events", outcome: "dropped" },
    ]);
    expect(await alerts()).toEqual([`slice_waits messages ${DAY_OF_AUGUST}`]);
    expect(await countOf(database, "messages WHERE id = $1", [messageIdOf(open)])).toBe(1);

    await ask(database, "UPDATE messages SET expires_at = now() - interval '1 second'");
    await settled(database, open);
    await ask(database, "UPDATE notifications SET status = 'parked'");
    expect(outcomes(await turn())).toEqual([`messages ${DAY_OF_AUGUST} dropped`]);
  });

  it("stands while a notification of it is on its way (E1)", async () => {
    await oldMessage();
    await ask(database, "UPDATE notifications SET status = 'pending'");
    expect((await turn()).past[0]).toMatchObject({
      outcome: "waits",
      open: { messages: 0, notifications: 1 },
    });
  });

  it("stands while an answer in it is not folded; a receipt of nothing goes with it (D2, D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await store(database, response(attempt), receipt("00000000000000aa", "13900000000"));
    await eventsOfAugust();
    expect((await turn()).past).toMatchObject([
      { content: "messages" },
      { outcome: "waits", open: { events: 1 } },
    ]);

    await told(database);
    expect(outcomes(await turn())).toEqual([`supplier_events ${DAY_OF_AUGUST} dropped`]);
    expect(await countOf(database, "supplier_events")).toBe(0);
  });

  it("waits for whoever holds a table, without making others wait for long, and changes nothing", async () => {
    await oldMessage();
    const release = await held("SELECT count(*) FROM takes", "takes");

    const dropping = turn();
    await untilWaiting(database, 1);
    const begun = performance.now();
    await acceptedMessage(database);
    const waited = performance.now() - begun;
    const report = await dropping;
    await release();

    expect(report.past[0]).toMatchObject({ content: "messages", outcome: "busy" });
    expect(waited).toBeLessThan(3_000);
    expect(await countOf(database, `messages_${DAY_OF_AUGUST}`)).toBe(1);
    expect(outcomes(await turn())).toEqual([`messages ${DAY_OF_AUGUST} dropped`]);
  });

  it("is only looked at by a dry run", async () => {
    await oldMessage();
    expect(outcomes(await turn(KEEP, true))).toEqual([
      `messages ${DAY_OF_AUGUST} would_be_dropped`,
      `supplier_events ${DAY_OF_AUGUST} would_be_dropped`,
    ]);
    expect(await countOf(database, "messages")).toBe(1);
    expect(await countOf(database, "audit_log WHERE action = 'drop_slice'")).toBe(0);
  });

  it("is kept for ever where the days are 0, and until they are over", async () => {
    await oldMessage();
    for (const days of [0, 1_000]) {
      const keepDays = { ...KEEP.keepDays, messages: days, supplierEvents: days };
      expect(outcomes(await turn({ ...KEEP, keepDays }))).toEqual([]);
    }
  });

  it("is dropped by one of two who want to", async () => {
    await oldMessage();
    const reports = await Promise.all([turn(), turn()]);
    const dropped = reports.flatMap(outcomes).filter((it) => it.endsWith("dropped"));
    expect(dropped.sort()).toEqual([
      `messages ${DAY_OF_AUGUST} dropped`,
      `supplier_events ${DAY_OF_AUGUST} dropped`,
    ]);
  });
});

describe("what goes by age", () => {
  it("is purged when it is older than its days, and not before", async () => {
    await ask(
      database,
      `WITH key AS (
         INSERT INTO idempotency_keys (application_id, key, body_hash, answer_sealed, created_at)
         SELECT 'app_demo', n::text, '', '', now() - n * interval '1 day' FROM unnest(array[1, 29, 31, 400]) n),
       admission AS (
         INSERT INTO admissions (message_id, enterprise_id, application_id, number_hash, counted_at, day, number_of_day)
         SELECT 'msg_' || n, 'ent_demo', 'app_demo', 'x', now(), (now() AT TIME ZONE 'Asia/Shanghai')::date - n, 1
           FROM unnest(array[0, 6, 9]) n),
       anomaly AS (
         INSERT INTO anomalies (kind, created_at) SELECT 'k', now() - n * interval '1 day' FROM unnest(array[31, 1]) n),
       alert AS (
         INSERT INTO alerts (kind, subject, raised_at, cleared_at)
         SELECT 'k', n::text, now() - interval '90 days', CASE WHEN n > 0 THEN now() - n * interval '1 day' END
           FROM unnest(array[0, 31, 1]) n)
       INSERT INTO audit_log (at, actor, action, subject, effect)
       SELECT now() - n * interval '1 day', 'a', 'b', 'c', 'd' FROM unnest(array[31, 1]) n`,
    );

    expect((await turn()).purged).toEqual({
      idempotencyKeys: 2,
      admissions: 1,
      anomalies: 1,
      alerts: 1,
      audit: 1,
      eventKeys: 0,
    });
    expect((await turn()).purged).toMatchObject({ idempotencyKeys: 0, admissions: 0, alerts: 0, audit: 0 });
    expect(await countOf(database, "alerts WHERE cleared_at IS NULL AND kind = 'k'")).toBe(1);
  });

  it("counts the keys of events whose slice is gone: what is said again then is a new event (D2)", async () => {
    await oldMessage();
    const kept = receipt("00000000000000bb", "13900000001");
    await store(database, kept);

    expect((await turn()).purged).toMatchObject({ eventKeys: 2 });
    expect(await only(database, "SELECT event_key FROM supplier_event_keys")).toEqual({
      event_key: storedKeyOf(vault, kept),
    });
  });
});

it("statistics of the partitioned tables are renewed when they have doubled", async () => {
  await ask(
    database,
    `INSERT INTO batches (id, application_id, item_count)
     SELECT 'bat_' || id_time(now()) || n, 'app_demo', 1 FROM generate_series(1, 3000) n`,
  );
  await ask(database, "SELECT pg_stat_force_next_flush()");
  expect(await analyzeGrown(database, url)).toContain("batches");
  expect(await analyzeGrown(database, url)).not.toContain("batches");
});

/** Another session begins a transaction with this statement, and ends it when it is released. */
async function held(sql: string, table: string): Promise<() => Promise<void>> {
  const other = openDatabase(url, "operations", 1, vault);
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const holding = other.transaction(async (tx) => {
    await ask(tx, sql);
    await released;
  });
  await until(`${table} is locked`, async () =>
    (await countOf(database, "pg_locks WHERE relation = $1::regclass AND pid <> pg_backend_pid()", [table])) >
    0
      ? true
      : undefined,
  );
  return async () => {
    release();
    await holding;
    await other.close();
  };
}
