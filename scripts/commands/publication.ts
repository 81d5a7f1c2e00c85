/** `waybill publication`: whether commands are published, and changing that. */
import { Argument, type Command } from "commander";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { timeOf } from "./table.ts";

interface Publication {
  mode: string;
  changedBy: string | null;
  changedAt: string | null;
  effect?: string;
}

export function addPublication(program: Command, place: Place): void {
  program
    .command("publication")
    .description("show or set whether commands are published; paused and shadow lose nothing")
    .addArgument(new Argument("[mode]", "what it shall be").choices(["live", "paused", "shadow"]))
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .action(async (mode: string | undefined, { note, json }: { note?: string; json?: boolean }) => {
      const run = runningCopy(place);
      const document = await (mode === undefined
        ? askOps<Publication>(run, "GET", "publication")
        : askOps<Publication>(run, "PUT", "publication", { mode, note }));
      answer(json, document, [lineOf(document)]);
    });
}

function lineOf({ mode, changedBy, changedAt, effect }: Publication): string {
  if (effect !== undefined) return `Publication is ${mode}: ${effect}`;
  const since = changedAt === null ? "" : ` since ${timeOf(changedAt)}`;
  return `Publication is ${mode}${since}${changedBy === null ? "" : `, by ${changedBy}`}.`;
}
