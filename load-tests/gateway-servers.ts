/**
 * What a gateway needs around it and nothing more, under `.waybill/<name>/`: PostgreSQL and Redis as durable
 * as a running copy's, and one simulated supplier in a process of its own.
 */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { type Database, openDatabase } from "../db/client.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { seedDemo } from "../db/seed.ts";
import { openVault, type Vault } from "../db/vault.ts";
import type { SupplierStats } from "../gateway-bridge/simulator-supplier.ts";
import type { SubmitRecord } from "../gateway-bridge/simulator-witness.ts";
import { keepChildren } from "../scripts/children.ts";
import type { Copy } from "../scripts/copy.ts";
import { dataKeySettings, dataKeysOf } from "../scripts/data-keys.ts";
import type { PrepareOwn } from "../scripts/own-system.ts";
import { untilItWorks } from "../scripts/readiness.ts";
import { startServers } from "../scripts/start-servers.ts";
import { listenForStop } from "../scripts/stop-requests.ts";
import { Trouble } from "../scripts/trouble.ts";
import { delay } from "../workers/service.ts";

export const SUPPLIER = {
  id: "sup_load",
  name: "supplier",
  version: "3.0",
  spId: "900001",
  secret: "measured",
} as const;
/** The seed's name for the first supplier's channel. */
export const CHANNEL = "chn_demo_1";
/** Ample, so that what holds the gateway up is the gateway. */
const AMPLE = { window: 512, rate: 100_000, connections: 16 };
const USUAL_PORTS = { cmpp: 7890, log: 7990 };
const READY_MS = 30_000;

export interface GatewayServers {
  database: Database;
  databaseUrl: string;
  redisUrl: string;
  vault: Vault;
  /** Where the supplier speaks CMPP. */
  cmppPort: number;
  supplier: WitnessLog;
  signal: AbortSignal;
  steps: Copy["steps"];
}

/** The supplier's own word (interfaces §6). */
export interface WitnessLog {
  stats(): Promise<SupplierStats>;
  submits(): Promise<SubmitRecord[]>;
  disturb(faults: object): Promise<void>;
}

/**
 * Runs `work` while they run, and stops them whatever comes of it.
 *
 * @throws Trouble when it was stopped from outside
 */
export async function withGatewayServers<Result>(
  prepare: PrepareOwn,
  name: string,
  work: (servers: GatewayServers) => Promise<Result>,
): Promise<Result> {
  const copy = await prepare(name);
  const stop = listenForStop();
  const logs = path.join(copy.home, "logs");
  mkdirSync(logs, { recursive: true, mode: 0o700 });
  const children = keepChildren({
    logs,
    reaperScript: path.join(copy.root, "scripts/reaper.mjs"),
    onChange: copy.remember,
    tell: (what) => copy.steps.line(what),
  });
  stop.onSecond(() => children.kill());
  const { servers } = copy;
  let database: Database | undefined;
  try {
    const [cmppPort, logPort] = [
      await copy.choosePort("the supplier", USUAL_PORTS.cmpp),
      await copy.choosePort("its witness log", USUAL_PORTS.log),
    ];
    children.add(simulator(copy, cmppPort, logPort));
    await startServers(children, servers, copy.steps, stop.signal, ["postgres", "redis"]);
    const supplier = witnessLog(`http://127.0.0.1:${logPort}`);
    const deadline = Date.now() + READY_MS;
    await untilItWorks(
      async () => void (await supplier.stats()),
      stop.signal,
      () => (Date.now() > deadline ? "the simulated supplier does not come up" : undefined),
    );
    dataKeySettings(copy.home);
    const vault = openVault(dataKeysOf(copy.home));
    const { databaseUrl, redisUrl } = servers;
    database = await prepareDatabase(databaseUrl, vault, cmppPort);
    const { signal } = stop;
    return await work({
      database,
      databaseUrl,
      redisUrl,
      vault,
      cmppPort,
      supplier,
      signal,
      steps: copy.steps,
    });
  } catch (error) {
    if (stop.signal.aborted) throw new Trouble("It was stopped before it was done.");
    throw error;
  } finally {
    await database?.close();
    await children.stop(["simulator"]);
    await children.stop(["postgres", "redis"]);
    await children.close();
    stop.close();
    copy.release();
  }
}

const simulator = ({ root, home }: Copy, cmppPort: number, logPort: number) => ({
  name: "simulator",
  title: "simulated supplier",
  command: process.execPath,
  args: [path.join(root, "dist/gateway-bridge/simulator-main.js")],
  env: {
    PATH: process.env["PATH"],
    WAYBILL_LOG_LEVEL: "warn",
    WAYBILL_TETHERED: "1",
    WAYBILL_SIMULATOR: JSON.stringify({
      dataDir: path.join(home, "simulator"),
      suppliers: [
        {
          name: SUPPLIER.name,
          version: SUPPLIER.version,
          spId: SUPPLIER.spId,
          secret: SUPPLIER.secret,
          cmppPort,
          logPort,
          ...AMPLE,
        },
      ],
    }),
  },
  niceness: 0,
  stopSignal: "SIGTERM" as const,
  tethered: true,
});

function witnessLog(url: string): WitnessLog {
  const get = async <Answer>(what: string): Promise<Answer> => {
    const response = await fetch(`${url}/${what}`);
    if (!response.ok) throw new Trouble(`the supplier's log answers ${response.status}`);
    return (await response.json()) as Answer;
  };
  return {
    stats: () => get<SupplierStats>("stats"),
    submits: () => get<SubmitRecord[]>("submits"),
    async disturb(faults) {
      const response = await fetch(`${url}/faults`, { method: "POST", body: JSON.stringify(faults) });
      if (!response.ok) throw new Trouble(`the supplier refuses to be disturbed: ${response.status}`);
    },
  };
}

async function prepareDatabase(url: string, vault: Vault, cmppPort: number): Promise<Database> {
  await migrateDatabase(url);
  const database = openDatabase(url, "operations", 6, vault);
  await seedDemo(database, {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    suppliers: [{ ...SUPPLIER, host: "127.0.0.1", port: cmppPort }],
  });
  return database;
}

/** Asks until it is so. */
export async function untilTrue(
  what: string,
  isTrue: () => Promise<boolean>,
  { signal, patienceMs = 120_000 }: { signal: AbortSignal; patienceMs?: number },
): Promise<void> {
  const giveUp = performance.now() + patienceMs;
  while (!(await isTrue())) {
    signal.throwIfAborted();
    if (performance.now() > giveUp) throw new Trouble(`Waited ${patienceMs / 1000} s in vain: ${what}.`);
    await delay(100, signal);
  }
}
