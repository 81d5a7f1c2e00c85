/**
 * Seals what a version before sealing had stored in clear. Its migration moved that into `unsealed`; from
 * there it goes back to its rows batch by batch, each in one transaction, so that this may be stopped at
 * any time and goes on where it was. When none is left the clear bytes are wiped from the files, too.
 */
import type pg from "pg";
import { CLEAR_COMMAND_VERSION, COMMAND_VERSION } from "../domain/command.ts";
import { storedKeyOf, type SupplierEvent } from "./events.ts";
import { keyedBodyHash } from "./inbox.ts";
import { portedPrefix } from "./intake-rules.ts";
import { sealedPayload } from "./sealed-command.ts";
import type { Vault } from "./vault.ts";

type Client = Pick<pg.Client, "query">;

const BATCH = 500;

/** @throws where something waits and no data keys were given */
export async function sealStored(client: Client, vault: Vault): Promise<void> {
  if (!(await isTrue(client, "SELECT to_regclass('unsealed') IS NOT NULL AS it"))) return;
  const waits = await isTrue(client, "SELECT EXISTS (SELECT 1 FROM unsealed) AS it");
  if (waits && vault.keyIds.length === 0) {
    throw new Error(
      "this database holds numbers and texts from before they were encrypted: set WAYBILL_DATA_KEYS_FILE, or WAYBILL_DATA_KEYS, and run this again",
    );
  }
  while (await sealBatch(client, vault));
  // A sequence that was used says so also after a crash in between.
  if (await isTrue(client, "SELECT is_called AS it FROM unsealed_id_seq")) {
    // Rewrites the files: a dropped column's values stay in them otherwise.
    for (const table of PLACES) await client.query(`VACUUM FULL ${table}`);
    for (const table of ["segments", "admissions", "supplier_event_keys"])
      await client.query(`VACUUM FULL ${table}`);
  }
  await client.query("DROP TABLE unsealed");
}

async function isTrue(client: Client, text: string): Promise<boolean> {
  const { rows } = await client.query<{ it: boolean }>(text);
  return rows[0]?.it === true;
}

type Place = (typeof PLACES)[number];

interface Unsealed {
  id: string;
  place: Place;
  key: string;
  value: Record<string, string | null>;
}

/** False when nothing was left. */
async function sealBatch(client: Client, vault: Vault): Promise<boolean> {
  await client.query("BEGIN");
  const { rows } = await client.query<Unsealed>(
    "SELECT id, place, key, value FROM unsealed ORDER BY id LIMIT $1",
    [BATCH],
  );
  for (const place of PLACES) {
    const sealed = rows
      .filter((row) => row.place === place)
      .map((row) => SEALED[place](vault, { ...row, number: row.value["number"] ?? "" }));
    if (sealed.length > 0) await client.query(PUT_BACK[place], [JSON.stringify(sealed)]);
  }
  await client.query("DELETE FROM unsealed WHERE id = ANY($1::bigint[])", [rows.map((row) => row.id)]);
  await client.query("COMMIT");
  return rows.length > 0;
}

type Row = Pick<Unsealed, "key" | "value"> & { number: string };

/** What goes back to each place, in the columns that `PUT_BACK` reads. */
const SEALED: Record<Place, (vault: Vault, row: Row) => object> = {
  messages: (vault, { key, value, number }) => ({
    id: key,
    number_hash: vault.hash(number),
    number_sealed: hex(vault.seal("messages.number", key, number)),
    text_sealed: hex(vault.seal("messages.text", key, value["text"] ?? "")),
  }),
  idempotency_keys: (vault, { key, value }) => {
    const application = value["application_id"] ?? "";
    const [, answer = "", createdAt] = /^(.*),"createdAt":"([^"]+)"\}$/s.exec(value["answer"] ?? "") ?? [];
    const row = `${application}/${key}`;
    return {
      application,
      key,
      body_hash: keyedBodyHash(vault, value["body_hash"] ?? ""),
      answer_sealed: hex(vault.seal("idempotency_keys.answer", row, answer)),
      created_at: createdAt,
    };
  },
  submit_outbox: (vault, { key, value }) => ({
    submit_id: key,
    payload: sealedPayload(vault, key, value["payload"] ?? ""),
  }),
  supplier_events: (vault, { key, value, number }) => {
    const kind = value["kind"] as SupplierEvent["kind"];
    const storedKey = storedKeyOf(vault, { kind, key });
    const raw = value["raw"] ?? null;
    return {
      id: value["id"],
      old_key: key,
      event_key: storedKey,
      number_hash: number === "" ? null : vault.hash(number),
      number_sealed: number === "" ? null : hex(vault.seal("supplier_events.number", storedKey, number)),
      raw_sealed: raw && hex(vault.seal("supplier_events.raw", storedKey, Buffer.from(raw, "hex"))),
    };
  },
  notifications: (vault, { key, value }) => ({
    id: key,
    body_sealed: hex(vault.seal("notifications.body", key, value["body"] ?? "")),
  }),
  blacklist: (vault, { value, number }) => {
    const hash = vault.hash(number);
    return {
      ...value,
      number_hash: hash,
      number_sealed: hex(vault.seal("blacklist.number", hash, number)),
    };
  },
  number_prefixes: (vault, { key, value }) => {
    const prefix = portedPrefix(vault, key);
    return {
      prefix,
      number_sealed: hex(vault.seal("number_prefixes.number", prefix, key)),
      operator: value["operator"],
    };
  },
  concat_references: (vault, { value, number }) => ({ ...value, number_hash: vault.hash(number) }),
};

