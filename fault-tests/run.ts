/**
 * One fault run: a system of its own, traffic, one fault after the other, time to heal, and then the judges.
 * Sends to loopback only; ends only what it started.
 */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { PointName } from "../fault-points/points.ts";
import type { Copy } from "../scripts/copy.ts";
import type { System } from "../scripts/system.ts";
import { type Customer, openCustomer } from "./customer.ts";
import { healAll, inject } from "./inject.ts";
import { judgeRun } from "./judge-run.ts";
import type { Classes } from "./judges/classes.ts";
import type { Finding } from "./judges/evidence.ts";
import { type CycleResult, Recoveries, type Spread } from "./recoveries.ts";
import { type Cycle, type FaultyRole, nameOf, scheduleOf } from "./schedule.ts";
import { eventually, hurrySuppliers, pause, pointsIn, type Stage, type Ways } from "./stage.ts";
import { startTraffic, type Traffic } from "./traffic.ts";
import { startWatch, type Watch } from "./watch.ts";

export interface FaultRunOptions {
  seed: number;
  cycles: number;
  points?: readonly PointName[];
  quick: boolean;
  /** Instead of faults: each role is restarted in turn, one every two seconds, for so long. */
  rollingSeconds?: number;
  ratePerSecond: number;
  validitySeconds: number;
}

/** Interfaces §9. */
export interface FaultSummary extends Classes {
  seed: number;
  cycles: number;
  booksDrift: number;
  pointsHit: number;
  pointsMissed: string[];
  recoveryMs: Record<string, Spread>;
}

export interface FaultRunResult {
  summary: FaultSummary;
  findings: Finding[];
  passed: boolean;
}

export interface Telling {
  cycle(result: CycleResult): void;
  step(what: string): void;
}

const WARM_UP_MS = 30_000;
/** Between the return of what was broken and the next fault. */
const PROGRESS_PATIENCE_MS = 60_000;
const CAUGHT_PATIENCE_MS = 12_000;
/** Under way are those that were accepted so shortly before. */
const UNDER_WAY_MS = 3_000;
const ROLLING_EVERY_MS = 2_000;
/** Beyond the last text's own limit: for the sweeper, and for a webhook that was refused at first. */
const QUIET_MS = 60_000;
const ROLLING: readonly FaultyRole[] = ["api", "attempts", "results", "notifier", "sweeper", "gateway"];

export async function runFaults(
  options: FaultRunOptions,
  { system, copy, ways, signal }: { system: System; copy: Copy; ways: Ways; signal: AbortSignal },
  telling: Telling,
): Promise<FaultRunResult> {
  const stage: Stage = { system, home: copy.home, points: pointsIn(copy.home), way: ways.way };
  const { run } = system;
  const startedAt = Date.now();
  mkdirSync(stage.points, { recursive: true });
  await hurrySuppliers(run.databaseUrl);
  const customer = await openCustomer(run.webhookSecret);
  const watch = startWatch(run.databaseUrl);
  const traffic = startTraffic({ ...options, api: run.api, apiKey: run.apiKey, webhookUrl: customer.url });
  try {
    telling.step("warm up");
    await warmUp(traffic, customer, signal);
    const recoveries = new Recoveries();
    if (options.rollingSeconds === undefined) {
      for (const cycle of scheduleOf({ ...options, suppliers: run.suppliers.length })) {
        const result = await oneCycle(stage, cycle, { traffic, customer, signal });
        recoveries.add(result);
        telling.cycle(result);
      }
    } else {
      traffic.setRate(options.ratePerSecond / 2);
      await restartInTurn(stage, options.rollingSeconds * 1_000, signal, telling);
    }
    telling.step("heal, and wait until nothing is left to do");
    await healAll(stage);
    await traffic.stop();
    await waitForTheEnd(traffic, customer, options, signal);
    await watch.stop();
    telling.step("judge");
    const judged = await judgeRun({ stage, traffic, customer, watch, startedAt, signal });
    const { classes, findings, drift } = judged;
    findings.push(...recoveries.findings());
    const hits = readdirSync(stage.points).filter((it) => /^done-c\d+$/.test(it)).length;
    const summary: FaultSummary = {
      seed: options.seed,
      cycles: recoveries.count,
      ...classes,
      unexpected: classes.unexpected + recoveries.findings().length,
      booksDrift: drift,
      pointsHit: hits,
      pointsMissed: recoveries.missed,
      recoveryMs: recoveries.spreads(),
    };
    keepEvidence(stage, traffic, customer, findings, summary);
    return { summary, findings, passed: isSound(summary) };
  } finally {
    await stopAll(traffic, watch, customer);
  }
}

