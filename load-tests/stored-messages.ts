/**
 * How long a look at one message and a page of a list take with many messages stored:
 *
 *   npx tsx load-tests/stored-messages.ts --server postgres://…/postgres [--count 1000000] [--gets 5000] [--keep name]
 *
 * Makes a database of its own on that server, with the facts of delivered messages spread over three months,
 * serves the API on it in this process and asks over HTTP. Prints one line of JSON. With `--keep` the
 * database stays under that name, and is used as it is the next time.
 */
import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";
import { createApiService } from "../api/service.ts";
import { openDatabase, openSingleConnection, statement } from "../db/client.ts";
import { parseDataKeys } from "../db/data-keys.ts";
import { acceptMessages } from "../db/inbox.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { createDatabase, migrateDatabase } from "../db/migrate.ts";
import { addSlice } from "../db/slices.ts";
import { seedDemo } from "../db/seed.ts";
import { analyzeGrown } from "../db/table-statistics.ts";
import { openVault } from "../db/vault.ts";
import { messageIdFrom } from "../domain/ids.ts";

const { values } = parseArgs({
  options: {
    server: { type: "string" },
    count: { type: "string", default: "1000000" },
    gets: { type: "string", default: "5000" },
    keep: { type: "string" },
  },
});
if (values.server === undefined) throw new Error("name a PostgreSQL server with --server");
const count = Number(values.count);
const name = values.keep ?? `waybill_stored_${process.pid}`;
const url = new URL(values.server);
url.pathname = `/${name}`;

const KEY = Buffer.alloc(32, 7).toString("base64");
const SPREAD_MS = 90 * 86_400_000;
const BATCH = 1_000;
const SENDER = {
  enterpriseId: "ent_demo",
  applicationId: "app_demo",
  accountId: "acc_demo",
  currency: "CNY",
  unitPriceUnits: 325n,
};

await createDatabase(url.href);
await migrateDatabase(url.href);
const vault = openVault(parseDataKeys(`search:${KEY}\ndata:${KEY}`));
const database = openDatabase(url.href, "api", 8, vault);
const apiKey = newToken("wbk");
await seedDemo(database, {
  apiKey,
  opsToken: newToken("wbo"),
  viewerToken: newToken("wbv"),
  webhookSecret: newWebhookSecret(),
  suppliers: [1, 2, 3].map((n) => ({
    id: `sup_${n}`,
    name: `Supplier ${n}`,
    version: "2.0" as const,
    host: "127.0.0.1",
    port: 1,
    spId: `90000${n}`,
    secret: "unused",
  })),
});
/** Accepted by the statement under test; what follows in a message's life is written by one statement a table. */
async function fill(): Promise<void> {
  const [have] = await ask<{ count: number }>("SELECT count(*)::int AS count FROM messages");
  if ((have?.count ?? 0) >= count) return;
  const now = Date.now();
  for (const days of [120, 90, 60, 30]) await makeSlice(new Date(now - days * 86_400_000));
  for (let from = 0; from < count; from += BATCH) {
    await Promise.all(
      Array.from({ length: 4 }, (_, part) => accept(now, from + (part * BATCH) / 4, BATCH / 4)),
    );
    if (from % 50_000 === 0) process.stderr.write(`${from} of ${count} accepted\n`);
  }
  for (const text of LIVES) await slowly(text);
  await slowly("VACUUM ANALYZE");
  await analyzeGrown(database, url.href);
}

async function makeSlice(at: Date): Promise<void> {
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  const [has] = await ask<{ there: boolean }>("SELECT to_regclass($1) IS NOT NULL AS there", [
    `messages_${day(year, month)}_${day(year, month + 1)}`,
  ]);
  if (has?.there === true) return;
  await addSlice(database, { startsMs: Date.UTC(year, month, 1), endsMs: Date.UTC(year, month + 1, 1) });
}

const day = (year: number, month: number): string =>
  new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 10).replaceAll("-", "");

async function accept(now: number, from: number, howMany: number): Promise<void> {
  await acceptMessages(database, {
    sender: SENDER,
    messages: Array.from({ length: howMany }, (_, i) => {
      const n = from + i;
      return {
        id: messageIdFrom(Math.round(now - SPREAD_MS + (n * SPREAD_MS) / count), randomBytes(10)),
        number: `138${String(n % 1_000_000).padStart(8, "0")}`,
        text: `Your code is ${n}. It holds for five minutes.`,
        encoding: "ascii" as const,
        segmentCount: 1,
        reference: n % 10 === 0 ? `order-${n}` : undefined,
        webhookUrl: undefined,
        validitySeconds: 259_200,
      };
    }),
    answer: {},
  });
}

