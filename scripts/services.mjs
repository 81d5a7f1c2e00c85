/**
 * The three servers of a copy of Waybill: found or installed, their data prepared, and for each a recipe
 * that says how it is run. Keeping them running is the supervisor's work.
 *
 * A recipe: {name, title, command, args, env, uid?, gid?, niceness, stopSignal}.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { spawn } from "node:child_process";
import { identityFor, own } from "./identity.mjs";
import { obtainServer } from "./find-servers.mjs";
import { DEFAULT_PORTS, LOOPBACK } from "./ports.mjs";
import { Trouble, run } from "./programs.mjs";
import { dropUnusedIndexes } from "./temporal-file.mjs";
import { lastLines } from "./steps.mjs";

/** One address each where the person points Waybill at a server of their own. */
export const EXTERNAL = { postgres: "DATABASE_URL", redis: "REDIS_URL", temporal: "TEMPORAL_ADDRESS" };
const DATA_FOLDERS = ["postgres", "postgres.new", "redis", "temporal", "simulator", "logs"];
const DATABASE_NAME = "waybill";
const NICE = 5;
const READY_MS = 30_000;

/**
 * Prepares every server that is not external.
 *
 * @param {object} wanted
 * @param {string} wanted.home state folder
 * @param {string} wanted.installedIn where installed servers are kept
 * @param {object} wanted.external environment that may name servers of the person's own
 * @param {(what: string, usual: number) => Promise<number>} wanted.choosePort
 * @param {boolean} wanted.throwaway data of a test run: no fsync, and connections for many at once
 */
export async function prepareServers({ home, installedIn, external, choosePort, throwaway, steps }) {
  const passwords = serverPasswords(home);
  const isOurs = (name) => !external[EXTERNAL[name]];
  const context = { home, installedIn, choosePort, passwords, throwaway, steps };

  const [postgres, redis, temporal] = await allOrTrouble([
    isOurs("postgres") ? preparePostgres(context) : { databaseUrl: external.DATABASE_URL },
    isOurs("redis") ? prepareRedis(context) : { redisUrl: external.REDIS_URL },
    isOurs("temporal") ? prepareTemporal(context) : { temporalAddress: external.TEMPORAL_ADDRESS },
  ]);
  return {
    recipes: [postgres, redis, temporal].flatMap(({ recipe }) => (recipe === undefined ? [] : [recipe])),
    databaseUrl: postgres.databaseUrl,
    redisUrl: redis.redisUrl,
    temporalAddress: temporal.temporalAddress,
    temporalUi: temporal.temporalUi,
    temporalConfigFile: temporal.temporalConfigFile,
  };
}

/** Empties what the servers and the simulator keep; keys and passwords stay. */
export function forgetData(home, external) {
  const kept = Object.values(EXTERNAL).filter((name) => external[name]);
  if (kept.length > 0) {
    throw new Trouble(
      `--fresh empties only servers of Waybill's own, and ${kept.join(" and ")} is set: empty that server yourself, or unset it.`,
    );
  }
  for (const folder of DATA_FOLDERS) fs.rmSync(path.join(home, folder), { recursive: true, force: true });
}

/** Waits for every part, so that nothing still runs when the failures are told, all of them at once. */
async function allOrTrouble(parts) {
  const results = await Promise.allSettled(parts);
  const reasons = results.flatMap(({ reason }) => (reason === undefined ? [] : [reason]));
  const unexpected = reasons.find((reason) => !(reason instanceof Trouble));
  if (unexpected !== undefined) throw unexpected;
  if (reasons.length > 0) throw new Trouble(reasons.map(({ message }) => message).join("\n"));
  return results.map(({ value }) => value);
}

// ---- PostgreSQL ---------------------------------------------------------------------------------