const isSound = ({ lost, duplicated, unexpected, booksDrift, pointsMissed }: FaultSummary): boolean =>
  lost + duplicated + unexpected + booksDrift + pointsMissed.length === 0;

async function warmUp(traffic: Traffic, customer: Customer, signal: AbortSignal): Promise<void> {
  const isWarm = await eventually(
    () => Promise.resolve(traffic.notes.some((it) => it.id !== undefined && customer.heardAt(it.id))),
    WARM_UP_MS,
    signal,
  ).then(Boolean);
  if (!isWarm) throw new Error("no text went all the way before the first fault");
}

async function oneCycle(
  stage: Stage,
  cycle: Cycle,
  { traffic, customer, signal }: { traffic: Traffic; customer: Customer; signal: AbortSignal },
): Promise<CycleResult> {
  const before = Date.now();
  const { hit, backAt } = await inject(stage, cycle, signal);
  const ordinary = () => traffic.notes.filter((it) => it.fate === undefined && !it.cancelAsked);
  const heardAt = (id: string | undefined): number | undefined =>
    id === undefined ? undefined : customer.heardAt(id);

  let recoveryMs: number | null = null;
  await eventually(
    () => {
      const first = ordinary()
        .filter((it) => (it.answeredAt ?? 0) >= backAt)
        .flatMap((it) => heardAt(it.id) ?? []);
      if (first.length === 0) return Promise.resolve(false);
      recoveryMs = Math.max(0, Math.min(...first) - backAt);
      return Promise.resolve(true);
    },
    PROGRESS_PATIENCE_MS,
    signal,
  );

  const caught = ordinary().filter(({ answeredAt = 0, id }) => {
    const heard = heardAt(id) ?? Number.POSITIVE_INFINITY;
    return answeredAt >= before - UNDER_WAY_MS && answeredAt < backAt && heard >= before;
  });
  const ended = await eventually(
    () => Promise.resolve(caught.every((it) => heardAt(it.id) !== undefined)),
    Math.max(0, backAt + CAUGHT_PATIENCE_MS - Date.now()),
    signal,
  );
  const last = Math.max(0, ...caught.map((it) => (heardAt(it.id) ?? 0) - backAt));
  return {
    cycle: cycle.number,
    fault: nameOf(cycle.fault),
    hit,
    recoveryMs,
    caughtMs: ended ? last : null,
    caught: caught.length,
  };
}

/** A deployment that never ends: each role in turn, in order and started anew (design §6). */
async function restartInTurn(
  { system }: Stage,
  forMs: number,
  signal: AbortSignal,
  telling: Telling,
): Promise<void> {
  const until = Date.now() + forMs;
  const busy = new Map<FaultyRole, Promise<void>>();
  let restarts = 0;
  for (let turn = 0; Date.now() < until; turn++) {
    signal.throwIfAborted();
    const role = ROLLING[turn % ROLLING.length];
    if (role !== undefined && !busy.has(role)) {
      restarts++;
      busy.set(
        role,
        system.restart(role).finally(() => busy.delete(role)),
      );
    }
    await pause(ROLLING_EVERY_MS);
  }
  await Promise.all(busy.values());
  telling.step(`${restarts} restarts in turn`);
}

/** Until the customer has heard of every text that was answered, or the last one's limit is long past. */
async function waitForTheEnd(
  traffic: Traffic,
  customer: Customer,
  { validitySeconds }: FaultRunOptions,
  signal: AbortSignal,
): Promise<void> {
  const isOver = () =>
    traffic.notes.every((it) => it.id === undefined || customer.heardAt(it.id) !== undefined);
  await eventually(() => Promise.resolve(isOver()), validitySeconds * 1_000 + QUIET_MS, signal, 250);
  // What nobody answered may end a little later, and a notification's own row is written after the call.
  await pause(3_000);
}

/** For a look at what went wrong, until the next run. */
function keepEvidence(
  { home }: Stage,
  { notes }: Traffic,
  { told }: Customer,
  findings: readonly Finding[],
  summary: FaultSummary,
): void {
  const write = (name: string, lines: readonly object[]): void =>
    writeFileSync(path.join(home, name), lines.map((it) => `${JSON.stringify(it)}\n`).join(""), {
      mode: 0o600,
    });
  write("requests.jsonl", notes);
  write("told.jsonl", told);
  write("findings.jsonl", findings);
  write("summary.json", [summary]);
}

async function stopAll(traffic: Traffic, watch: Watch, customer: Customer): Promise<void> {
  await Promise.allSettled([traffic.stop(), watch.stop()]);
  customer.close();
}
