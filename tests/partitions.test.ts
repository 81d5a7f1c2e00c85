/**
 * Tables partitioned by time: what their rows came through the migration as, what a border of two
 * partitions must not change, and that a look-up touches the one partition that holds what it looks for.
 */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Database, openDatabase, type Session } from "../db/client.ts";
import { persistAttempts } from "../db/attempts.ts";
import { storedKeyOf, type SupplierEvent } from "../db/events.ts";
import { findBatch } from "../db/queries.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { settle } from "../db/settlement.ts";
import { findMessage } from "../db/story.ts";
import { partStates, take } from "../db/takes.ts";
import { messageIdFrom, messageIdOf, sortableId, submitIdOf } from "../domain/ids.ts";
import {
  acceptedMessage,
  ask,
  countOf,
  DEMO,
  freshNumber,
  holder,
  openFacts,
  only,
  persist,
  planned,
  queuedAttempt,
  refusal,
  receipt,
  receiptFor,
  reservedMessage,
  response,
  settled,
  store,
  successorOf,
  told,
  write,
  written,
} from "./facts.ts";
import { bringTo, databaseBefore } from "./older-versions.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
  for (const [from, to] of [
    ["2026-08-01Z", "2026-09-01Z"],
    ["2026-09-01Z", "2026-10-01Z"],
  ]) {
    await ask(database, "SELECT add_slice($1, $2)", [from, to]);
  }
});
afterAll(() => database.close());

describe("the migration", () => {
  it("brings every row of the tables as they were into the partitions of its time", async () => {
    const url = await databaseBefore("0004_partitions");
    const before = openDatabase(url, "operations", 2);
    try {
      await ask(before, await readFile(new URL("rows-before-partitions.sql", import.meta.url), "utf8"));
      const rows = await rowsOf(before);

      await bringTo(url, "0004_partitions");

      expect(await rowsOf(before)).toEqual(rows);
      const where = await ask<{ parent: string; partition: string }>(
        before,
        TABLES.map((it) => `SELECT '${it}' AS parent, tableoid::regclass::text AS partition FROM ${it}`).join(
          " UNION ",
        ),
      );
      expect(where.map((it) => it.partition.slice(it.parent.length))).toEqual(
        TABLES.map(() => "_20260901_20261001"),
      );
    } finally {
      await before.close();
    }
  });

  it("keeps what was said, and how often, with the event under its new id (D2)", async () => {
    const url = await databaseBefore("0004_partitions");
    const before = openDatabase(url, "operations", 2);
    try {
      await ask(before, await readFile(new URL("rows-before-partitions.sql", import.meta.url), "utf8"));
      await bringTo(url, "0004_partitions");

      expect(
        await only(
          before,
          `SELECT k.event_key, k.copy_count, e.stat, n.kind
             FROM supplier_event_keys k JOIN supplier_events e ON e.id = k.event_id
             JOIN anomalies n ON n.event_id = e.id`,
        ),
      ).toEqual({ event_key: "receipt:1", copy_count: 3, stat: "DELIVRD", kind: "late_receipt_contradicts" });
    } finally {
      await before.close();
    }
  });
});

const TABLES = [
  "attempts",
  "batches",
  "messages",
  "notification_tries",
  "notifications",
  "segments",
  "submit_outbox",
  "supplier_events",
  "takes",
];

/** All rows of the partitioned tables, but for what the migration gives a new form. */
const rowsOf = async (session: Session): Promise<unknown[]> => {
  const all = await Promise.all(
    TABLES.map((it) => ask<{ row: object }>(session, `SELECT to_jsonb(t) AS row FROM ${it} t`)),
  );
  return all.flat().map(({ row }) => {
    const { copy_count: _copies, ...rest } = row as Record<string, unknown>;
    return "epoch" in rest && "kind" in rest && !("owner" in rest) ? { ...rest, id: undefined } : rest;
  });
};

