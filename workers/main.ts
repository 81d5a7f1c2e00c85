/** `node dist/workers/main.js <role>`: one process image for the roles; pools and failure stay apart (D1). */
import { createActivities } from "../activities/index.ts";
import { createApiService } from "../api/service.ts";
import { checkConnectionBudget, type Database, openDatabase, type PoolName } from "../db/client.ts";
import { openStreams, type Streams } from "../gateway-bridge/streams.ts";
import { createAttemptWorker } from "./attempt-worker.ts";
import { createIntake } from "./intake.ts";
import { createNotifier } from "./notifier.ts";
import { createResults } from "./results.ts";
import { type RoleFrame, type RoleParts, runRole } from "./role.ts";
import type { Loop, Service } from "./service.ts";
import { createSweeper } from "./sweeper.ts";
import { createTells } from "./tells.ts";
import { connectTemporal, type Temporal } from "./temporal.ts";
import { version } from "./version.ts";
import { checkWebhookUrl } from "./webhook-dial.ts";

const ROLES = { api, attempts, results, notifier, sweeper } as const;

const role = process.argv[2] ?? "";
if (!isRole(role)) {
  process.stderr.write(`usage: main.js <${Object.keys(ROLES).join("|")}>\n`);
  process.exit(2);
}
await runRole(role, ROLES[role]);

function isRole(name: string): name is keyof typeof ROLES {
  return Object.hasOwn(ROLES, name);
}

async function api(frame: RoleFrame): Promise<RoleParts> {
  const { config, log } = frame;
  const database = await openPool(frame, "api");
  const allowLoopback = config.allowLoopbackWebhooks;
  const service = createApiService({
    database,
    log,
    version,
    runFile: config.runFile,
    mayCallWebhook: (url) => checkWebhookUrl(url, { allowLoopback }).ok,
    host: config.host,
    port: config.apiPort,
  });
  return { services: [closing(database), service], loops: [], ready: () => answers(database) };
}

/** Intake shares the worker's process, so that starts can be eager (design §2). */
async function attempts(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const planning = await openPool(frame, "planning");
  const settlement = await openPool(frame, "settlement");
  const publisher = await openPool(frame, "publisher");
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const activities = createActivities({
    planning,
    settlement,
    publisher,
    streams,
    coalesce: config.temporal.coalesce,
    tries: { inAll: config.temporal.policy.regular.tries, local: config.temporal.policy.local.tries },
    onBatch: (step, size) => metrics.batchSize.observe({ step }, size),
  });
  const worker = createAttemptWorker(config, temporal, activities, log, frame.quit);
  const intake = createIntake({ database: planning, temporal, metrics, log }, config.temporal);
  return {
    services: [
      closing(planning),
      closing(settlement),
      closing(publisher),
      closingStreams(streams),
      closingTemporal(temporal),
      worker,
      intake,
    ],
    loops: [intake],
    ready: () => answers(planning),
  };
}

async function results(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "results");
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const tells = createTells({ temporal, metrics, log }, config.temporal.results);
  const folding = createResults({ database, streams, tells, metrics, log }, config.temporal.results);
  return {
    services: [closing(database), closingStreams(streams), closingTemporal(temporal), tells, folding],
    loops: [folding],
    ready: () => answers(database),
  };
}

async function notifier(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "notifier");
  const service = createNotifier({
    database,
    log,
    allowLoopback: config.allowLoopbackWebhooks,
    onOutcome: (outcome) => metrics.webhooks.inc({ outcome }),
  });
  const loop: Loop = service;
  return { services: [closing(database), service], loops: [loop], ready: () => answers(database) };
}

async function sweeper(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "sweeper");
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const tells = createTells({ temporal, metrics, log }, config.temporal.results);
  const loops = createSweeper({ database, streams, temporal, tells, metrics, log }, config.temporal.sweeper);
  return {
    services: [closing(database), closingStreams(streams), closingTemporal(temporal), tells, ...loops],
    loops,
    ready: () => answers(database),
  };
}

/** The budget is checked by every process, for whoever starts first (G). */
async function openPool({ config, metrics }: RoleFrame, pool: PoolName): Promise<Database> {
  const database = openDatabase(config.databaseUrl, pool);
  metrics.watchPool(pool, database);
  await checkConnectionBudget(database);
  return database;
}

function answers(database: Database): Promise<boolean> {
  return checkConnectionBudget(database).then(() => true);
}

/** Things that only have to be closed, in the order of services. */
function closing(database: Database): Service {
  return stopping("database", () => database.close());
}

function closingStreams(streams: Streams): Service {
  return stopping("streams", () => streams.close());
}

function closingTemporal(temporal: Temporal): Service {
  return stopping("temporal", () => temporal.connection.close());
}

function stopping(name: string, stop: () => Promise<void>): Service {
  return { name, start: () => Promise.resolve(), stop };
}