/** Bytes as PostgreSQL reads them out of JSON. */
const hex = (bytes: Buffer): string => `\\x${bytes.toString("hex")}`;

const PLACES = [
  "messages",
  "idempotency_keys",
  "submit_outbox",
  "supplier_events",
  "notifications",
  "blacklist",
  "number_prefixes",
  "concat_references",
] as const;

const PUT_BACK: Readonly<Record<Place, string>> = {
  messages: `WITH t AS (
      SELECT * FROM jsonb_to_recordset($1::jsonb)
          AS t(id text, number_hash text, number_sealed bytea, text_sealed bytea)),
    message AS (
      UPDATE messages m
         SET number_hash = t.number_hash, number_sealed = t.number_sealed, text_sealed = t.text_sealed
        FROM t WHERE m.id = t.id),
    admission AS (
      UPDATE admissions d SET number_hash = t.number_hash FROM t WHERE d.message_id = t.id)
    UPDATE segments s SET number_hash = t.number_hash
      FROM t JOIN attempts a ON a.message_id = t.id WHERE s.attempt_id = a.id`,
  idempotency_keys: `UPDATE idempotency_keys k
       SET body_hash = t.body_hash, answer_sealed = t.answer_sealed,
           created_at = coalesce(t.created_at, k.created_at)
      FROM jsonb_to_recordset($1::jsonb)
           AS t(application text, key text, body_hash text, answer_sealed bytea, created_at timestamptz)
     WHERE k.application_id = t.application AND k.key = t.key`,
  submit_outbox: `UPDATE submit_outbox o
       SET payload = t.payload,
           schema_version = CASE o.schema_version WHEN ${CLEAR_COMMAND_VERSION} THEN ${COMMAND_VERSION}
                                 ELSE o.schema_version END
      FROM jsonb_to_recordset($1::jsonb) AS t(submit_id text, payload text)
     WHERE o.submit_id = t.submit_id`,
  supplier_events: `WITH t AS (
      SELECT * FROM jsonb_to_recordset($1::jsonb)
          AS t(id bigint, old_key text, event_key text, number_hash text, number_sealed bytea, raw_sealed bytea)),
    named AS (
      UPDATE supplier_event_keys k SET event_key = t.event_key FROM t WHERE k.event_key = t.old_key)
    UPDATE supplier_events e
       SET event_key = t.event_key, number_hash = t.number_hash, number_sealed = t.number_sealed,
           raw_sealed = t.raw_sealed
      FROM t WHERE e.id = t.id`,
  notifications: `UPDATE notifications n SET body_sealed = t.body_sealed
      FROM jsonb_to_recordset($1::jsonb) AS t(id text, body_sealed bytea) WHERE n.id = t.id`,
  blacklist: `INSERT INTO blacklist (number_hash, number_sealed, application_id, source, created_at)
    SELECT number_hash, number_sealed, application_id, source, created_at
      FROM jsonb_to_recordset($1::jsonb)
           AS t(number_hash text, number_sealed bytea, application_id text, source text, created_at timestamptz)`,
  number_prefixes: `INSERT INTO number_prefixes (prefix, number_sealed, operator)
    SELECT * FROM jsonb_to_recordset($1::jsonb) AS t(prefix text, number_sealed bytea, operator text)`,
  concat_references: `INSERT INTO concat_references (src_id, number_hash, last)
    SELECT * FROM jsonb_to_recordset($1::jsonb) AS t(src_id text, number_hash text, last smallint)`,
};