describe("bounds", () => {
  it("cut where ids of that moment begin", async () => {
    for (const at of ["2026-12-01T00:00:00Z", "2027-03-28T01:59:59.999Z", "1999-01-01T00:00:00Z"]) {
      const { prefix } = await only<{ prefix: string }>(database, "SELECT id_time($1) AS prefix", [at]);
      expect(sortableId(Date.parse(at), new Uint8Array(10)).slice(0, 10)).toBe(prefix);
    }
  });

  it("leave nothing without a place: what no slice is for goes to the default partition, and moves with its slice", async () => {
    const id = messageIdFrom(Date.parse("2031-05-06T07:08:09Z"), Buffer.alloc(10, 7));
    await ask(
      database,
      `INSERT INTO messages (id, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed,
         encoding, segment_count, unit_price_units, price_units, currency, current_attempt_id, expires_at)
       VALUES ($1, 'ent_demo', 'app_demo', 'acc_demo', '', '', '', 'ascii', 1, 325, 325, 'CNY', 'att', now())`,
      [id],
    );
    expect(await partitionOf(id)).toBe("messages_default");

    await ask(database, "SELECT add_slice('2031-05-01Z', '2031-06-01Z')");

    expect(await partitionOf(id)).toBe("messages_20310501_20310601");
  });

  const partitionOf = async (id: string): Promise<string> =>
    (
      await only<{ name: string }>(
        database,
        "SELECT tableoid::regclass::text AS name FROM messages WHERE id = $1",
        [id],
      )
    ).name;
});

describe("guards that are no key of the whole table", () => {
  it("let an attempt have one successor, ever, under whatever id (D6)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt, { answer: "rejected" }));
    expect(await settled(database, attempt)).toEqual({ kind: "retrying", successorId: successorOf(attempt) });

    const second = (id: string, number: number, run: typeof ask | typeof refusal = ask): Promise<unknown> =>
      run(
        database,
        `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
                               outcome, decided_at, segment_count)
         SELECT $2, message_id, enterprise_id, application_id, $3, $1, 'sub_' || substr($2, 5), 'decided', 'failed',
                now(), 1 FROM attempts WHERE id = $1`,
        [attempt, id, number],
      );
    expect(await second(successorOf(attempt), 2, refusal)).toBe("23505");
    await expect(second(successorOf(successorOf(attempt)), 3)).rejects.toMatchObject({
      constraint: "attempts_retry_of",
    });
    await expect(second(`${attempt}b`, 2)).rejects.toMatchObject({ constraint: "attempts_id" });
    const elsewhere = await acceptedMessage(database);
    await expect(second(elsewhere, 2)).rejects.toMatchObject({ constraint: "attempts_id" });
  });

  it("let a message have one undecided attempt, in every partition", async () => {
    const attempt = await queuedAttempt(database);
    expect(
      await refusal(
        database,
        `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
                               segment_count)
         SELECT $2, message_id, enterprise_id, application_id, 2, id, 'sub_' || substr($2, 5), 'planned', 1
           FROM attempts WHERE id = $1`,
        [attempt, successorOf(attempt)],
      ),
    ).toBe("23505");
    expect(
      await partitionsWithout("attempts", "UNIQUE INDEX % (message_id) WHERE (decided_at IS NULL)"),
    ).toEqual([]);
  });

  it("let a message have one notification a target, in every partition (E1)", async () => {
    const attempt = await queuedAttempt(database);
    const insert = (id: string, run: typeof ask | typeof refusal = ask): Promise<unknown> =>
      run(
        database,
        "INSERT INTO notifications (id, message_id, application_id, url, body_sealed) VALUES ($1, $2, 'app_demo', 'http://a/', '')",
        [id, messageIdOf(attempt)],
      );
    const id = `evt_${messageIdOf(attempt).slice(4)}`;
    await insert(id);
    expect(await insert(`${id}_1`, refusal)).toBe("23505");
    await expect(insert("evt_other")).rejects.toMatchObject({ constraint: "notifications_of_message" });
    expect(await partitionsWithout("notifications", "UNIQUE INDEX % (message_id, url)")).toEqual([]);
  });

  /** Partitions that lack an index of this definition. */
  const partitionsWithout = (parent: string, definition: string): Promise<unknown[]> =>
    ask(
      database,
      `SELECT i.inhrelid::regclass::text FROM pg_inherits i
        WHERE i.inhparent = $1::regclass
          AND NOT EXISTS (SELECT FROM pg_indexes x WHERE x.tablename = i.inhrelid::regclass::text
                             AND x.indexdef LIKE '%' || $2)`,
      [parent, definition],
    );
});