async function preparePostgres({ home, installedIn, choosePort, passwords, throwaway, steps }) {
  const data = path.join(home, "postgres");
  const major = dataVersion(data);
  const { program, version } = await obtainServer("postgres", { installedIn, steps, major });
  const identity = identityFor(home, program);
  if (major === undefined) {
    await steps.step(`create the PostgreSQL ${version} data folder`, () =>
      initialise(data, path.join(path.dirname(program), "initdb"), passwords.postgres, identity),
    );
  }
  own(data, identity);
  fs.chmodSync(data, 0o700); // A copied folder may have lost it, and PostgreSQL insists.
  fs.rmSync(path.join(data, "postmaster.pid"), { force: true }); // Nothing runs here: leftovers were ended before.
  const port = await choosePort("PostgreSQL", DEFAULT_PORTS.postgres);
  return {
    databaseUrl: `postgres://waybill:${passwords.postgres}@${LOOPBACK}:${port}/${DATABASE_NAME}`,
    recipe: {
      name: "postgres",
      title: `PostgreSQL ${version}`,
      ...identity.running(program, ["-D", data, ...postgresSettings(port, throwaway)]),
      env: { ...plainEnvironment(), PGDATA: data },
      niceness: 0,
      stopSignal: "SIGINT", // Fast shutdown: open sessions are ended, committed work is kept.
      port,
    },
  };
}

/**
 * Errors are logged with their SQLSTATE, by which a person or a load run finds the unexpected ones (D13), and
 * without their details, which may quote a row and with it a phone number.
 */
