/**
 * A running copy of Waybill: servers first, then the database, then the roles; all of it kept running,
 * named in run.json, and stopped in order. `up` runs one, and each measuring command one of its own.
 */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { checkConnectionBudget, openDatabase } from "../db/client.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { type DemoSeed, seedDemo } from "../db/seed.ts";
import { openVault, type Vault } from "../db/vault.ts";
import { type Children, keepChildren } from "./children.ts";
import type { Copy } from "./copy.ts";
import { dataKeysOf } from "./data-keys.ts";
import { type Layout, type Shape, layOut } from "./layout.ts";
import { untilItWorks } from "./readiness.ts";
import { type RoleSettings, roleRecipe } from "./role-recipe.ts";
import { ROLES, type Role } from "./roles.ts";
import { type RunFile, removeRunFile, writeRunFile } from "./run-file.ts";
import { SERVERS, endOf, startServers } from "./start-servers.ts";
import type { StopRequests } from "./stop-requests.ts";
import { Trouble } from "./trouble.ts";

export interface System {
  /** Where everything is; `pids` follows each start and each end. */
  readonly run: RunFile;
  /** For what is done to one process: `crash`, `logOf`, `deathsInARow`. */
  readonly children: Children;
  /** Ends a role in order and starts it anew. */
  restart(role: Role, settings?: RoleSettings): Promise<void>;
  /** Resolves when every role runs and every supplier is connected. */
  ready(signal: AbortSignal): Promise<void>;
  /** Roles first, so that none of them sees a server go away. */
  stop(): Promise<void>;
}

const READY_MS = 60_000;
const MAX_DEATHS = 6;

/**
 * Resolves when all of it is ready. What was started is stopped again when that does not come about.
 *
 * @throws Trouble when a part does not come up
 */
export async function startSystem(copy: Copy, shape: Shape, stop: StopRequests): Promise<System> {
  const layout = await layOut(copy, shape);
  const children = keepAll(copy, layout.run, stop);
  const system: System = {
    run: layout.run,
    children,
    async restart(role, settings = {}) {
      await children.stop([role]);
      children.add(roleRecipe(role, copy, layout, settings));
    },
    ready: (signal) => rolesReady(layout.run, children, signal),
    async stop() {
      await copy.steps.step("stop everything", () => stopAll(children));
      removeRunFile(copy.home);
    },
  };
  try {
    await startAll(copy, layout, children, stop.signal);
    if (shape.roles?.length !== 0) await untilReady(copy, system, stop.signal);
  } catch (error) {
    await system.stop();
    throw error;
  }
  return system;
}

async function untilReady({ steps }: Copy, system: System, signal: AbortSignal): Promise<void> {
  await steps.step("all roles run and all suppliers are connected", () => system.ready(signal));
}

/** Every start and end of a process is written to run.json, and noted for the next run should this one be killed. */
function keepAll({ root, home, steps, remember }: Copy, run: RunFile, stop: StopRequests): Children {
  const logs = path.join(home, "logs");
  mkdirSync(logs, { recursive: true, mode: 0o700 });
  const children = keepChildren({
    logs,
    reaperScript: path.join(root, "scripts/reaper.mjs"),
    onChange(running) {
      remember(running);
      run.pids = {
        supervisor: process.pid,
        ...Object.fromEntries(running.map(({ name, pid }) => [name, pid])),
      };
      writeRunFile(home, run);
    },
    tell: (what) => steps.line(what),
  });
  stop.onSecond(() => children.kill());
  return children;
}

async function startAll(copy: Copy, layout: Layout, children: Children, signal: AbortSignal): Promise<void> {
  const { servers, steps } = copy;
  const { roles = ROLES } = layout.shape;
  // It needs no server, and when the gateway first dials it should be there.
  if (roles.includes("simulator")) children.add(roleRecipe("simulator", copy, layout));
  await startServers(children, servers, steps, signal);
  await steps.step("database", () => {
    const vault = openVault(dataKeysOf(copy.home));
    return prepareDatabase(servers.databaseUrl, vault, layout.seed);
  });
  signal.throwIfAborted();
  for (const role of roles) {
    if (role !== "simulator") children.add(roleRecipe(role, copy, layout));
  }
}

async function prepareDatabase(url: string, vault: Vault, seed: DemoSeed): Promise<string> {
  const migrations = await migrated(url, vault);
  const database = openDatabase(url, "operations", 1, vault);
  try {
    await checkConnectionBudget(database);
    await seedDemo(database, seed);
  } finally {
    await database.close();
  }
  return `schema ${migrations}, demo seed in place`;
}

async function migrated(url: string, vault: Vault): Promise<number> {
  try {
    return await migrateDatabase(url, vault);
  } catch (error) {
    // drizzle's message is the statement; what PostgreSQL said to it is the cause.
    const { message } =
      error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
    throw new Trouble(
      `The database does not take this version's schema: ${message}. Its data is of another version; npm start -- --fresh begins with empty data.`,
    );
  }
}

/** The API's /readyz speaks for all: 200 when every role runs and every supplier is connected. */
async function rolesReady(run: RunFile, children: Children, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + READY_MS;
  let said = "the API does not answer";
  await untilItWorks(
    async () => {
      const answer = await fetch(`${run.api}/readyz`, { signal: AbortSignal.timeout(2_000) });
      said = await answer.text();
      if (answer.status !== 200) throw new Error("not ready");
    },
    signal,
    () => {
      const failing = ROLES.find((role) => children.deathsInARow(role) >= MAX_DEATHS);
      if (failing !== undefined)
        return `${failing} ends again and again. Its log ends with:\n${endOf(children.logOf(failing))}`;
      return Date.now() > deadline ? `Not ready after ${READY_MS / 1000} s: ${said}` : undefined;
    },
  );
}

async function stopAll(children: Children): Promise<void> {
  const all = children.names();
  const servers: readonly string[] = SERVERS;
  await children.stop(all.filter((name) => !servers.includes(name)));
  await children.stop(servers);
  await children.close();
}
