/**
 * Runs one copy of Waybill: servers first, then the database, then the roles; keeps all of it running,
 * says in run.json where it is, and stops everything in order.
 */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { checkConnectionBudget, openDatabase } from "../db/client.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { type DemoSeed, seedDemo } from "../db/seed.ts";
import { type Children, keepChildren } from "./children.ts";
import type { Copy } from "./copy.ts";
import { type DemoResult, runDemo } from "./demo.ts";
import { type Layout, layOut } from "./layout.ts";
import { untilItWorks } from "./readiness.ts";
import { roleRecipe } from "./role-recipe.ts";
import { ROLES } from "./roles.ts";
import { type RunFile, removeRunFile, writeRunFile } from "./run-file.ts";
import { SERVERS, endOf, startServers } from "./start-servers.ts";
import { type StopRequests, listenForStop } from "./stop-requests.ts";
import { Trouble } from "./trouble.ts";

export interface Wanted extends Copy {
  demo: boolean;
  /** End after the demo messages, with a last line of JSON. */
  once: boolean;
}

const READY_MS = 60_000;
const MAX_DEATHS = 6;

/** @returns the exit code, once everything that was started has stopped */
export async function supervise(wanted: Wanted): Promise<number> {
  const { steps } = wanted;
  const stop = listenForStop();
  const layout = await layOut(wanted);
  const children = keepAll(wanted, layout.run, stop);
  let result: DemoResult | undefined;
  try {
    await startAll(wanted, layout, children, stop.signal);
    if (wanted.demo) result = await runDemo(layout.run, steps, stop.signal);
    if (result?.trouble !== undefined && !wanted.once) steps.line(`\n${result.trouble}`);
    if (!wanted.once) await serveUntil(stop.requested, wanted, layout.run);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    await steps.step("stop everything", () => stopAll(children));
    removeRunFile(wanted.home);
    stop.close();
  }
  return wanted.once ? lastWord(wanted, result) : 0;
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

async function startAll(
  wanted: Wanted,
  layout: Layout,
  children: Children,
  signal: AbortSignal,
): Promise<void> {
  const { servers, steps } = wanted;
  // It needs no server, and when the gateway first dials it should be there.
  children.add(roleRecipe("simulator", wanted, layout));
  await startServers(children, servers, steps, signal);
  await steps.step("database", () => prepareDatabase(servers.databaseUrl, layout.seed));
  signal.throwIfAborted();
  for (const role of ROLES) {
    if (role !== "simulator") children.add(roleRecipe(role, wanted, layout));
  }
  await steps.step("all roles run and all suppliers are connected", () =>
    rolesReady(layout.run, children, signal),
  );
}

async function prepareDatabase(url: string, seed: DemoSeed): Promise<string> {
  const migrations = await migrated(url);
  const database = openDatabase(url, "operations", 1);
  try {
    await checkConnectionBudget(database);
    await seedDemo(database, seed);
  } finally {
    await database.close();
  }
  return `schema ${migrations}, demo seed in place`;
}

async function migrated(url: string): Promise<number> {
  try {
    return await migrateDatabase(url);
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

async function serveUntil(requested: Promise<void>, { steps, home }: Copy, run: RunFile): Promise<void> {
  const addresses = [
    ["API and its docs", `${run.api}/docs`],
    ["console", run.console],
    ...(run.temporalUi === null ? [] : [["Temporal", run.temporalUi]]),
    ...run.suppliers.map(({ name, version, logUrl }) => [
      `${name} (CMPP ${version}), what it saw`,
      `${logUrl}/submits`,
    ]),
    ["all addresses and keys", path.join(home, "run.json")],
    ["logs", path.join(home, "logs")],
  ];
  steps.line();
  for (const [what = "", where = ""] of addresses) steps.line(`  ${what.padEnd(36)}${where}`);
  steps.line(`\nTry: npx waybill send --to 13800001234 --text "hello"      Ctrl-C stops everything.`);
  await requested;
}

/** Roles first, so that none of them sees a server go away. */
async function stopAll(children: Children): Promise<void> {
  const all = children.names();
  const servers: readonly string[] = SERVERS;
  await children.stop(all.filter((name) => !servers.includes(name)));
  await children.stop(servers);
  await children.close();
}

function lastWord({ steps }: Copy, result: DemoResult | undefined): number {
  if (result === undefined) throw new Trouble("It was stopped before the demo messages were final.");
  if (result.trouble !== undefined) throw new Trouble(result.trouble);
  const { sent, delivered, webhooks, ms } = result;
  steps.line(JSON.stringify({ sent, delivered, webhooks, ms }));
  return 0;
}
