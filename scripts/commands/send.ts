/** `waybill send`: one message through the HTTP API of the running copy. */
import type { Command } from "commander";
import { sendMessage } from "../api-client.ts";
import { type Place, answer, runningCopy } from "./place.ts";

interface Options {
  to: string;
  text: string;
  reference?: string;
  json?: boolean;
}

export function addSend(program: Command, place: Place): void {
  program
    .command("send")
    .description("send one message through the running system")
    .requiredOption("--to <number>", "the recipient: eleven digits, or with +86 before them")
    .requiredOption("--text <text>", "what to send; a text without 【…】 goes out under the default filing")
    .option("--reference <reference>", "your own name for it")
    .option("--json", "print one JSON document")
    .action(async ({ to, text, reference, json }: Options) => {
      const run = runningCopy(place);
      const accepted = await sendMessage(run, {
        to,
        text,
        ...(reference === undefined ? {} : { reference }),
      });
      const { id, segments, price } = accepted;
      answer(json, accepted, [
        `accepted as ${id}: ${segments} segment${segments === 1 ? "" : "s"}, ${price.units} units of ${price.currency}`,
        `npx waybill show ${id} --follow tells what becomes of it.`,
      ]);
    });
}
