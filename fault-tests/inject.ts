/** Brings a fault about, undoes it, and says from when on everything is there again. */
import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { Redis } from "ioredis";
import type pg from "pg";
import { doneFile, orderFile } from "../fault-points/at-point.ts";
import type { Order, PointName } from "../fault-points/points.ts";
import type { Cycle, Fault, FaultyRole, Provocation, ServerFault } from "./schedule.ts";
import { connected, eventually, pause, type Stage } from "./stage.ts";

export interface Injected {
  /** False where a point was never passed. */
  hit: boolean;
  /** When what was broken was there again, epoch milliseconds; a killed process counts from its end. */
  backAt: number;
}

const HIT_MS = 20_000;
/** Somebody else has to notice first, after its own timeout. */
const PROVOKED_HIT_MS = 45_000;
const SERVER_BACK_MS = 60_000;
const SHORT_OUTAGE_MS = 2_500;
const FULL_MS = 3_000;

export function inject(stage: Stage, { number, fault }: Cycle, signal: AbortSignal): Promise<Injected> {
  switch (fault.kind) {
    case "point":
      return atPoint(stage, `c${number}`, fault, signal);
    case "kill":
      return crash(stage, fault.role);
    case "pause":
      return stopFor(stage, fault.role, fault.ms);
    case "server":
      return breakServer(stage, fault.what, signal);
    case "way":
      return breakWay(stage, fault);
    case "supplier":
      return disturb(stage, fault);
  }
}

/** Whatever an order at a point that was never passed left behind is taken back. */
async function atPoint(
  stage: Stage,
  id: string,
  { point, mode, hangMs, provoke }: Extract<Fault, { kind: "point" }>,
  signal: AbortSignal,
): Promise<Injected> {
  const order = { id, mode, hangMs };
  give(stage, point, order);
  if (provoke !== undefined) await bringAbout(stage, id, provoke, signal);
  const done = doneFile(stage.points, order);
  const patienceMs = provoke === undefined ? HIT_MS : PROVOKED_HIT_MS;
  const hit = await eventually(() => Promise.resolve(existsSync(done)), patienceMs, signal, 10);
  if (!hit) rmSync(orderFile(stage.points, point), { force: true });
  if (hit && mode === "hang") await pause(hangMs);
  return { hit, backAt: Date.now() };
}

/** A process reads the whole order or none. */
function give({ points }: Stage, point: PointName, order: Order): void {
  const file = orderFile(points, point);
  writeFileSync(`${file}.new`, JSON.stringify(order));
  renameSync(`${file}.new`, file);
}

async function bringAbout(stage: Stage, id: string, what: Provocation, signal: AbortSignal): Promise<void> {
  switch (what) {
    case "redis_away":
      await breakWay(stage, { role: "attempts", server: "redis", how: "cut", ms: SHORT_OUTAGE_MS });
      return;
    case "stream_lost":
      // Nobody reads meanwhile, so there is something to lose.
      await stopFor(stage, "gateway", SHORT_OUTAGE_MS, () => onRedis(stage, (redis) => redis.flushall()));
      return;
    case "gateway_killed":
      give(stage, "all_written", { id: `${id}-provoked`, mode: "kill", hangMs: 0 });
      return;
    case "tell_lost":
      give(stage, "tell", { id: `${id}-provoked`, mode: "throw", hangMs: 0 });
      return;
    case "temporal_wiped":
      await breakServer(stage, "temporal_wiped", signal);
  }
}

async function crash(stage: Stage, name: string): Promise<Injected> {
  await stage.system.children.crash(name);
  return { hit: true, backAt: Date.now() };
}

async function stopFor(
  { system }: Stage,
  role: FaultyRole,
  ms: number,
  meanwhile: () => Promise<unknown> = () => Promise.resolve(),
): Promise<Injected> {
  const pid = system.run.pids[role];
  if (pid === undefined) return { hit: false, backAt: Date.now() };
  process.kill(pid, "SIGSTOP");
  try {
    await pause(ms);
    await meanwhile();
  } finally {
    process.kill(pid, "SIGCONT");
  }
  return { hit: true, backAt: Date.now() };
}

async function breakWay(
  stage: Stage,
  { role, server, how, ms }: Omit<Extract<Fault, { kind: "way" }>, "kind">,
): Promise<Injected> {
  const way = stage.way(role, server);
  if (how === "cut") way.cut();
  else way.silence();
  try {
    await pause(ms);
  } finally {
    way.heal();
  }
  return { hit: true, backAt: Date.now() };
}

