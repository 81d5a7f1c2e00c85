/** `waybill retention`: one turn of what the sweeper does about old facts, or a look at what it would do. */
import type { Command } from "commander";
import { retain, type RetentionReport } from "../../db/retention.ts";
import { readTemporalConfig } from "../../workers/config.ts";
import { actor } from "./actor.ts";
import { inDatabase } from "./database.ts";
import { type Place, answer } from "./place.ts";
import { table } from "./table.ts";

interface Options {
  dryRun?: boolean;
  note?: string;
  json?: boolean;
}

const ABOUT = `
Slices are the partitions of the tables that grow with every message. One is dropped when everything in it
is older than retention.keepDays of temporal-config.yaml and nothing in it is open any more; the sweeper
does the same every few minutes. It works on the database of DATABASE_URL, or of the running copy, and by
the file that WAYBILL_TEMPORAL_CONFIG names, or that of this checkout.`;

export function addRetention(program: Command, place: Place): void {
  program
    .command("retention")
    .description("make slices ahead of time, drop those past their time, purge what is old")
    .option("--dry-run", "show what would be done, and change nothing")
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .addHelpText("after", ABOUT)
    .action(async ({ dryRun = false, note, json }: Options) => {
      const { retention } = readTemporalConfig(process.env["WAYBILL_TEMPORAL_CONFIG"]);
      const report = await inDatabase(place, (database) =>
        retain(database, retention, { actor: actor(), note }, dryRun),
      );
      answer(json, { dryRun, ...report }, linesOf(report, dryRun));
    });
}

function linesOf({ added, past, purged, withoutSlice }: RetentionReport, dryRun: boolean): string[] {
  const counts = Object.entries(purged).filter(([, count]) => count > 0);
  return [
    ...table(
      ["past its time", "days", "size", "outcome", "open"],
      past.map((it) => [
        it.content,
        it.name.replace("_", "–"),
        megabytes(it.bytes),
        it.outcome,
        openOf(it.open),
      ]),
      "No slice is past its time.",
    ),
    `${added} slice${added === 1 ? "" : "s"} ${dryRun ? "would be made" : "made"} ahead of time.`,
    ...counts.map(([what, count]) => `${count} rows of ${what} purged.`),
    ...(withoutSlice > 0 ? [`${withoutSlice} rows or more lie outside of every slice.`] : []),
    ...(dryRun ? ["This was a dry run: nothing was changed. What goes by age alone was not counted."] : []),
  ];
}

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1_048_576)} MB`;

const openOf = (open: RetentionReport["past"][number]["open"]): string =>
  Object.entries(open ?? {})
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${count} ${what}`)
    .join(", ");
