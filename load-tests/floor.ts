/**
 * What Temporal alone costs: the attempt workflow with steps that do nothing, started and told as the chain
 * starts and tells it, with 200 always in flight. Once told by the update, and once lingering.
 */
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type AttemptId, attemptIdOf, attemptWorkflowId, messageIdFrom } from "../domain/ids.ts";
import { dataKeySettings } from "../scripts/data-keys.ts";
import type { RunFile } from "../scripts/run-file.ts";
import { Trouble } from "../scripts/trouble.ts";
import { readConfig } from "../workers/config.ts";
import { delay } from "../workers/service.ts";
import { type Temporal, connectTemporal, tellToLook } from "../workers/temporal.ts";
import type { FromFloorWorker, ToFloorWorker } from "./floor-protocol.ts";
import { historyCost } from "./histories.ts";
import { rounded } from "./latency.ts";
import { usageOf } from "./processes.ts";

export interface FloorFigures {
  /** Attempts that came to their decision, a second. */
  perSecond: number;
  /** CPU time of the worker and of the server, for each attempt. */
  workerCpuMs: number;
  serverCpuMs: number;
  events: number;
  workflowTasks: number;
}

/** The figures without lingering are the floor: every attempt can be told by the update. */
export interface FloorResult extends FloorFigures {
  lingering: FloorFigures;
}

const IN_FLIGHT = 200;
const WARM_UP = 500;
const MEASURED = 1_500;
/** From the command to its decision, as the load's own receipts take. */
const DECISION_AFTER_MS = 300;
/** Who was called while it lingered and has not settled by then did not hear it. */
const UNHEARD_AFTER_MS = 2_000;
const TELL_TIMEOUT_MS = 10_000;
const STUCK_AFTER_MS = 120_000;
const POLL_MS = 5;
const BUNDLE = fileURLToPath(new URL("../workflow-bundle.js", import.meta.url));
const PROGRAM = fileURLToPath(new URL("./floor-worker.js", import.meta.url));

type Copy = Pick<RunFile, "temporalAddress" | "pids" | "databaseUrl" | "redisUrl">;

/** On the servers of the copy in `home`; its roles may stand idle beside. */
export async function measureFloor(
  run: Copy,
  home: string,
  profile: "standard" | "throughput",
  signal: AbortSignal,
): Promise<FloorResult> {
  const environment = {
    DATABASE_URL: run.databaseUrl,
    REDIS_URL: run.redisUrl,
    TEMPORAL_ADDRESS: run.temporalAddress,
    WAYBILL_TASK_QUEUE: "waybill-floor",
    WAYBILL_WORKFLOW_BUNDLE: BUNDLE,
    WAYBILL_PROFILE: profile,
    ...dataKeySettings(home),
  };
  const temporal = await connectTemporal(readConfig({ ...process.env, ...environment }), silent);
  try {
    const measured = (mode: Mode): Promise<FloorFigures> =>
      withWorker(environment, mode, (child) => measure(child, mode, run, temporal, signal));
    const floor = await measured("update");
    return { ...floor, lingering: await measured("linger") };
  } finally {
    await temporal.connection.close();
  }
}

type Mode = "update" | "linger";

async function withWorker(
  environment: Readonly<Record<string, string>>,
  mode: Mode,
  work: (child: ChildProcess) => Promise<FloorFigures>,
): Promise<FloorFigures> {
  const child = fork(PROGRAM, [mode], {
    execPath: process.env["WAYBILL_NODE"] ?? process.execPath,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  try {
    await readyOf(child);
    return await work(child);
  } finally {
    if (child.exitCode === null) {
      const gone = once(child, "exit");
      child.send({ kind: "end" } satisfies ToFloorWorker);
      await gone;
    }
  }
}

async function measure(
  child: ChildProcess,
  mode: Mode,
  run: Copy,
  temporal: Temporal,
  signal: AbortSignal,
): Promise<FloorFigures> {
  const usage = () => usageOf({ worker: child.pid ?? 0, server: run.pids["temporal"] ?? 0 });
  const loop = closedLoop(child, mode, (attemptId) => tellToLook(temporal, attemptId, TELL_TIMEOUT_MS));
  await loop.settled(WARM_UP, signal);
  const before = { usage: usage(), at: performance.now(), count: loop.count() };
  await loop.settled(WARM_UP + MEASURED, signal);
  const after = { usage: usage(), at: performance.now(), count: loop.count() };
  await loop.settled(loop.attemptIds.length, signal);
  const count = after.count - before.count;
  const cpuMs = (name: string): number =>
    rounded(((after.usage[name]?.cpuMs ?? 0) - (before.usage[name]?.cpuMs ?? 0)) / count);
  return {
    perSecond: rounded((count * 1_000) / (after.at - before.at)),
    workerCpuMs: cpuMs("worker"),
    serverCpuMs: cpuMs("server"),
    ...(await historyCost(
      run.temporalAddress,
      loop.attemptIds.map((id) => attemptWorkflowId(id)),
    )),
  };
}

interface ClosedLoop {
  readonly attemptIds: readonly AttemptId[];
  /** How many have settled. */
  count(): number;
  /** Resolves when so many have. */
  settled(count: number, signal: AbortSignal): Promise<void>;
}

/** Each is told its decision a while after its command is out, and its settlement makes room for the next. */
function closedLoop(
  child: ChildProcess,
  mode: Mode,
  tell: (attemptId: string) => Promise<unknown>,
): ClosedLoop {
  const attemptIds = Array.from({ length: WARM_UP + MEASURED + IN_FLIGHT }, () =>
    attemptIdOf(messageIdFrom(Date.now(), randomBytes(10)), 1),
  );
  const settled = new Set<string>();
  let started = 0;
  let failure: unknown;
  const say = (what: ToFloorWorker): void => void child.send(what);

  function startNext(): void {
    const attemptId = attemptIds[started++];
    if (attemptId !== undefined) say({ kind: "start", attemptId });
  }
  function tellUnlessSettled(attemptId: string): void {
    if (settled.has(attemptId)) return;
    tell(attemptId).catch((error: unknown) => (failure ??= error));
  }
  function decide(attemptId: string): void {
    if (mode === "update") return tellUnlessSettled(attemptId);
    say({ kind: "call", attemptId });
    setTimeout(() => tellUnlessSettled(attemptId), UNHEARD_AFTER_MS);
  }
  child.on("message", (said: FromFloorWorker) => {
    if (said.kind === "published") setTimeout(() => decide(said.attemptId), DECISION_AFTER_MS);
    if (said.kind !== "settled" || settled.has(said.attemptId)) return;
    settled.add(said.attemptId);
    startNext();
  });
  for (let i = 0; i < IN_FLIGHT; i++) startNext();

  return {
    attemptIds,
    count: () => settled.size,
    async settled(count, signal) {
      const deadline = Date.now() + STUCK_AFTER_MS;
      while (settled.size < count) {
        signal.throwIfAborted();
        if (failure !== undefined) throw failure;
        if (Date.now() > deadline) {
          throw new Trouble(`Temporal settled ${settled.size} of ${count} bare attempts in time.`);
        }
        await delay(POLL_MS, signal);
      }
    },
  };
}

function readyOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("message", () => resolve());
    child.once("exit", () => reject(new Trouble("The floor's worker ended before it was ready.")));
  });
}

const nothing = (): void => undefined;
const silent = { info: nothing, warn: nothing, error: nothing };