const FIRST = "'att_' || substr(m.id, 5) || '_1'";
const COMMAND = "'sub_' || substr(m.id, 5) || '_1'";
const TOLD = "'evt_' || substr(m.id, 5)";

/** What the send chain leaves of a message that was delivered at the first attempt. */
const LIVES = [
  `UPDATE messages SET status = 'delivered', operator = 'china_mobile', signature_id = 'sig_demo', queued_at = created_at,
     sent_at = created_at, final_at = created_at + interval '1 second' WHERE final_at IS NULL`,
  `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, submit_id, state, channel_id, supplier_id,
     receipt_mode, segment_count, route, facts_revision, outcome, queued_at, decided_at)
   SELECT ${FIRST}, m.id, m.enterprise_id, m.application_id, 1, ${COMMAND}, 'decided', 'chn_demo_1', 'sup_1',
     'per_segment', 1, '[]', 2, 'delivered', m.created_at, m.final_at FROM messages m`,
  `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner, slot, epoch, answer, answered_at)
   SELECT ${COMMAND}, 1, 1, 'write', ${FIRST}, 'sup_1', 'gateway', 1, 1, 'accepted', m.final_at FROM messages m`,
  `INSERT INTO segments (attempt_id, part, supplier_id, number_hash, result, result_code, msg_id, result_at, receipt,
     receipt_stat, receipt_at)
   SELECT ${FIRST}, 1, 'sup_1', m.number_hash, 'accepted', 0, substr(md5(m.id), 1, 16), m.final_at, 'delivered', 'DELIVRD',
     m.final_at FROM messages m`,
  `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload, schema_version,
     status, stream_entry_id, published_at)
   SELECT ${COMMAND}, m.id, m.application_id, ${FIRST}, 'chn_demo_1', repeat('x', 400), 1, 'published', '1-1', m.created_at
     FROM messages m`,
  `WITH said AS (
     INSERT INTO supplier_events (event_key, kind, supplier_id, attempt_id, part, write_number, answer, msg_id, stat,
       meaning, number_hash, raw_sealed, folded_at, fate)
     SELECT kind || ':' || m.id, kind, 'sup_1', ${FIRST}, 1, 1, CASE WHEN kind = 'response' THEN 'accepted' END,
       substr(md5(m.id), 1, 16), CASE WHEN kind = 'receipt' THEN 'DELIVRD' END,
       CASE WHEN kind = 'receipt' THEN 'delivered' END, m.number_hash, sha256(m.id::bytea), now(), 'applied'
       FROM messages m, unnest(array['response', 'receipt']) kind
     RETURNING event_key, id)
   INSERT INTO supplier_event_keys (event_key, event_id) SELECT event_key, id FROM said`,
  `INSERT INTO notifications (id, message_id, application_id, url, body_sealed, status, try_count, delivered_at)
   SELECT ${TOLD}, m.id, m.application_id, 'https://hooks.example.com/waybill', repeat('x', 400)::bytea, 'delivered', 1, m.final_at
     FROM messages m`,
  `INSERT INTO notification_tries (notification_id, try_number, http_status, duration_ms)
   SELECT ${TOLD}, 1, 200, 30 FROM messages m`,
  `INSERT INTO ledger_transfers (key, kind, account_id, message_id, debit_pot, credit_pot, units)
   SELECT CASE WHEN kind = 'reserve' THEN 'reserve:' ELSE 'close:' END || m.id, kind, m.account_id, m.id,
     CASE WHEN kind = 'reserve' THEN 'balance' ELSE 'held' END, CASE WHEN kind = 'reserve' THEN 'held' ELSE 'earned' END,
     m.price_units FROM messages m, unnest(array['reserve', 'charge']) kind`,
  `INSERT INTO billing_records (message_id, account_id, attempt_id, unit_price_units, unit_count, amount_units)
   SELECT m.id, m.account_id, ${FIRST}, m.unit_price_units, m.segment_count, m.price_units FROM messages m`,
  `UPDATE accounts SET balance_units = balance_units - (SELECT sum(price_units) FROM messages) WHERE id = 'acc_demo'`,
  "DELETE FROM inbox",
];

