/** A load run: one tier after another, each drained, then how much the system completes when asked for all. */
import { execFileSync } from "node:child_process";
import { openDatabase } from "../db/client.ts";
import { openVault } from "../db/vault.ts";
import type { Steps } from "../scripts/copy.ts";
import { dataKeysOf } from "../scripts/data-keys.ts";
import { type PrepareOwn, inOwnSystem } from "../scripts/own-system.ts";
import { startGenerator } from "./drive.ts";
import { type FloorResult, measureFloor } from "./floor.ts";
import { Numbers, type Traffic } from "./plan.ts";
import { type Saturated, saturate } from "./saturation.ts";
import { type Surroundings, type TierResult, runTier } from "./tier.ts";

export interface LoadOptions {
  tiers: readonly Tier[];
  /** How long each sends; the smoke tier has its own time. */
  seconds: number;
  fates: Traffic["fates"];
  longShare: number;
  /** One, or several that numbers take turns at. */
  receiptDelaysMs: readonly number[];
  /** Messages of the closed loop at the end; 0 leaves it and the floor out. */
  saturation: number;
  profile: "standard" | "throughput";
}

export interface Tier {
  name: string;
  ratePerSecond: number;
}

export const TIERS: readonly Tier[] = [
  { name: "smoke", ratePerSecond: 10 },
  ...[20, 30, 50, 100, 200, 300, 500].map((rate) => ({ name: String(rate), ratePerSecond: rate })),
];
const SMOKE_SECONDS = 5;

export interface LoadSummary {
  passed: string[];
  failed: string[];
  saturatedPerSecond: number | null;
  floorPerSecond: number | null;
  ratioToFloor: number | null;
  conditions: Conditions;
  saturated: Saturated | null;
  floor: FloorResult | null;
}

/** Without these a figure says nothing. */
export interface Conditions {
  node: string;
  profile: LoadOptions["profile"];
  receiptDelaysMs: readonly number[];
  fates: LoadOptions["fates"];
  longShare: number;
}

/** The same number of each for everybody who compares. */
const SUPPLIERS = 6;

/** @param onTier told of each tier when it is over */
export function runLoad(
  prepare: PrepareOwn,
  options: LoadOptions,
  onTier: (result: TierResult) => void,
): Promise<LoadSummary> {
  const shape = {
    suppliers: SUPPLIERS,
    roleEnvironment: { WAYBILL_PROFILE: options.profile },
    simulator: { receiptDelayMs: options.receiptDelaysMs },
  };
  return inOwnSystem(prepare, "load", shape, async (system, { home, steps }, signal) => {
    const database = openDatabase(system.run.databaseUrl, "operations", 2, openVault(dataKeysOf(home)));
    const generator = await startGenerator(system.run.webhookSecret);
    const around: Surroundings = {
      home,
      system,
      database,
      generator,
      numbers: new Numbers(),
      receiptDelayMs: Math.max(...options.receiptDelaysMs),
      signal,
    };
    try {
      const results = await runTiers(around, options, steps, onTier);
      return await summedUp(around, options, steps, results);
    } finally {
      await generator.stop();
      await database.close();
    }
  });
}

async function runTiers(
  around: Surroundings,
  options: LoadOptions,
  steps: Steps,
  onTier: (result: TierResult) => void,
): Promise<TierResult[]> {
  const results: TierResult[] = [];
  for (const { name, ratePerSecond } of options.tiers) {
    const seconds = name === "smoke" ? Math.min(SMOKE_SECONDS, options.seconds) : options.seconds;
    await steps.step(`tier ${name}`, async (show) => {
      const result = await runTier(around, name, { ...options, ratePerSecond, seconds }, show);
      results.push(result);
      onTier(result);
      return result.passed ? "passed" : "did not pass";
    });
  }
  return results;
}

async function summedUp(
  around: Surroundings,
  options: LoadOptions,
  steps: Steps,
  results: readonly TierResult[],
): Promise<LoadSummary> {
  let saturated: Saturated | null = null;
  let floor: FloorResult | null = null;
  if (options.saturation > 0) {
    await steps.step("200 in flight", async (show) => {
      saturated = await saturate(around, options.saturation, show);
      return `${saturated.perSecond} a second`;
    });
    await steps.step("what Temporal alone costs", async () => {
      floor = await measureFloor(around.system.run, around.home, options.profile, around.signal);
      return `${floor.perSecond} a second`;
    });
  }
  return summaryOf(results, saturated, floor, options);
}

function summaryOf(
  results: readonly TierResult[],
  saturated: Saturated | null,
  floor: FloorResult | null,
  { profile, receiptDelaysMs, fates, longShare }: LoadOptions,
): LoadSummary {
  const named = (passed: boolean): string[] =>
    results.flatMap((it) => (it.passed === passed ? [it.tier] : []));
  return {
    passed: named(true),
    failed: named(false),
    saturatedPerSecond: saturated?.perSecond ?? null,
    floorPerSecond: floor?.perSecond ?? null,
    ratioToFloor:
      saturated === null || floor === null
        ? null
        : Math.round((saturated.perSecond / floor.perSecond) * 100) / 100,
    conditions: { node: nodeOfRoles(), profile, receiptDelaysMs, fates, longShare },
    saturated,
    floor,
  };
}

/** The version of the Node that roles run on. */
export const nodeOfRoles = (): string => {
  const binary = process.env["WAYBILL_NODE"];
  return binary === undefined
    ? process.version
    : execFileSync(binary, ["--version"], { encoding: "utf8" }).trim();
};
