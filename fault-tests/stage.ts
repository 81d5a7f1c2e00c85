/** One system of the fault run's own, with everything that faults need to get at it. */
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import pg from "pg";
import type { ServerAddresses } from "../scripts/copy.ts";
import type { Shape } from "../scripts/layout.ts";
import type { System } from "../scripts/system.ts";
import type { FaultyRole, FaultyServer } from "./schedule.ts";
import { openWay, type Way } from "./ways.ts";

export interface Stage {
  system: System;
  /** The run's state folder. */
  home: string;
  /** Where orders for named points are laid. */
  points: string;
  way: (role: FaultyRole, server: FaultyServer) => Way;
}

const SUPPLIERS = 3;
/** A supplier's second: so that fates of many seconds do not hold a run up. */
const TIME_SCALE = 0.3;
const RECEIPT_DELAY_MS = 300;
/** As far beyond the simulator's scaled late answers as the demo's ten seconds are beyond the usual ones. */
const RESPONSE_TIMEOUT_MS = 3_000;

/** The ways between roles and servers are opened while the system is laid out. */
export interface Ways {
  shape: Shape;
  way: Stage["way"];
  close(): void;
}

export function waysBetween(pointsFolder: string): Ways {
  // What an earlier run ordered is not for this one.
  rmSync(pointsFolder, { recursive: true, force: true });
  mkdirSync(pointsFolder, { recursive: true });
  const ways = new Map<string, Way>();
  async function through(role: string, server: FaultyServer, url: string): Promise<string> {
    const { hostname, port } = new URL(url.includes("://") ? url : `tcp://${url}`);
    const way = await openWay({ host: hostname, port: Number(port) });
    ways.set(`${role} ${server}`, way);
    return url.replace(`${hostname}:${port}`, `127.0.0.1:${way.port}`);
  }
  return {
    shape: {
      suppliers: SUPPLIERS,
      roleEnvironment: { WAYBILL_FAULT_POINTS: pointsFolder },
      simulator: { timeScale: TIME_SCALE, receiptDelayMs: RECEIPT_DELAY_MS },
      seenBy: async (role, { databaseUrl, redisUrl, temporalAddress }): Promise<ServerAddresses> => ({
        databaseUrl: await through(role, "postgres", databaseUrl),
        redisUrl: await through(role, "redis", redisUrl),
        temporalAddress: await through(role, "temporal", temporalAddress),
      }),
    },
    way(role, server) {
      const way = ways.get(`${role} ${server}`);
      if (way === undefined) throw new Error(`there is no way from ${role} to ${server}`);
      return way;
    },
    close() {
      for (const way of ways.values()) way.close();
    },
  };
}

export const pointsIn = (home: string): string => path.join(home, "points");

/** Suppliers answer sooner here, so what is unanswered is called unknown sooner too. */
export async function hurrySuppliers(databaseUrl: string): Promise<void> {
  const database = await connected(databaseUrl);
  try {
    await database.query(
      `UPDATE suppliers SET profile = profile || jsonb_build_object('responseTimeoutMs', $1::int, 'throttleBackoffMs', 200)`,
      [RESPONSE_TIMEOUT_MS],
    );
  } finally {
    await database.end();
  }
}

/** A connection of ours, on no way that a fault cuts. */
export async function connected(databaseUrl: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: "fault-run",
    connectionTimeoutMillis: 2_000,
  });
  client.on("error", () => undefined); // Whoever uses it next hears of it.
  await client.connect();
  return client;
}

/** Tries until it works or `patienceMs` have passed; answers whether it did. */
export async function eventually(
  work: () => Promise<boolean>,
  patienceMs: number,
  signal: AbortSignal,
  everyMs = 50,
): Promise<boolean> {
  const giveUpAt = performance.now() + patienceMs;
  while (performance.now() < giveUpAt) {
    signal.throwIfAborted();
    if (await work().catch(() => false)) return true;
    await pause(everyMs);
  }
  return false;
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
