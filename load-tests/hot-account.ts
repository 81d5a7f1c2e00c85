/**
 * How fast one account can be: many clients at once reserve and settle messages of one account, in batches,
 * by the transactions that Waybill itself runs; beside it what PostgreSQL's own pgbench reaches on the same
 * server, also with one hot row:
 *
 *   DATABASE_URL=postgres://… npx tsx load-tests/hot-account.ts [--clients 64] [--batch 32] [--messages 20000]
 *
 * Makes a database of its own there, and drops it. Every message is reserved under all rules of intake in one
 * transaction, and in another brought to `delivered`, charged and billed. Prints one line of JSON; exit 1
 * where the books do not balance.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { parseArgs, promisify } from "node:util";
import { type Database, openDatabase, statement } from "../db/client.ts";
import { newDataKeys, parseDataKeys } from "../db/data-keys.ts";
import { acceptMessages } from "../db/inbox.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { books } from "../db/ledger.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { seedDemo } from "../db/seed.ts";
import { endMessages } from "../db/settlement.ts";
import { openVault } from "../db/vault.ts";
import { type AttemptId, attemptIdOf, messageIdFrom, messageIdOf } from "../domain/ids.ts";

const { values } = parseArgs({
  options: {
    clients: { type: "string", default: "64" },
    batch: { type: "string", default: "32" },
    messages: { type: "string", default: "20000" },
    "pgbench-seconds": { type: "string", default: "10" },
  },
});
const clients = Number(values.clients);
const batchSize = Number(values.batch);
const messageCount = Number(values.messages);
const ACCEPTED_AT_ONCE = 500;

const server = process.env["DATABASE_URL"];
if (server === undefined) throw new Error("DATABASE_URL names the server to measure");
const name = `waybill_hot_${randomBytes(4).toString("hex")}`;
const url = new URL(server);
url.pathname = `/${name}`;

const admin = openDatabase(server, "operations", 1);
await admin.run(statement("hot.create", `CREATE DATABASE ${name}`));
try {
  await migrateDatabase(url.href);
  const database = openDatabase(url.href, "settlement", clients, openVault(parseDataKeys(newDataKeys())));
  try {
    await measure(database);
  } finally {
    await database.close();
  }
} finally {
  await admin.run(statement("hot.drop", `DROP DATABASE ${name} WITH (FORCE)`));
  await admin.close();
}

async function measure(database: Database): Promise<void> {
  await seedDemo(database, {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    suppliers: [],
  });
  const batches = batchesOf(await accepted(database));
  const pgbenchPerSecond = await pgbench();
  const begun = performance.now();
  await inParallel(batches, (batch) => reserveAndSettle(database, batch));
  const seconds = (performance.now() - begun) / 1_000;
  const { balanced, charged, differences } = await books(database);
  process.stdout.write(
    `${JSON.stringify({
      clients,
      batch: batchSize,
      messages: messageCount,
      cores: availableParallelism(),
      seconds: Math.round(seconds * 100) / 100,
      settledPerSecond: Math.round(messageCount / seconds),
      transactionsPerSecond: Math.round((2 * batches.length) / seconds),
      pgbenchPerSecond,
      charged: charged.toString(),
      balanced,
    })}\n`,
  );
  if (!balanced) throw new Error(`the books differ: ${differences.length}`);
}

async function reserveAndSettle(database: Database, batch: readonly AttemptId[]): Promise<void> {
  const answers = await database.transaction((tx) => reserveForAttempts(tx, batch));
  if ([...answers.values()].some((it) => it.kind !== "reserved")) throw new Error("a message was refused");
  await database.transaction(async (tx) => {
    await lockAttemptsAndMessages(tx, batch);
    const endings = batch.map((attemptId) => ({
      messageId: messageIdOf(attemptId),
      attemptId,
      status: "delivered" as const,
      reason: null,
    }));
    const ended = await endMessages(tx, endings);
    if (ended.size !== batch.length) throw new Error("a message was settled before");
  });
}

/** First attempts of messages that were taken in and not looked at yet. */
async function accepted(database: Database): Promise<AttemptId[]> {
  const ids = Array.from({ length: messageCount }, () => messageIdFrom(Date.now(), randomBytes(10)));
  for (let from = 0; from < ids.length; from += ACCEPTED_AT_ONCE) {
    await acceptMessages(database, {
      sender: {
        enterpriseId: "ent_demo",
        applicationId: "app_demo",
        accountId: "acc_demo",
        currency: "CNY",
        unitPriceUnits: 325n,
      },
      messages: ids.slice(from, from + ACCEPTED_AT_ONCE).map((id, index) => ({
        id,
        number: `138${String(from + index).padStart(8, "0")}`,
        text: "hello",
        encoding: "ascii",
        segmentCount: 1,
        reference: undefined,
        webhookUrl: undefined,
        validitySeconds: 3_600,
      })),
      answer: {},
    });
  }
  return ids.map((id) => attemptIdOf(id, 1));
}

/** Its own transaction (TPC-B) at scale 1: every client updates the one row of `pgbench_branches`. */
async function pgbench(): Promise<number> {
  const run = promisify(execFile);
  await run("pgbench", ["--quiet", "-i", "-s", "1", url.href]);
  const options = ["-n", "-M", "prepared", "-c", String(clients), "-j", "2"];
  const { stdout } = await run("pgbench", [...options, "-T", values["pgbench-seconds"], url.href]);
  return Math.round(Number(/tps = ([\d.]+)/.exec(stdout)?.[1]));
}

function batchesOf(attempts: readonly AttemptId[]): AttemptId[][] {
  const batches: AttemptId[][] = [];
  for (let from = 0; from < attempts.length; from += batchSize) {
    batches.push(attempts.slice(from, from + batchSize));
  }
  return batches;
}

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const left = [...items];
  const client = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: clients }, client));
}
