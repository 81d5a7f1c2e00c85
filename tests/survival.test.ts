/**
 * The system as a newcomer starts it, killed with -9: all of it at once, and each process by itself. What
 * was accepted comes to its end, and no supplier sees a part twice.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../db/client.ts";
import { books } from "../db/ledger.ts";
import { until } from "./servers.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
/** What stays unknown ends then: the only messages that take so long. */
const VALIDITY_SECONDS = 40;
const START_MS = 120_000;
const SETTLE_MS = 120_000;

interface RunFile {
  api: string;
  apiKey: string;
  databaseUrl: string;
  suppliers: { name: string; logUrl: string }[];
  pids: Record<string, number>;
}

let home: string;
let system: ChildProcess | undefined;
beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), "waybill-survival-"));
  await start();
}, START_MS);
afterAll(async () => {
  await stop();
  await rm(home, { recursive: true, force: true });
});

const readRun = async (): Promise<RunFile> =>
  JSON.parse(await readFile(path.join(home, "run.json"), "utf8")) as RunFile;

async function start(): Promise<void> {
  const child = spawn(process.execPath, ["scripts/start.mjs", "--no-demo"], {
    cwd: root,
    // The servers of the test run are not for this one.
    env: {
      ...process.env,
      WAYBILL_HOME: home,
      DATABASE_URL: undefined,
      REDIS_URL: undefined,
      TEMPORAL_ADDRESS: undefined,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (said += String(chunk)));
  system = child;
  await until(
    "the system is ready",
    async () => {
      if (child.exitCode !== null) throw new Error(`it ended instead:\n${said}`);
      const run = await readRun().catch(() => undefined);
      if (run === undefined) return false;
      const { api, pids } = run;
      const isThisRun = pids["supervisor"] !== undefined && alive(pids["supervisor"]);
      return isThisRun && (await fetch(`${api}/readyz`).catch(() => undefined))?.ok;
    },
    START_MS,
  );
}

async function stop(): Promise<void> {
  const child = system;
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGINT");
  await ended;
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

interface Sent {
  id: string;
  to: string;
}

/** Fates that end by themselves whatever happens in between; every third message has one of them. */
const FATES = ["0201", "0205", "0208", "0501", "0502"];
const PREFIXES = [
  "35",
  "36",
  "37",
  "38",
  "39",
  "50",
  "51",
  "52",
  "57",
  "58",
  "59",
  "82",
  "83",
  "84",
  "87",
  "88",
];

/** No number twice: what came back for one of two texts could not be told apart (D14). */
function numberOf(index: number): string {
  const prefix = PREFIXES[Math.floor(index / FATES.length) % PREFIXES.length];
  const fate = FATES[index % FATES.length];
  return index % 3 === 0 ? `1${prefix}9999${fate}` : `1${prefix}${String(index).padStart(8, "0")}`;
}

/** Sends for a while and answers what was accepted; whoever is refused or cut off simply is not in it. */
async function sendMany(count: number, first: number, during: () => Promise<void>): Promise<Sent[]> {
  const { api, apiKey } = await readRun();
  const accepted: Sent[] = [];
  const calls: Promise<void>[] = [];
  for (let i = 0; i < count; i++) {
    calls.push(post(api, apiKey, numberOf(first + i), `hello ${first + i}`, accepted));
    if (i === Math.floor(count / 2)) calls.push(during());
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  await Promise.all(calls);
  return accepted;
}

async function post(api: string, apiKey: string, to: string, text: string, accepted: Sent[]): Promise<void> {
  try {
    const response = await fetch(`${api}/v1/messages`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ to, text, reference: text, validitySeconds: VALIDITY_SECONDS }),
    });
    if (response.status === 202) accepted.push({ id: ((await response.json()) as Sent).id, to });
  } catch {
    // Cut off: it may or may not have been accepted, and nobody was told that it was.
  }
}

/** False also while the API is away. */
async function isFinal(id: string): Promise<boolean> {
  const { api, apiKey } = await readRun();
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${api}/v1/messages/${id}`, { headers }).catch(() => undefined);
  const story = response?.ok === true ? ((await response.json()) as { finalAt: string | null }) : undefined;
  return typeof story?.finalAt === "string";
}

/** Text and part of everything that the suppliers read off the wire, with how often. */
async function submitsByText(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { name, logUrl } of (await readRun()).suppliers) {
    const submits = (await (await fetch(`${logUrl}/submits`)).json()) as { to: string; textHex: string }[];
    for (const it of submits) {
      const key = `${name}/${it.to}/${it.textHex}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  }
  return counts;
}

async function expectAllWell(accepted: readonly Sent[]): Promise<void> {
  expect(accepted.length).toBeGreaterThan(10);
  const open = new Set(accepted.map((it) => it.id));
  await until(
    "every accepted message is final",
    async () => {
      for (const id of open) {
        if (await isFinal(id)) open.delete(id);
      }
      return open.size === 0;
    },
    SETTLE_MS,
  );
  const twice = [...(await submitsByText())].filter(([, count]) => count > 1);
  expect(twice).toEqual([]);
  const database = openDatabase((await readRun()).databaseUrl, "operations", 1);
  try {
    expect((await books(database)).differences).toEqual([]);
  } finally {
    await database.close();
  }
}

describe("everything killed with -9 at once", () => {
  it(
    "leaves no process behind, and goes on where it was when started again",
    async () => {
      const before = await readRun();
      const accepted = await sendMany(80, 0, () => {
        for (const pid of Object.values(before.pids)) process.kill(pid, "SIGKILL");
        return Promise.resolve();
      });
      await until("nothing of it is left", () =>
        Promise.resolve(Object.values(before.pids).every((pid) => !alive(pid))),
      );
      await start();
      await expectAllWell(accepted);
    },
    START_MS + SETTLE_MS,
  );
});

describe("killed with -9 under load, and started again by the supervisor", () => {
  it.each(["attempts", "gateway", "results", "sweeper", "api", "redis", "postgres", "temporal"])(
    "%s comes back by itself",
    async (name) => {
      const { pids } = await readRun();
      const victim = pids[name];
      expect(victim).toBeDefined();
      const accepted = await sendMany(60, 1_000 * (1 + ORDER.indexOf(name)), () => {
        process.kill(victim ?? 0, "SIGKILL");
        return Promise.resolve();
      });
      await until(
        `${name} runs again`,
        async () => {
          const now = (await readRun()).pids[name];
          return now !== undefined && now !== victim && alive(now);
        },
        60_000,
      );
      await expectAllWell(accepted);
    },
    SETTLE_MS + 60_000,
  );
});

const ORDER = ["attempts", "gateway", "results", "sweeper", "api", "redis", "postgres", "temporal"];