async function measure(): Promise<Record<string, unknown>> {
  const api = createApiService({
    database,
    host: "127.0.0.1",
    port: 0,
    version: "0.0.0",
    runFile: undefined,
    mayCallWebhook: () => true,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  await api.start();
  const get = async (path: string): Promise<{ ms: number; body: Page }> => {
    const begun = performance.now();
    const response = await fetch(api.url() + path, { headers: { authorization: `Bearer ${apiKey}` } });
    const body = (await response.json()) as Page;
    if (response.status !== 200)
      throw new Error(`GET ${path.replace(/\?.*/, "")} answered ${response.status}`);
    return { ms: performance.now() - begun, body };
  };
  const ids = await ask<{ id: string }>(
    "SELECT id FROM messages TABLESAMPLE SYSTEM (5) ORDER BY random() LIMIT $1",
    [Number(values.gets)],
  );
  const looks: number[] = [];
  for (const { id } of ids) looks.push((await get(`/v1/messages/${id}`)).ms);
  const parallel: number[] = [];
  await Promise.all(
    Array.from({ length: 8 }, async (_, lane) => {
      for (const { id } of ids.filter((__, n) => n % 8 === lane)) {
        parallel.push((await get(`/v1/messages/${id}`)).ms);
      }
    }),
  );
  const pages: Record<string, unknown> = {};
  for (const [what, query] of [
    ["all", ""],
    ["byNumber", "to=13800000042&"],
    ["byStatus", "status=delivered&"],
  ] as const) {
    pages[what] = await walk(get, `/v1/messages?${query}limit=100`);
  }
  await api.stop();
  return { getMs: percentiles(looks), getBy8Ms: percentiles(parallel), pageOf100Ms: pages };
}

interface Page {
  messages: unknown[];
  nextCursor: string | null;
}

/** Page by page to the 10,000th row and a few beyond; the first page and those there are what is told. */
async function walk(
  get: (path: string) => Promise<{ ms: number; body: Page }>,
  path: string,
): Promise<Record<string, number>> {
  const times: number[] = [];
  let cursor: string | null = "";
  let rows = 0;
  while (cursor !== null && rows < 11_000) {
    const { ms, body } = await get(cursor === "" ? path : `${path}&cursor=${encodeURIComponent(cursor)}`);
    times.push(ms);
    rows += body.messages.length;
    cursor = body.nextCursor;
  }
  const beyond = times.slice(100);
  return {
    rows,
    first: rounded(times[0] ?? 0),
    ...(beyond.length > 0 ? { at10000: rounded(Math.max(...beyond)) } : {}),
  };
}

function percentiles(times: readonly number[]): Record<string, number> {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => rounded(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10;

async function sizes(): Promise<Record<string, unknown>> {
  const rows = await ask<{ name: string; rows: number; mb: number; partitions: number }>(
    `SELECT c.relname AS name, sum(l.reltuples)::float8 AS rows, round(sum(pg_total_relation_size(l.oid)) / 1048576)::int AS mb,
            count(*)::int AS partitions
       FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid AND t.isleaf
      WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
      GROUP BY 1 HAVING sum(pg_total_relation_size(l.oid)) > 10000000 ORDER BY mb DESC`,
  );
  return {
    tables: Object.fromEntries(rows.map((it) => [it.name, { mb: it.mb, partitions: it.partitions }])),
  };
}

const ask = <Row>(text: string, given: readonly unknown[] = []): Promise<Row[]> =>
  database.run(statement<Row>("", text), given);

/** Filling takes longer than a statement of the product may. */
async function slowly(text: string): Promise<void> {
  const begun = performance.now();
  const client = await openSingleConnection(url.href, "fill");
  await client.query("SET statement_timeout = 0");
  await client.query(text);
  await client.end();
  process.stderr.write(
    `${text.slice(0, 40).replaceAll("\n", " ")} … ${Math.round(performance.now() - begun)} ms\n`,
  );
}

async function drop(): Promise<void> {
  const admin = await openSingleConnection(values.server ?? "", "fill");
  await admin.query(`DROP DATABASE ${admin.escapeIdentifier(name)}`);
  await admin.end();
}

try {
  await fill();
  process.stdout.write(
    `${JSON.stringify({ node: process.version, ...(await sizes()), ...(await measure()) })}\n`,
  );
} finally {
  await database.close();
  if (values.keep === undefined) await drop();
}