async function breakServer(stage: Stage, what: ServerFault, signal: AbortSignal): Promise<Injected> {
  const { children, run } = stage.system;
  const back = async (isBack: () => Promise<boolean>): Promise<Injected> => {
    if (!(await eventually(isBack, SERVER_BACK_MS, signal))) throw new Error(`no return after ${what}`);
    return { hit: true, backAt: Date.now() };
  };
  const postgresAnswers = async (): Promise<boolean> => {
    await (await connected(run.databaseUrl)).end();
    return true;
  };
  switch (what) {
    case "postgres_kill":
      await children.crash("postgres");
      return back(postgresAnswers);
    case "redis_empty":
      for (const name of ["appendonly.aof", "appendonlydir", "dump.rdb"]) {
        rmSync(path.join(stage.home, "redis", name), { recursive: true, force: true });
      }
      await children.crash("redis");
      return back(() => onRedis(stage, async (redis) => (await redis.ping()) === "PONG"));
    case "redis_kill":
      await children.crash("redis");
      return back(() => onRedis(stage, async (redis) => (await redis.ping()) === "PONG"));
    case "redis_flush":
      await onRedis(stage, (redis) => redis.flushall());
      return { hit: true, backAt: Date.now() };
    case "redis_group":
      await onRedis(stage, async (redis) => {
        for (const key of await redis.keys("*commands:*")) await redis.xgroup("DESTROY", key, "gateway");
      });
      return { hit: true, backAt: Date.now() };
    case "temporal_wiped":
      for (const end of ["", "-wal", "-shm"]) {
        rmSync(path.join(stage.home, "temporal", `temporal.db${end}`), { force: true });
      }
      await children.crash("temporal");
      return back(() => answers(run.temporalAddress));
    case "temporal_kill":
      await children.crash("temporal");
      return back(() => answers(run.temporalAddress));
    case "connections_full":
      await fillConnections(run.databaseUrl);
      return { hit: true, backAt: Date.now() };
  }
}

/** Takes every connection that the server still gives, and holds them all for a while. */
async function fillConnections(databaseUrl: string): Promise<void> {
  const taken: pg.Client[] = [];
  const until = Date.now() + FULL_MS;
  while (Date.now() < until) {
    const more = await Promise.allSettled(Array.from({ length: 20 }, () => connected(databaseUrl)));
    taken.push(...more.flatMap((it) => (it.status === "fulfilled" ? [it.value] : [])));
    if (more.some((it) => it.status === "rejected")) await pause(200);
  }
  await Promise.allSettled(taken.map((it) => it.end()));
}

async function disturb(
  { system }: Stage,
  { position, how, ms }: Extract<Fault, { kind: "supplier" }>,
): Promise<Injected> {
  const { begin, end } = SUPPLIER_FAULTS[how];
  const supplier = system.run.suppliers[position - 1];
  if (supplier === undefined) throw new Error(`there is no supplier ${position}`);
  const say = async (faults: object): Promise<void> => {
    const answer = await fetch(`${supplier.logUrl}/faults`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(faults),
      signal: AbortSignal.timeout(5_000),
    });
    if (!answer.ok) throw new Error(`a supplier took no fault: ${answer.status}`);
  };
  await say(begin);
  await pause(ms);
  await say(end);
  return { hit: true, backAt: Date.now() };
}

/** A status by which a supplier does not say that the login itself is wrong, which would be asked again seldom. */
const OTHER_REFUSAL = 5;

const SUPPLIER_FAULTS = {
  cut: { begin: { cut: true }, end: {} },
  blackhole: { begin: { blackhole: true }, end: { blackhole: false } },
  refuse_login: { begin: { refuseLogin: OTHER_REFUSAL, cut: true }, end: { refuseLogin: false } },
  slow: { begin: { delayMs: 4_000 }, end: { delayMs: 0 } },
  throttle: { begin: { rate: 1 }, end: { rate: null } },
} as const;

async function onRedis<T>({ system }: Stage, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(system.run.redisUrl, {
    lazyConnect: true,
    connectTimeout: 2_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  redis.on("error", () => undefined);
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

function answers(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.once("connect", () => socket.destroy() && resolve(true)).once("error", () => resolve(false));
  });
}

/** After the last fault nothing may be left that breaks anything. */
export async function healAll(stage: Stage): Promise<void> {
  for (const { logUrl } of stage.system.run.suppliers) {
    await fetch(`${logUrl}/faults`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ blackhole: false, refuseLogin: false, delayMs: 0, rate: null }),
      signal: AbortSignal.timeout(5_000),
    });
  }
}
