/** `waybill export`: what can be set from outside, as a file that `waybill apply` takes. */
import type { Command } from "commander";
import { stringify } from "yaml";
import { exportConfiguration } from "../../db/configuration.ts";
import { inDatabase } from "./database.ts";
import { type Place, answer } from "./place.ts";

const ABOUT = `
Left out are secrets (of suppliers and webhooks; API keys are there as their SHA-256) and balances.
Applied to where it came from, the file changes nothing. Elsewhere a new supplier needs its secret added.`;

export function addExport(program: Command, place: Place): void {
  program
    .command("export")
    .description("print applications, keys, templates, limits, suppliers … as a file for waybill apply")
    .option("--json", "print one JSON document")
    .addHelpText("after", ABOUT)
    .action(async ({ json }: { json?: boolean }) => {
      const document = await inDatabase(place, exportConfiguration);
      answer(json, document, [stringify(document, { lineWidth: 0 }).trimEnd()]);
    });
}
