/**
 * The set-up around the roles: what a person relies on when they start, kill and start again
 * (interfaces §1).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, inject, test } from "vitest";
import { openDatabase, statement } from "../db/client.ts";
import { migrateDatabase } from "../db/migrate.ts";
import { PREFIXES, type DemoSeed, seedDemo } from "../db/seed.ts";
import { supplierProfile } from "../gateway-bridge/supplier.ts";
import { type Children, type Recipe, keepChildren } from "../scripts/children.ts";
import { readRunFile, writeRunFile } from "../scripts/run-file.ts";
import { secretsOf } from "../scripts/secrets.ts";
import { unseen } from "../scripts/story.ts";
import { receiveWebhooks } from "../scripts/webhook-receiver.ts";
import { freshDatabase, uniqueName, until } from "./servers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "waybill-bootstrap-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

// ---- database -----------------------------------------------------------------------------------

const SEED: DemoSeed = {
  apiKey: "wbk_bootstrap",
  opsToken: "wbo_bootstrap",
  viewerToken: "wbv_bootstrap",
  webhookSecret: "whsec_Ym9vdHN0cmFwYm9vdHN0cmFwYm9vdHN0cmFw",
  suppliers: (["3.0", "3.0", "2.0"] as const).map((version, index) => ({
    id: `sup_demo_${index + 1}`,
    name: `supplier-${index + 1}`,
    version,
    host: "127.0.0.1",
    port: 7890 + index,
    spId: `90000${index + 1}`,
    secret: `secret-${index + 1}`,
  })),
};

const EVERYTHING = statement<{ dump: string }>(
  "test.everything",
  `SELECT concat_ws(E'\\n', query_to_xml('SELECT * FROM enterprises', true, false, '')::text,
     query_to_xml('SELECT * FROM accounts', true, false, '')::text,
     query_to_xml('SELECT * FROM applications', true, false, '')::text,
     query_to_xml('SELECT * FROM api_keys', true, false, '')::text,
     query_to_xml('SELECT * FROM ops_tokens', true, false, '')::text,
     query_to_xml('SELECT * FROM suppliers ORDER BY id', true, false, '')::text,
     query_to_xml('SELECT * FROM channels ORDER BY id', true, false, '')::text,
     query_to_xml('SELECT * FROM channel_group_members ORDER BY channel_id', true, false, '')::text,
     query_to_xml('SELECT * FROM filings ORDER BY id', true, false, '')::text,
     query_to_xml('SELECT * FROM number_prefixes ORDER BY prefix', true, false, '')::text,
     query_to_xml('SELECT * FROM ledger_transfers', true, false, '')::text,
     query_to_xml('SELECT * FROM publication', true, false, '')::text) AS dump`,
);

const BALANCE = statement<{ balance: bigint; moved: bigint }>(
  "test.balance",
  `SELECT balance_units AS balance, (SELECT sum(units)::bigint FROM ledger_transfers) AS moved FROM accounts`,
);

const PROFILES = statement<{ profile: unknown; priority: number }>(
  "test.profiles",
  `SELECT profile, priority FROM suppliers JOIN channels ON supplier_id = suppliers.id
     JOIN channel_group_members ON channel_id = channels.id ORDER BY priority`,
);

describe("the demo seed", () => {
  test("holds what the contract says: money for ten million segments, three suppliers, the last one CMPP 2.0", async () => {
    const database = openDatabase(await freshDatabase(), "operations", 1);
    try {
      await seedDemo(database, SEED);
      expect(await database.run(BALANCE)).toEqual([{ balance: 3_250_000_000n, moved: 3_250_000_000n }]);
      const suppliers = (await database.run(PROFILES)).map(({ profile }) => supplierProfile.parse(profile));
      expect(
        suppliers.map(({ version, connections, responseTimeoutMs }) => [
          version,
          connections,
          responseTimeoutMs,
        ]),
      ).toEqual([
        ["3.0", 2, 10_000],
        ["3.0", 2, 10_000],
        ["2.0", 2, 10_000],
      ]);
    } finally {
      await database.close();
    }
  });

  test("changes nothing when it runs again", async () => {
    const database = openDatabase(await freshDatabase(), "operations", 1);
    try {
      await seedDemo(database, SEED);
      const before = await database.run(EVERYTHING);
      await seedDemo(database, SEED);
      expect(await database.run(EVERYTHING)).toEqual(before);
    } finally {
      await database.close();
    }
  });

  test("follows a supplier whose port moved, and leaves the rest of its profile to people", async () => {
    const database = openDatabase(await freshDatabase(), "operations", 1);
    try {
      await seedDemo(database, SEED);
      await database.run(
        statement(
          "test.tune",
          `UPDATE suppliers SET profile = profile || '{"window": 3}' WHERE id = 'sup_demo_1'`,
        ),
      );
      const [first, ...others] = SEED.suppliers;
      if (first === undefined) throw new Error("the seed has no supplier");
      await seedDemo(database, { ...SEED, suppliers: [{ ...first, port: 40_123 }, ...others] });
      const [row] = await database.run(PROFILES);
      expect(row?.profile).toMatchObject({ port: 40_123, window: 3 });
    } finally {
      await database.close();
    }
  });

  test("gives no prefix to two operators", () => {
    const all = Object.values(PREFIXES).flat();
    expect(new Set(all).size).toBe(all.length);
  });
});

test("three processes may migrate an empty database at once", async () => {
  const url = new URL(inject("databaseUrl"));
  const name = uniqueName(inject("templateDatabase"));
  const admin = openDatabase(url.href, "operations", 1);
  try {
    await admin.run(statement(`create.${name}`, `CREATE DATABASE ${name}`));
  } finally {
    await admin.close();
  }
  url.pathname = `/${name}`;
  const counts = await Promise.all([1, 2, 3].map(() => migrateDatabase(url.href)));
  expect(new Set(counts).size).toBe(1);
});

// ---- processes ----------------------------------------------------------------------------------

const sleeper = (name: string): Recipe => ({
  name,
  title: name,
  command: process.execPath,
  args: ["-e", "setInterval(() => {}, 1000)"],
  env: process.env,
  niceness: 0,
  stopSignal: "SIGTERM",
});

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false; // No such process.
  }
};

describe("children", () => {
  let children: Children | undefined;
  let pids: Record<string, number> = {};
  let told: string[] = [];
  const keep = (): Children =>
    keepChildren({
      logs: folder,
      reaperScript: path.join(ROOT, "scripts/reaper.mjs"),
      onChange: (running) => {
        pids = Object.fromEntries(running.map(({ name, pid }) => [name, pid]));
      },
      tell: (what) => {
        told.push(what);
      },
    });
  beforeEach(() => {
    told = [];
  });
  afterEach(async () => {
    await children?.stop(children.names());
    await children?.close();
    children = undefined;
  });

  test("one that is killed is started again", async () => {
    children = keep();
    children.add(sleeper("worker"));
    const first = await until("it runs", async () => pids["worker"]);
    process.kill(first, "SIGKILL");
    const second = await until("another one runs", async () => pids["worker"] !== first && pids["worker"]);
    expect(isAlive(second)).toBe(true);
    expect(told).toEqual(["worker ended by itself (SIGKILL) and is started again."]);
  });

  test("what is set for a first life is gone in the next, so a kill point kills once", async () => {
    children = keep();
    const first = { WAYBILL_TEST_LIFE: "first" };
    const tellTale = ["-e", "console.log(process.env.WAYBILL_TEST_LIFE); setInterval(() => {}, 1000)"];
    children.add({ ...sleeper("worker"), args: tellTale, firstLife: first });
    const lives = (): Promise<string> => readFile(path.join(folder, "worker.log"), "utf8");
    await until("it lives", async () => (await lives()) === "first\n");
    await children.crash("worker");
    await until("it lives again", async () => (await lives()) === "first\nundefined\n");
  });

  test("stopping ends them and starts none again", async () => {
    children = keep();
    children.add(sleeper("one"));
    children.add(sleeper("two"));
    const started = await until("both run", async () => Object.keys(pids).length === 2 && { ...pids });
    await children.stop(["one", "two"]);
    expect(Object.values(started).some(isAlive)).toBe(false);
    expect(pids).toEqual({});
    expect(told).toEqual([]);
  });

  test("the reaper ends a child after kill -9 of its parent", async () => {
    const parent = supervised(`
      import { keepChildren } from ${JSON.stringify(path.join(ROOT, "scripts/children.ts"))};
      const children = keepChildren({
        logs: ${JSON.stringify(folder)},
        reaperScript: ${JSON.stringify(path.join(ROOT, "scripts/reaper.mjs"))},
        onChange: (running) => running[0] && console.log(running[0].pid),
        tell: () => undefined,
      });
      children.add(${JSON.stringify({ ...sleeper("orphan"), env: {} })});
    `);
    const [line] = (await once(parent.stdout ?? process.stdin, "data")) as [Buffer];
    const orphan = Number(line.toString());
    expect(isAlive(orphan)).toBe(true);
    parent.kill("SIGKILL");
    await until("the orphan is gone", async () => !isAlive(orphan));
  });

  function supervised(code: string): ChildProcess {
    return spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", code], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
  }
});

// ---- the folder ---------------------------------------------------------------------------------

/** Runs one of the plain-Node set-up modules and answers what it prints. */
async function setUp(code: string): Promise<{ printed: string; process: ChildProcess }> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    cwd: ROOT,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let printed = "";
  const listen = (chunk: Buffer): void => {
    printed += chunk.toString();
  };
  child.stdout.on("data", listen);
  child.stderr.on("data", listen);
  await Promise.race([
    once(child, "close"),
    until("it says it waits", async () => printed.includes("waiting")),
  ]);
  return { printed, process: child };
}

