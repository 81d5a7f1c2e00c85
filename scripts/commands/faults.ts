/** `waybill faults`: breaks a system of its own in every way it knows, and lets outside judges look (interfaces §9). */
import { randomInt } from "node:crypto";
import path from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { POINTS, type PointName } from "../../fault-points/points.ts";
import type { CycleResult } from "../../fault-tests/recoveries.ts";
import { type FaultRunResult, runFaults } from "../../fault-tests/run.ts";
import { roundLength } from "../../fault-tests/schedule.ts";
import { pointsIn, waysBetween } from "../../fault-tests/stage.ts";
import { inOwnSystem } from "../own-system.ts";
import { type Place, SaidNo } from "./place.ts";
import { table } from "./table.ts";

interface Options {
  cycles?: number;
  seed?: number;
  points?: PointName[];
  quick?: boolean;
  rolling?: number;
  rate: number;
  validity: number;
  json?: boolean;
}

const SUPPLIERS = 3;

export function addFaults(program: Command, place: Place): void {
  program
    .command("faults")
    .description("break a system of its own in every way, and judge what became of each text")
    .option("--cycles <n>", "faults, one after the other; a whole round of them by default", count)
    .option("--seed <n>", "the same seed gives the same schedule; drawn by default", number)
    .option("--points <names>", "only these named points, separated by commas", points)
    .option("--quick", "without faults that take more than a few seconds")
    .option(
      "--rolling <seconds>",
      "no faults: restart each role in turn, one every 2 s, at half the rate",
      count,
    )
    .option("--rate <n>", "texts a second", count, 8)
    .option("--validity <seconds>", "limit of each text: what stays unknown ends then", count, 45)
    .option("--json", "print one line of JSON a cycle, and the sum in the last")
    .action(async (options: Options) => {
      const { summary, findings, passed } = await run(options, place);
      if (options.json === true) console.log(JSON.stringify(summary));
      else console.log(linesOf({ summary, findings, passed }, path.join(place.home, "faults")).join("\n"));
      if (!passed) throw new SaidNo();
    });
}

async function run(options: Options, place: Place): Promise<FaultRunResult> {
  const { points, quick = false, rolling, rate, validity, json } = options;
  const seed = options.seed ?? randomInt(1_000_000);
  const chosen = { ...(points === undefined ? {} : { points }), quick };
  const cycles = options.cycles ?? roundLength({ ...chosen, suppliers: SUPPLIERS });
  const ways = waysBetween(pointsIn(path.join(place.home, "faults")));
  try {
    return await inOwnSystem(place.prepareOwn, "faults", ways.shape, (system, copy, signal) => {
      const wanted = {
        seed,
        cycles,
        ...chosen,
        ...(rolling === undefined ? {} : { rollingSeconds: rolling }),
        ratePerSecond: rate,
        validitySeconds: validity,
      };
      copy.steps.line(
        rolling === undefined ? `seed ${seed}, ${cycles} cycles` : `seed ${seed}, rolling restart`,
      );
      return runFaults(
        wanted,
        { system, copy, ways, signal },
        {
          cycle(result) {
            if (json === true) console.log(JSON.stringify(result));
            copy.steps.line(`${result.cycle}/${cycles} ${lineOf(result)}`);
          },
          step: (what) => copy.steps.line(`… ${what}`),
        },
      );
    });
  } finally {
    ways.close();
  }
}

function lineOf({ fault, hit, recoveryMs, caughtMs, caught }: CycleResult): string {
  if (!hit) return `${fault}: never came about`;
  const went = recoveryMs === null ? "nothing went on" : `went on after ${seconds(recoveryMs)}`;
  const rest = caughtMs === null ? "not all ended yet" : `all ended after ${seconds(caughtMs)}`;
  return `${fault}: ${went}; ${caught} under way, ${rest}`;
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const MOST_FINDINGS = 50;

function linesOf({ summary, findings, passed }: FaultRunResult, home: string): string[] {
  const { recoveryMs, pointsMissed, ...counts } = summary;
  return [
    ...table(
      ["fault", "min", "median", "max"],
      Object.entries(recoveryMs).map(([fault, { min, median, max }]) => [
        fault,
        ...[min, median, max].map(seconds),
      ]),
      "No fault was brought about.",
    ),
    "",
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count}`)
      .join(", "),
    ...(pointsMissed.length === 0 ? [] : [`never came about: ${pointsMissed.join(", ")}`]),
    ...findings
      .slice(0, MOST_FINDINGS)
      .map(({ clause, verdict, subject, why }) => `${clause} ${verdict} ${subject}: ${why}`),
    `${passed ? "Nothing was lost, doubled or unexplained" : "It did not pass"} (seed ${summary.seed}; evidence in ${home}).`,
  ];
}

function count(text: string): number {
  const value = number(text);
  if (value === 0) throw new InvalidArgumentError("must be 1 or more");
  return value;
}

function number(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("must be a whole number");
  return Number(text);
}

function points(text: string): PointName[] {
  return text.split(",").map((name) => {
    if (!isPoint(name))
      throw new InvalidArgumentError(`has no point ${name}: ${Object.keys(POINTS).join(", ")}`);
    return name;
  });
}

const isPoint = (name: string): name is PointName => Object.hasOwn(POINTS, name);
