/** `waybill load`: one tier after another on a system of its own, each drained and judged by rules L. */
import { writeFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { reportOf } from "../../load-tests/report.ts";
import { type LoadSummary, TIERS, type Tier, runLoad } from "../../load-tests/run.ts";
import type { TierResult } from "../../load-tests/tier.ts";
import { PROFILES, type Profile } from "./floor.ts";
import { printGatewayFigures } from "./gateway-figures.ts";
import { type Place, SaidNo } from "./place.ts";
import { table } from "./table.ts";

interface Options {
  tiers: readonly Tier[];
  seconds: number;
  fates: "delivered" | "mix";
  longShare: number;
  receiptDelay: readonly number[];
  saturation: number;
  profile: Profile;
  report?: string;
  gatewayOnly?: boolean;
  soak?: boolean;
  json?: boolean;
}

const ABOUT = `
It starts servers and roles of its own under .waybill/load/, with six simulated suppliers; a running system
is left alone. A tier passes only when every clause holds, each of which is named. docs/load.md says how to
read it. --json prints a line a tier, and a last line that sums up.`;

export function addLoad(program: Command, place: Place): void {
  program
    .command("load")
    .description("send at fixed rates, drain, and prove that nothing was lost, doubled or wrongly charged")
    .addOption(
      new Option("--tiers <names>", "smoke, or messages a second")
        .argParser(tiersOf)
        .default(TIERS, "smoke,20,30,50,100,200,300,500"),
    )
    .option("--seconds <n>", "how long each tier sends", positive, 20)
    .addOption(
      new Option("--fates <which>", "what becomes of messages")
        .choices(["delivered", "mix"])
        .default("delivered"),
    )
    .option("--long-share <share>", "share of texts of three segments", shareOf, 0)
    .addOption(
      new Option("--receipt-delay <time>", "0.3s and the like, or mix: 0.3, 3 and 60 s")
        .argParser(delaysOf)
        .default([300], "0.3s"),
    )
    .option(
      "--saturation <messages>",
      "of the closed loop at the end; 0 leaves it and the floor out",
      count,
      1_500,
    )
    .addOption(new Option("--profile <name>", "of the worker").choices(PROFILES).default("throughput"))
    .option("--report <file>", "write an HTML report")
    .option(
      "--gateway-only",
      "what one gateway process can do, under .waybill/gateway-only/ (docs/gateway.md)",
    )
    .option("--soak", "with --gateway-only: let links flap for half an hour")
    .option("--json", "print JSON lines")
    .addHelpText("after", ABOUT)
    .action((options: Options) =>
      options.gatewayOnly === true ? printGatewayFigures(place, options) : load(place, options),
    );
}

async function load(
  place: Place,
  { receiptDelay, json = false, report, ...options }: Options,
): Promise<void> {
  const results: TierResult[] = [];
  const summary = await runLoad(place.prepareOwn, { ...options, receiptDelaysMs: receiptDelay }, (result) => {
    results.push(result);
    if (json) console.log(JSON.stringify(result));
    else for (const finding of result.findings) console.log(`tier ${result.tier}: ${finding}`);
  });
  if (report !== undefined) writeFileSync(report, reportOf(results, summary));
  if (json) console.log(JSON.stringify(summary));
  else console.log(linesOf(results, summary).join("\n"));
  if (summary.failed.length > 0) throw new SaidNo();
}

function linesOf(results: readonly TierResult[], summary: LoadSummary): string[] {
  const { conditions, saturated, floor } = summary;
  return [
    ...table(
      [
        "tier",
        "passed",
        "first submits/s",
        "accept p50/p95/p99 ms",
        "CPU-ms",
        "events",
        "tasks",
        "held by",
        "foreign CPU",
      ],
      results.map((it) => [
        it.tier,
        it.passed ? "yes" : "NO",
        String(it.ratePerSecond),
        `${it.acceptMs.p50}/${it.acceptMs.p95}/${it.acceptMs.p99}`,
        String(it.cpuMsPerMessage.total),
        String(it.history.events),
        String(it.history.workflowTasks),
        it.heldBy ?? "",
        `${it.foreignCpuPercent} %`,
      ]),
      "No tier was run.",
    ),
    "",
    `Node ${conditions.node}, profile ${conditions.profile}, receipts after ${conditions.receiptDelaysMs.map((ms) => `${ms / 1_000} s`).join(", ")}.`,
    ...(saturated === null || floor === null
      ? []
      : [
          `Saturated: ${saturated.perSecond} a second at ${saturated.cpuMsPerMessage.total} CPU-ms a message (foreign CPU ${saturated.foreignCpuPercent} %); Temporal alone: ${floor.perSecond} a second; ratio ${summary.ratioToFloor}.`,
        ]),
  ];
}

function tiersOf(text: string): Tier[] {
  return text.split(",").map((name) => {
    const known = TIERS.find((tier) => tier.name === name);
    if (known !== undefined) return known;
    if (!/^[1-9]\d{0,3}$/.test(name)) throw new InvalidArgumentError("smoke, or messages a second.");
    return { name, ratePerSecond: Number(name) };
  });
}

function delaysOf(text: string): number[] {
  if (text === "mix") return [300, 3_000, 60_000];
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(text)?.[1];
  if (seconds === undefined) throw new InvalidArgumentError("0.3s and the like, or mix.");
  return [Math.round(Number(seconds) * 1_000)];
}

function shareOf(text: string): number {
  const share = Number(text);
  if (text === "" || !(share >= 0 && share <= 1)) throw new InvalidArgumentError("between 0 and 1.");
  return share;
}

function count(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("a number.");
  return Number(text);
}

function positive(text: string): number {
  const value = count(text);
  if (value === 0) throw new InvalidArgumentError("a number above 0.");
  return value;
}