function postgresSettings(port, throwaway) {
  const settings = {
    listen_addresses: LOOPBACK,
    port,
    unix_socket_directories: "",
    max_connections: throwaway ? 400 : 200,
    shared_buffers: "256MB",
    max_wal_size: "2GB",
    fsync: throwaway ? "off" : "on",
    timezone: "UTC",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_line_prefix: "%m [%p] %a %e ",
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/** Made beside its place and moved when whole, so an interrupted first start leaves nothing half made. */
async function initialise(data, initdb, password, identity) {
  const fresh = `${data}.new`;
  const passwordFile = `${data}.password`;
  fs.rmSync(fresh, { recursive: true, force: true });
  fs.rmSync(data, { recursive: true, force: true });
  fs.mkdirSync(fresh, { mode: 0o700 });
  fs.writeFileSync(passwordFile, password, { mode: 0o600 });
  own(fresh, identity);
  own(passwordFile, identity);
  try {
    const asked = [
      "-D",
      fresh,
      "-U",
      "waybill",
      "-A",
      "scram-sha-256",
      `--pwfile=${passwordFile}`,
      "-E",
      "UTF8",
      "--no-locale",
    ];
    const { command, args, ...as } = identity.running(initdb, asked);
    const { code, output } = await run(command, args, { ...as, cwd: "/", env: plainEnvironment() });
    if (code !== 0) throw new Trouble(`initdb could not make ${fresh}.\n${lastLines(output)}`);
    fs.renameSync(fresh, data);
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
}

function dataVersion(data) {
  try {
    return Number.parseInt(fs.readFileSync(path.join(data, "PG_VERSION"), "utf8"), 10);
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

// ---- Redis --------------------------------------------------------------------------------------

async function prepareRedis({ home, installedIn, choosePort, passwords, steps }) {
  const { program, version } = await obtainServer("redis", { installedIn, steps });
  const folder = path.join(home, "redis");
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const port = await choosePort("Redis", DEFAULT_PORTS.redis);
  const settings = path.join(folder, "redis.conf");
  fs.writeFileSync(settings, redisSettings(port, folder, passwords.redis), { mode: 0o600 });
  return {
    redisUrl: `redis://:${passwords.redis}@${LOOPBACK}:${port}`,
    recipe: {
      name: "redis",
      title: `Redis ${version}`,
      command: program,
      args: [settings],
      env: plainEnvironment(),
      niceness: 0,
      stopSignal: "SIGTERM",
      port,
    },
  };
}

const redisSettings = (port, folder, password) =>
  [
    `bind ${LOOPBACK}`,
    `port ${port}`,
    `requirepass ${password}`,
    `dir ${JSON.stringify(folder)}`,
    'save ""',
    "appendonly yes",
    "appendfsync everysec",
    "maxmemory-policy noeviction",
    "",
  ].join("\n");

// ---- Temporal -----------------------------------------------------------------------------------

/** Guide and figures: docs/decisions; a dev server's defaults are made for a handful of workflows. */
const DYNAMIC_CONFIG = {
  "matching.numTaskqueueReadPartitions": 1,
  "matching.numTaskqueueWritePartitions": 1,
  "history.hostLevelCacheMaxSize": 100_000,
  "frontend.namespaceRPS": 100_000,
  "frontend.rps": 100_000,
  "history.rps": 100_000,
  "matching.rps": 100_000,
  "frontend.persistenceMaxQPS": 1_000_000,
  "history.persistenceMaxQPS": 1_000_000,
  "matching.persistenceMaxQPS": 1_000_000,
  "worker.persistenceMaxQPS": 1_000_000,
  "system.enableActivityEagerExecution": true,
};
const SQLITE_PRAGMAS = { journal_mode: "WAL", synchronous: "NORMAL" };

async function prepareTemporal({ home, installedIn, choosePort, steps }) {
  const { program, version } = await obtainServer("temporal", { installedIn, steps });
  const folder = path.join(home, "temporal");
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, "temporal.db");
  const port = await choosePort("Temporal", DEFAULT_PORTS.temporal);
  const uiPort = await choosePort("Temporal's UI", DEFAULT_PORTS.temporalUi);
  const recipe = {
    name: "temporal",
    title: `Temporal ${version}`,
    command: program,
    args: ["server", "start-dev", ...(await temporalSettings(program, file, port, uiPort))],
    env: { ...plainEnvironment(), GOGC: "400" },
    niceness: NICE,
    stopSignal: "SIGTERM",
    port,
  };
  if (!fs.existsSync(file)) await steps.step("create Temporal's file", () => runUntilReady(recipe));
  const note = await dropUnusedIndexes(file);
  if (note !== undefined) steps.line(note);
  const temporalAddress = `${LOOPBACK}:${port}`;
  return {
    temporalAddress,
    temporalUi: `http://${LOOPBACK}:${uiPort}`,
    temporalConfigFile: clientConfig(folder, temporalAddress),
    recipe,
  };
}

/** So that a configuration which the person keeps for another cluster is not mixed with our address. */
function clientConfig(folder, address) {
  const file = path.join(folder, "temporal.toml");
  fs.writeFileSync(file, `[profile.default]\naddress = "${address}"\nnamespace = "default"\n`);
  return file;
}

async function temporalSettings(program, file, port, uiPort) {
  const { stdout: help } = await run(program, ["server", "start-dev", "--help"], { env: plainEnvironment() });
  return [
    `--ip=${LOOPBACK}`,
    `--port=${port}`,
    `--ui-port=${uiPort}`,
    `--db-filename=${file}`,
    "--search-attribute=WaybillNeedsReview=Keyword",
    ...(help.includes("--ui-disable-news-fetch") ? ["--ui-disable-news-fetch"] : []),
    ...Object.entries(SQLITE_PRAGMAS).flatMap(([name, value]) => ["--sqlite-pragma", `${name}=${value}`]),
    ...Object.entries(DYNAMIC_CONFIG).flatMap(([name, value]) => [
      "--dynamic-config-value",
      `${name}=${value}`,
    ]),
  ];
}

/** The server writes its schema at the first start; only after that can indexes be dropped from it. */
async function runUntilReady({ title, command, args, env, port }) {
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => (said += text));
  const ended = new Promise((resolve) => child.once("close", resolve).once("error", resolve));
  const answered = await Promise.race([answers(port, READY_MS), ended.then(() => false)]);
  child.kill("SIGTERM");
  await ended;
  if (!answered) throw new Trouble(`${title} did not start.\n${lastLines(said)}`);
}

async function answers(port, withinMs) {
  for (const deadline = Date.now() + withinMs; Date.now() < deadline; await sleep(50)) {
    if (await connects(port)) return true;
  }
  return false;
}

const connects = (port) =>
  new Promise((resolve) => {
    const socket = net.connect(port, LOOPBACK);
    socket.once("connect", () => socket.destroy() && resolve(true)).once("error", () => resolve(false));
  });

// ---- shared by the three ------------------------------------------------------------------------

/** Servers listen on loopback, and other users of the machine still do not get in. */
function serverPasswords(home) {
  const file = path.join(home, "servers.json");
  if (fs.existsSync(file)) return JSON.parse(fs.readFileSync(file, "utf8"));
  const passwords = {
    postgres: randomBytes(18).toString("base64url"),
    redis: randomBytes(18).toString("base64url"),
  };
  fs.writeFileSync(file, JSON.stringify(passwords), { mode: 0o600 });
  return passwords;
}

/** Without settings that are meant for clients of other servers. */
function plainEnvironment() {
  const kept = Object.entries(process.env).filter(([name]) => !/^(PG|TEMPORAL_|npm_)/.test(name));
  return Object.fromEntries(kept);
}