const TAKE = (home: string): string => `
  import { takeFolder } from "./scripts/ownership.mjs";
  try { takeFolder(${JSON.stringify(home)}); console.log("taken"); } catch (error) { console.log(error.message); }
`;
const WAIT = `console.log("waiting"); process.stdin.resume(); process.stdin.on("end", () => process.exit());`;

describe("the state folder", () => {
  test("is taken by one run; a second one says who has it and where", async () => {
    const first = await setUp(TAKE(folder) + WAIT);
    await writeFile(path.join(folder, "run.json"), JSON.stringify({ api: "http://127.0.0.1:7080" }));
    const second = await setUp(TAKE(folder));
    expect(second.printed).toContain(`as process ${first.process.pid}`);
    expect(second.printed).toContain("http://127.0.0.1:7080");
    first.process.kill("SIGKILL");
    await once(first.process, "exit");
  });

  test("is free again after kill -9", async () => {
    const first = await setUp(TAKE(folder) + WAIT);
    first.process.kill("SIGKILL");
    await once(first.process, "exit");
    expect((await setUp(TAKE(folder))).printed).toBe("taken\n");
  });

  test("of a killed run is cleared of what it left running", async () => {
    const left = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    const ended = once(left, "exit");
    const { printed } = await setUp(`
      import { endLeftovers, rememberChildren } from "./scripts/ownership.mjs";
      rememberChildren(${JSON.stringify(folder)}, [{ name: "redis", pid: ${left.pid}, signal: "SIGTERM" }]);
      console.log((await endLeftovers(${JSON.stringify(folder)})).join());
    `);
    expect(printed).toBe("redis\n");
    await ended;
  });

  test("keeps its keys between runs, readable for their owner alone", async () => {
    const first = secretsOf(folder, 3);
    expect(secretsOf(folder, 3)).toEqual(first);
    const more = secretsOf(folder, 6);
    expect(more).toEqual({ ...first, suppliers: [...first.suppliers, ...more.suppliers.slice(3)] });
    expect(new Set(more.suppliers).size).toBe(6);
    expect((await stat(path.join(folder, "secrets.json"))).mode & 0o777).toBe(0o600);
  });

  test("has a run.json that only its owner can read", async () => {
    const run = { api: "http://127.0.0.1:7080", pids: {} } as Parameters<typeof writeRunFile>[1];
    writeRunFile(folder, run);
    expect(readRunFile(folder)).toEqual(run);
    expect((await stat(path.join(folder, "run.json"))).mode & 0o777).toBe(0o600);
    expect(await readFile(path.join(folder, "run.json"), "utf8")).toContain('"pids"');
  });
});

