/** A database that an older version filled in clear, brought up to date: sealed, found, and nothing lost. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, openDatabase } from "../db/client.ts";
import { exportConfiguration } from "../db/configuration.ts";
import { foldEvents } from "../db/folding.ts";
import { answeredBefore } from "../db/inbox.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { claimNotifications } from "../db/notifications.ts";
import { claimOwnCommands } from "../db/outbox.ts";
import { listMessages } from "../db/queries.ts";
import { openCommand } from "../db/sealed-command.ts";
import { seedDemo } from "../db/seed.ts";
import { findMessage } from "../db/story.ts";
import { type Vault, VaultError } from "../db/vault.ts";
import { receiptEventKey } from "../domain/ids.ts";
import { dumpOf, sightings } from "./canary.ts";
import { ask, only, receipt, segmentsOf, store } from "./facts.ts";
import { databaseBefore } from "./older-versions.ts";
import { vault } from "./servers.ts";

const NUMBER = "13857142863";
const TEXT = "【测试】紫杉犀牛漫步月台 zebra-quartz-lantern";
const WORDS = [NUMBER, "紫杉犀牛漫步月台", "zebra-quartz-lantern"];
const PORTED = "13857142899";
const TIME = "2026-11-30T08:00:00.123456Z";

const MESSAGE = "msg_01KBA000000000000000000000";
const ATTEMPT = `att_${MESSAGE.slice(4)}_1` as const;
const SUBMIT = `sub_${MESSAGE.slice(4)}_1`;
const NOTIFICATION = `evt_${MESSAGE.slice(4)}`;
const MSG_ID = "00000000deadbeef";
const RECEIPT_KEY = receiptEventKey("sup_1", MSG_ID, NUMBER, "DELIVRD");
const ANSWER = `{"id":"${MESSAGE}","status":"accepted","to":"${NUMBER}","createdAt":"${TIME}"}`;
const BODY_HASH = createHash("sha256").update("the body").digest();
const NOTIFIED = `{"type":"message.delivered","data":{"to":"${NUMBER}"}}`;
const COMMAND = {
  submitId: SUBMIT,
  attemptId: ATTEMPT,
  messageId: MESSAGE,
  channelId: "chn_demo_1",
  supplierId: "sup_1",
  to: NUMBER,
  srcId: "10690001",
  msgFmt: 8,
  parts: [Buffer.from(TEXT, "utf16le").swap16().toString("hex")],
};

let url: string;
let database: Database;
beforeEach(async () => {
  url = await databaseBefore("_sealed_numbers_and_texts");
  database = openDatabase(url, "operations", 2, vault);
  await fillInClear();
});
afterEach(() => database.close());

/** A delivered message with everything that has ever held its number or text, as it was stored then. */
async function fillInClear(): Promise<void> {
  await seedDemo(database, {
    apiKey: "k",
    opsToken: "o",
    viewerToken: "v",
    webhookSecret: "whsec_x",
    suppliers: [
      { id: "sup_1", name: "s", version: "3.0", host: "127.0.0.1", port: 1, spId: "900001", secret: "x" },
    ],
  });
  const insert = (text: string, ...values: unknown[]) => ask(database, text, values);
  await insert(
    `INSERT INTO messages (id, enterprise_id, application_id, account_id, number, text, encoding, segment_count,
       unit_price_units, price_units, currency, status, current_attempt_id, expires_at, created_at)
     VALUES ($1, 'ent_demo', 'app_demo', 'acc_demo', $2, $3, 'ucs2', 1, 325, 325, 'CNY', 'queued', $4,
       now() + interval '1 day', $5)`,
    MESSAGE,
    NUMBER,
    TEXT,
    ATTEMPT,
    TIME,
  );
  await insert(
    `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, submit_id, state, channel_id,
       supplier_id, receipt_mode, segment_count)
     VALUES ($1, $2, 'ent_demo', 'app_demo', 1, $3, 'queued', 'chn_demo_1', 'sup_1', 'per_segment', 1)`,
    ATTEMPT,
    MESSAGE,
    SUBMIT,
  );
  await insert(
    `INSERT INTO segments (attempt_id, part, supplier_id, number, result, msg_id) VALUES ($1, 1, 'sup_1', $2, 'accepted', $3)`,
    ATTEMPT,
    NUMBER,
    MSG_ID,
  );
  await insert(
    `INSERT INTO admissions (message_id, enterprise_id, application_id, number, counted_at, day, number_of_day)
     VALUES ($1, 'ent_demo', 'app_demo', $2, now(), current_date, 1)`,
    MESSAGE,
    NUMBER,
  );
  await insert(
    `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload, schema_version)
     VALUES ($1, $2, 'app_demo', $3, 'chn_demo_1', $4, 1)`,
    SUBMIT,
    MESSAGE,
    ATTEMPT,
    JSON.stringify(COMMAND),
  );
  await insert(
    `INSERT INTO idempotency_keys (application_id, key, body_hash, answer, created_at)
     VALUES ('app_demo', 'order 7', $1, $2, $3)`,
    BODY_HASH,
    ANSWER,
    TIME,
  );
  await insert(
    `WITH event AS (
       INSERT INTO supplier_events (event_key, kind, supplier_id, msg_id, stat, number, src_id, raw)
       VALUES ($1, 'receipt', 'sup_1', $2, 'DELIVRD', $3, '10690001', $4) RETURNING id, event_key)
     INSERT INTO supplier_event_keys (event_key, event_id) SELECT event_key, id FROM event`,
    RECEIPT_KEY,
    MSG_ID,
    NUMBER,
    Buffer.from(`frame with ${NUMBER}`),
  );
  await insert(
    `INSERT INTO notifications (id, message_id, application_id, url, body)
     VALUES ($1, $2, 'app_demo', 'https://a.example/hook', $3)`,
    NOTIFICATION,
    MESSAGE,
    NOTIFIED,
  );
  await insert(
    `INSERT INTO blacklist (number, application_id, source) VALUES ($1, 'app_demo', 'opt_out')`,
    PORTED,
  );
  await insert(`INSERT INTO number_prefixes (prefix, operator) VALUES ($1, 'china_telecom')`, PORTED);
  await insert(`INSERT INTO concat_references (src_id, number, last) VALUES ('10690001', $1, 41)`, NUMBER);
}