describe("a border between two partitions", () => {
  it("makes no second event of a receipt that is repeated after it (D2)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    const copy = await receiptFor(database, attempt);
    await told(database, response(attempt), copy);
    await beforeTheBorder(copy);

    await Promise.all([store(database, copy), store(database, copy, copy)]);
    await told(database);

    const { event_id: id, copy_count: copies } = await keyOf(copy);
    expect(copies).toBe(3);
    expect(
      await countOf(database, "supplier_events WHERE kind = 'receipt' AND attempt_id = $1", [attempt]),
    ).toBe(1);
    expect(await countOf(database, "supplier_events_20260901_20261001 WHERE id = $1", [id])).toBe(1);
  });

  it("lets a copy wake an event that lies behind it (D2)", async () => {
    const early = receipt("00000000000000aa", freshNumber());
    await store(database, early);
    await beforeTheBorder(early);
    await ask(
      database,
      "UPDATE supplier_events SET due_at = now() + interval '1 hour' WHERE folded_at IS NULL",
    );

    await store(database, early);

    const { event_id: id } = await keyOf(early);
    expect(await countOf(database, "supplier_events WHERE id = $1 AND due_at <= now()", [id])).toBe(1);
    await ask(database, "UPDATE supplier_events SET folded_at = now(), fate = 'foreign' WHERE id = $1", [id]);
  });

  it("finds the part of a message that lies behind it (D14)", async () => {
    const attempt = await queuedAttempt(database, { at: Date.parse("2026-09-30T23:59:59.999Z") });
    await written(database, attempt);
    await told(database, response(attempt), await receiptFor(database, attempt));

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });
    expect(await countOf(database, "messages_20260901_20261001 WHERE status = 'delivered'")).toBe(1);
  });

  const keyOf = (event: SupplierEvent) =>
    only<{ event_id: bigint; copy_count: number }>(
      database,
      "SELECT event_id, copy_count FROM supplier_event_keys WHERE event_key = $1",
      [storedKeyOf(database.vault, event)],
    );

  /** As if the event had been stored in September. */
  async function beforeTheBorder(event: SupplierEvent): Promise<void> {
    await ask(
      database,
      `WITH moved AS (
         UPDATE supplier_event_keys SET event_id = event_time('2026-09-30T23:59:59Z') | (event_id & 1048575)
          WHERE event_key = $1 RETURNING event_id)
       UPDATE supplier_events SET id = moved.event_id FROM moved
        WHERE id = (SELECT event_id FROM supplier_event_keys WHERE event_key = $1)`,
      [storedKeyOf(database.vault, event)],
    );
  }
});