test("a port that is taken is said, and another one used", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as { port: number };
  const { printed } = await setUp(`
    import { choosePorts } from "./scripts/ports.mjs";
    const choose = choosePorts((what, usual, got) => console.log(what, usual, got !== usual));
    console.log((await choose("Redis", ${port})) === ${port});
  `);
  expect(printed).toBe(`Redis ${port} true\nfalse\n`);
  taken.close();
});

test.each([
  ["an unknown option", ["scripts/start.mjs", "--twice"], 2],
  ["--once together with --no-demo", ["scripts/start.mjs", "--once", "--no-demo"], 2],
  ["an option of npm test that there is none of", ["scripts/test.mjs", "--quick"], 2],
  ["help", ["scripts/start.mjs", "--help"], 0],
])("%s ends with the exit code for it", async (_what, args, code) => {
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: "ignore" });
  expect(await once(child, "exit")).toEqual([code, null]);
});

// ---- what the demo relies on --------------------------------------------------------------------

test("the demo's receiver takes a webhook only with a signature that holds (E1)", async () => {
  const receiver = await receiveWebhooks(SEED.webhookSecret);
  try {
    const answer = await fetch(receiver.url, {
      method: "POST",
      headers: {
        "webhook-id": "evt_1",
        "webhook-timestamp": String(Math.floor(Date.now() / 1000)),
        "webhook-signature": "v1,bm8=",
      },
      body: JSON.stringify({ type: "message.delivered", id: "evt_1", data: { id: "msg_1" } }),
    });
    expect(answer.status).toBe(401);
    expect(receiver.refusedCount()).toBe(1);
    expect(receiver.verified.size).toBe(0);
  } finally {
    receiver.close();
  }
});

test("a story shows each entry once, also one that is learned late and lies in the past", () => {
  const entry = (at: string, what: string): { at: string; what: string } => ({ at, what });
  const story = (timeline: { at: string; what: string }[]): Parameters<typeof unseen>[1] =>
    ({ timeline }) as Parameters<typeof unseen>[1];
  const seen = new Set<string>();
  const [accepted, late, final] = [entry("1", "accepted"), entry("2", "receipt"), entry("3", "delivered")];
  expect(unseen(seen, story([accepted, final]))).toEqual([accepted, final]);
  expect(unseen(seen, story([accepted, late, final]))).toEqual([late]);
});
