/** `waybill show`: one message's story, and with `--follow` as it goes on. */
import type { Command } from "commander";
import { delay } from "../../workers/service.ts";
import { type MessageStory, showMessage } from "../api-client.ts";
import { lineOf, summaryOf, unseen } from "../story.ts";
import { type Place, answer, runningCopy } from "./place.ts";

interface Options {
  follow?: boolean;
  json?: boolean;
}

const POLL_MS = 250;

export function addShow(program: Command, place: Place): void {
  program
    .command("show")
    .description("show one message's story")
    .argument("<message id>", "as the API answered it: msg_…")
    .option("--follow", "stay until it is final and its webhook is settled")
    .option("--json", "print one JSON document (with --follow: how it ended)")
    .action(async (id: string, { follow, json }: Options) => {
      const run = runningCopy(place);
      const seen = new Set<string>();
      let story = await showMessage(run, id);
      if (json !== true) print(seen, story);
      while (follow === true && !isOver(story)) {
        await delay(POLL_MS);
        story = await showMessage(run, id);
        if (json !== true) print(seen, story);
      }
      answer(json, story, [`\n${closing(story)}`]);
    });
}

function print(seen: Set<string>, story: MessageStory): void {
  for (const entry of unseen(seen, story)) console.log(lineOf(entry, dim));
}

const dim = (text: string): string =>
  process.stdout.isTTY && !process.env["NO_COLOR"] ? `\x1b[2m${text}\x1b[0m` : text;

const isOver = ({ finalAt, notifications }: MessageStory): boolean =>
  finalAt !== null && notifications.every(({ status }) => status !== "pending");

const closing = (story: MessageStory): string =>
  story.waitingFor === undefined
    ? summaryOf(story)
    : `${summaryOf(story)} · waits for ${story.waitingFor.what}`;
