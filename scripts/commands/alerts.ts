/** `waybill alerts`: what Waybill wants a person to see, and clearing it (K). */
import { Argument, type Command } from "commander";
import type { RunFile } from "../run-file.ts";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { table, timeOf } from "./table.ts";

interface Alert {
  id: string;
  kind: string;
  subject: string;
  detail: string | null;
  raisedAt: string;
}

interface Options {
  note?: string;
  json?: boolean;
}

export function addAlerts(program: Command, place: Place): void {
  program
    .command("alerts")
    .description("show the open alerts, or clear one")
    .addArgument(new Argument("[action]", "what to do with one of them").choices(["clear"]))
    .argument("[alert id]", "as the list shows it: alr_…")
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .action(
      async (action: string | undefined, id: string | undefined, options: Options, command: Command) => {
        const run = runningCopy(place);
        if (action === undefined) return await showAlerts(run, options);
        if (id === undefined) command.error("error: name the alert to clear");
        await clearAlert(run, id, options);
      },
    );
}

async function showAlerts(run: RunFile, { json }: Options): Promise<void> {
  const document = await askOps<{ alerts: Alert[] }>(run, "GET", "alerts?limit=200");
  const rows = document.alerts.map((alert) => [
    alert.id,
    timeOf(alert.raisedAt),
    alert.kind,
    alert.subject,
    alert.detail ?? "",
  ]);
  answer(json, document, table(["alert", "raised", "kind", "about", "detail"], rows, "No alert is open."));
}

async function clearAlert(run: RunFile, id: string, { note, json }: Options): Promise<void> {
  const path = `alerts/${encodeURIComponent(id)}/clear`;
  const document = await askOps<{ id: string; effect: string }>(run, "POST", path, { note });
  answer(json, document, [`${document.id}: ${document.effect}`]);
}
