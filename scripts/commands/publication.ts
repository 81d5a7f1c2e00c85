/** `waybill publication`: whether commands are published, and changing that. */
import { Argument, type Command } from "commander";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { timeOf } from "./table.ts";

interface Mode {
  mode: string;
  changedBy: string | null;
  changedAt: string | null;
}

interface Publication extends Mode {
  /** Those with a mode of their own. */
  applications: (Mode & { id: string })[];
  effect?: string;
}

interface Options {
  application?: string;
  note?: string;
  json?: boolean;
}

const MODES = ["live", "paused", "shadow", "inherit"];

export function addPublication(program: Command, place: Place): void {
  program
    .command("publication")
    .description("show or set whether commands are published; paused and shadow lose nothing")
    .addArgument(new Argument("[mode]", "what it shall be").choices(MODES))
    .option("--application <id>", "of this application alone; `inherit` gives it the mode of all again")
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .action(async (mode: string | undefined, { json, ...change }: Options, command: Command) => {
      if (mode === undefined && change.application !== undefined) {
        command.error("error: name the mode that the application shall have");
      }
      const run = runningCopy(place);
      const document = await (mode === undefined
        ? askOps<Publication>(run, "GET", "publication")
        : askOps<Publication>(run, "PUT", "publication", { mode, ...change }));
      answer(json, document, linesOf(document, change.application));
    });
}

function linesOf({ effect, applications, ...all }: Publication, changed: string | undefined): string[] {
  if (effect === undefined) {
    return [lineOf("Publication", all), ...applications.map(({ id, ...one }) => lineOf(`  ${id}`, one))];
  }
  const mode = applications.find(({ id }) => id === changed)?.mode ?? all.mode;
  return [`Publication${changed === undefined ? "" : ` of ${changed}`} is ${mode}: ${effect}`];
}

function lineOf(what: string, { mode, changedBy, changedAt }: Mode): string {
  const since = changedAt === null ? "" : ` since ${timeOf(changedAt)}`;
  return `${what} is ${mode}${since}${changedBy === null ? "" : `, by ${changedBy}`}.`;
}
