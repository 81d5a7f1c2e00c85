/** `waybill webhooks`: what the demo application was told, how every try went, and telling it again (E3). */
import { Argument, type Command, Option } from "commander";
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
  since?: string;
  until?: string;
  status?: string[];
}

const STATUSES = ["delivered", "parked", "disabled"];

export function addWebhooks(program: Command, place: Place): void {
  program
    .command("webhooks")
    .description("show the newest webhooks with their last try, or send one again")
    .addArgument(new Argument("[action]", "what to do with one of them").choices(["replay"]))
    .argument("[webhook id]", "as the list shows it: evt_…")
    .option("--since <time>", "replay all that were made at this time or later (RFC 3339)")
    .option("--until <time>", "… and before this one; now where it is missing")
    .addOption(
      new Option("--status <status...>", "… of these; parked and disabled where it is missing").choices(
        STATUSES,
      ),
    )
    .option("--json", "print one JSON document")
    .action(
      async (action: string | undefined, id: string | undefined, options: Options, command: Command) => {
        const run = runningCopy(place);
        if (action === undefined) return await showWebhooks(run, options);
        if (id !== undefined) return await replay(run, id, options);
        if (options.since === undefined) command.error("error: name the webhook to send again, or --since");
        await replayRange(run, options.since, options);
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

async function replayRange(run: RunFile, since: string, { json, status, until }: Options): Promise<void> {
  const range = { since, until: until ?? new Date().toISOString(), status };
  let replayed = 0;
  let cursor: string | null | undefined;
  do {
    const body = { ...range, ...(cursor === undefined ? {} : { cursor }) };
    const page = await askAsCustomer<{ replayed: number; nextCursor: string | null }>(
      run,
      "POST",
      "webhooks/replay",
      body,
    );
    replayed += page.replayed;
    cursor = page.nextCursor;
  } while (cursor !== null);
  answer(json, { replayed }, [`${replayed} webhook${replayed === 1 ? " is" : "s are"} sent again.`]);
}

const TITLES = ["webhook", "created", "status", "tries", "last answer", "to"];

function rowOf({ id, createdAt, status, tries, url }: Delivery): string[] {
  const last = tries.at(-1);
  const said = last === undefined ? "" : (last.error ?? `HTTP ${last.httpStatus}`);
  return [id, timeOf(createdAt), status, String(tries.length), said, url];
}