describe("one partition of a table is touched", () => {
  /** Enough open messages that looking at all of them is never the quicker way. */
  beforeAll(async () => {
    await ask(
      database,
      `WITH open AS (
         SELECT id_time(now()) || to_char(n, 'fm0000000000000000') AS id FROM generate_series(1, 5000) n),
       message AS (
         INSERT INTO messages (id, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed,
           encoding, segment_count, unit_price_units, price_units, currency, status, current_attempt_id, expires_at)
         SELECT 'msg_' || id, 'ent_demo', 'app_demo', 'acc_demo', '', '', '', 'ascii', 1, 325, 325, 'CNY',
           'queued', 'att_' || id || '_1', now() + interval '1 day' FROM open)
       INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, submit_id, state, channel_id,
         segment_count)
       SELECT 'att_' || id || '_1', 'msg_' || id, 'ent_demo', 'app_demo', 1, 'sub_' || id || '_1', 'queued',
         'chn_demo_1', 1 FROM open`,
    );
    await ask(database, "ANALYZE messages, attempts");
  });

  it("by a look at one message, but for what suppliers said", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt), await receiptFor(database, attempt));
    await settled(database, attempt);

    const touched = await partitionsTouched(async (session) => {
      await findMessage(session, DEMO.applicationId, messageIdOf(attempt));
    });

    for (const parent of TABLES.filter((it) => it !== "supplier_events" && it !== "batches")) {
      expect(touched.get(parent) ?? [], parent).toHaveLength(1);
    }
  });

  it("by persisting, taking and asking how the parts of a command stand", async () => {
    const attempt = await reservedMessage(database);
    const persisted = await partitionsTouched((session) => persistAttempts(session, [planned(attempt, 1)]));
    await persist(database, attempt, 1);
    const taken = await partitionsTouched((session) => take(session, holder(), [write(attempt)]));
    await written(database, attempt);
    const asked = await partitionsTouched((session) => partStates(session, submitIdOf(attempt)));

    for (const touched of [persisted, taken, asked]) {
      for (const [parent, partitions] of touched) expect(partitions, parent).toHaveLength(1);
    }
  });

  it("and an index of every other: ids compare alike with those that refer to them", async () => {
    const attempt = await acceptedMessage(database);
    const read = new Map<string, string[]>();
    for (const touched of [
      await wholeTables((session) => reserveForAttempts(session, [attempt])),
      await wholeTables((session) => findMessage(session, DEMO.applicationId, messageIdOf(attempt))),
      await wholeTables((session) => findBatch(session, DEMO.applicationId, "bat_none")),
      await wholeTables((session) => settle(session, [attempt])),
    ]) {
      for (const [table, partitions] of touched) read.set(table, partitions);
    }
    const reserved = await reservedMessage(database);
    for (const table of (await wholeTables((s) => persistAttempts(s, [planned(reserved, 1)]))).keys()) {
      read.set(table, []);
    }
    const large = ["ledger_transfers", "supplier_events", "inbox", "reviews", "billing_records"];
    expect(large.filter((it) => read.has(it))).toEqual([]);
  });

  /** Tables that the statements of `work` read from end to end, although that is made to seem dear. */
  const wholeTables = (work: (session: Session) => Promise<unknown>): Promise<Map<string, string[]>> =>
    partitionsTouched(
      work,
      (node) => /^(Seq|Index)/.test(node["Node Type"]) && node["Index Cond"] === undefined,
    );

  /**
   * Partitions that the statements of `work` really read, by parent, in plans as they are for large tables:
   * small ones are read whole. What they do is rolled back.
   */
  async function partitionsTouched(
    work: (session: Session) => Promise<unknown>,
    counts?: (node: Node) => boolean,
  ): Promise<Map<string, string[]>> {
    const touched = new Map<string, Set<string>>();
    const look = (node: Node): void => {
      const name = node["Relation Name"];
      const parent = name?.replace(/_(default|\d{8}_\d{8})$/, "");
      if (counts !== undefined) {
        if (name !== undefined && parent !== undefined && counts(node)) {
          touched.set(parent, (touched.get(parent) ?? new Set()).add(name));
        }
      } else if (
        name !== undefined &&
        parent !== name &&
        parent !== undefined &&
        (node["Actual Loops"] ?? 0) > 0
      ) {
        if (node["Node Type"] !== "ModifyTable")
          touched.set(parent, (touched.get(parent) ?? new Set()).add(name));
      }
      for (const child of node.Plans ?? []) look(child);
    };
    await expect(
      database.transaction(async (tx) => {
        for (const way of ["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"]) {
          await ask(tx, `SET LOCAL ${way} = off`);
        }
        await work({
          vault: tx.vault,
          async run(what, values = []) {
            await ask(tx, `SAVEPOINT looking`);
            await ask(tx, `PREPARE looked_at AS ${what.text}`);
            const explain = `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE looked_at (${values.map(literal).join(", ")})`;
            const [answer] = await ask<{ "QUERY PLAN": [{ Plan: Node }] }>(tx, explain);
            if (answer !== undefined) look(answer["QUERY PLAN"][0].Plan);
            await ask(tx, `ROLLBACK TO looking`);
            await ask(tx, `DEALLOCATE looked_at`);
            return tx.run(what, values);
          },
        });
        throw new Error("only looked");
      }),
    ).rejects.toThrow("only looked");
    return new Map([...touched].map(([parent, names]) => [parent, [...names]]));
  }

  interface Node {
    "Node Type": string;
    "Relation Name"?: string;
    "Index Cond"?: string;
    "Actual Loops"?: number;
    Plans?: Node[];
  }

  const digits = (_key: string, value: unknown): unknown =>
    typeof value === "bigint" ? value.toString() : value;

  /** As EXECUTE takes it: PostgreSQL knows the type. */
  const literal = (value: unknown): string => {
    if (value === null || value === undefined) return "NULL";
    const plain = typeof value === "bigint" || typeof value === "number" ? value.toString() : value;
    const text = typeof plain === "string" ? plain : `{${JSON.stringify(plain, digits).slice(1, -1)}}`;
    return `'${text.replaceAll("'", "''")}'`;
  };
});
