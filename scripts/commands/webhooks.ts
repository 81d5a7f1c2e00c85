/** `waybill webhooks`: what the demo application was told, how every try went, and telling it again (E3). */
import { Argument, type Command } from "commander";
import type { RunFile } from "../run-file.ts";
import { askAsCustomer } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { table, timeOf } from "./table.ts";

interface Delivery {
  id: string;
  messageId: string;
  url: string;
  status: string;
  createdAt: string;
  tries: { httpStatus: number | null; error: string | null }[];
}

interface Options {
  json?: boolean;
}

export function addWebhooks(program: Command, place: Place): void {
  program
    .command("webhooks")
    .description("show the newest webhooks with their last try, or send one again")
    .addArgument(new Argument("[action]", "what to do with one of them").choices(["replay"]))
    .argument("[webhook id]", "as the list shows it: evt_…")
    .option("--json", "print one JSON document")
    .action(
      async (action: string | undefined, id: string | undefined, options: Options, command: Command) => {
        const run = runningCopy(place);
        if (action === undefined) return await showWebhooks(run, options);
        if (id === undefined) command.error("error: name the webhook to send again");
        await replay(run, id, options);
      },
    );
}

async function showWebhooks(run: RunFile, { json }: Options): Promise<void> {
  const document = await askAsCustomer<{ deliveries: Delivery[] }>(run, "GET", "webhooks?limit=50");
  const rows = document.deliveries.map(rowOf);
  answer(json, document, table(TITLES, rows, "Nobody was told anything yet."));
}

async function replay(run: RunFile, id: string, { json }: Options): Promise<void> {
  const path = `webhooks/${encodeURIComponent(id)}/replay`;
  const document = await askAsCustomer<{ id: string; status: string }>(run, "POST", path);
  answer(json, document, [`${document.id} is sent again.`]);
}

const TITLES = ["webhook", "created", "status", "tries", "last answer", "to"];

function rowOf({ id, createdAt, status, tries, url }: Delivery): string[] {
  const last = tries.at(-1);
  const said = last === undefined ? "" : (last.error ?? `HTTP ${last.httpStatus}`);
  return [id, timeOf(createdAt), status, String(tries.length), said, url];
}