describe("the update of a database in which numbers and texts stand in clear", () => {
  it("leaves them nowhere", async () => {
    expect(sightings("before", await dumpOf(database), WORDS)).not.toEqual([]);
    await migrateDatabase(url, vault);
    expect(sightings("after", await dumpOf(database), [...WORDS, PORTED])).toEqual([]);
    expect(await only(database, `SELECT to_regclass('unsealed') AS left`)).toEqual({ left: null });
  });

  it("loses nothing: everything is read, found and matched as before", async () => {
    await migrateDatabase(url, vault);

    expect(await findMessage(database, "app_demo", MESSAGE)).toMatchObject({ number: NUMBER, text: TEXT });
    const found = await listMessages(database, "app_demo", { to: NUMBER }, 10);
    expect(found).toMatchObject([{ id: MESSAGE, number: NUMBER, text: TEXT }]);

    const sender = {
      enterpriseId: "ent_demo",
      applicationId: "app_demo",
      accountId: "acc_demo",
      currency: "CNY",
      unitPriceUnits: 325n,
    };
    const asked = (bodyHash: Buffer) => answeredBefore(database, sender, { key: "order 7", bodyHash });
    expect(await asked(BODY_HASH)).toEqual({ outcome: "replayed", answer: ANSWER });
    expect(await asked(Buffer.alloc(32))).toEqual({ outcome: "key_reused" });

    const [command] = await claimOwnCommands(database, "token", [ATTEMPT]);
    if (command === undefined) throw new Error("the command is gone");
    const opened = openCommand(vault, SUBMIT, command.schemaVersion, command.payload);
    expect(opened).toEqual({ ok: true, command: COMMAND });

    const [notification] = await claimNotifications(database, {
      token: "token",
      limit: 1,
      leaseMs: 1_000,
      allowedAtFirst: 1,
      loads: [],
      crowded: [],
    });
    expect(notification?.body).toBe(NOTIFIED);

    // The supplier repeats what it said to the older version: one event (D2).
    await store(database, receipt(MSG_ID, NUMBER, { srcId: "10690001" }));
    expect(await only(database, `SELECT count(*)::int AS events FROM supplier_events`)).toEqual({
      events: 1,
    });
    await database.transaction((tx) => foldEvents(tx, 10));
    expect(await segmentsOf(database, ATTEMPT)).toMatchObject([{ receipt: "delivered" }]);

    const { blacklist, prefixes } = await exportConfiguration(database);
    expect(blacklist).toEqual([{ number: PORTED, application: "app_demo", source: "opt_out" }]);
    expect(prefixes).toContainEqual({ prefix: PORTED, operator: "china_telecom" });
    const hash = vault.hash(NUMBER);
    expect(await ask(database, `SELECT number_hash, last FROM concat_references`)).toEqual([
      { number_hash: hash, last: 41 },
    ]);
    expect(await ask(database, `SELECT number_hash FROM admissions`)).toEqual([{ number_hash: hash }]);
  });

  it("goes on where it was stopped", async () => {
    let left = 3;
    const stopping: Vault = {
      ...vault,
      seal(...it) {
        if (left-- === 0) throw new Error("the process is gone");
        return vault.seal(...it);
      },
    };
    await expect(migrateDatabase(url, stopping)).rejects.toThrow("the process is gone");
    await migrateDatabase(url, vault);
    expect(await findMessage(database, "app_demo", MESSAGE)).toMatchObject({ number: NUMBER, text: TEXT });
    expect(sightings("after", await dumpOf(database), WORDS)).toEqual([]);
  });

  it("is refused without data keys, and changes nothing that a later run would miss", async () => {
    await expect(migrateDatabase(url)).rejects.toThrow(/set WAYBILL_DATA_KEYS_FILE/);
    await migrateDatabase(url, vault);
    expect(await findMessage(database, "app_demo", MESSAGE)).toMatchObject({ number: NUMBER });
  });
});

it("takes a database from before the partitions all the way", async () => {
  const old = await databaseBefore("_partitions");
  const client = openDatabase(old, "operations", 1, vault);
  try {
    await ask(client, await readFile(new URL("rows-before-partitions.sql", import.meta.url), "utf8"));
    await migrateDatabase(old, vault);
    expect(await findMessage(client, "app", "msg_01M3GDZT800000000000000000")).toMatchObject({
      number: "13800000000",
      text: "x",
    });
    expect(sightings("after", await dumpOf(client), ["13800000000"])).toEqual([]);
  } finally {
    await client.close();
  }
});

describe("a sealed row", () => {
  it("does not open under another message's id, as somebody who can write to the table might try", async () => {
    await migrateDatabase(url, vault);
    const moved = "msg_01KBA000000000000000000001";
    await ask(
      database,
      `INSERT INTO messages (id, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed,
         encoding, segment_count, unit_price_units, price_units, currency, current_attempt_id, expires_at)
       SELECT $1, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed, encoding,
         segment_count, unit_price_units, price_units, currency, $1, expires_at FROM messages`,
      [moved],
    );
    await expect(findMessage(database, "app_demo", moved)).rejects.toThrow(VaultError);
  });
});
