/** `waybill channels`: how the channels stand, and switching one. */
import { Argument, type Command } from "commander";
import type { RunFile } from "../run-file.ts";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { ageOf, table } from "./table.ts";

interface Channel {
  id: string;
  active: boolean;
  supplier: { name: string; active: boolean };
  ratePerSecond: number;
  window: number;
  connectionsWanted: number;
  groups: { id: string; priority: number }[];
  connections: {
    slot: number;
    connected: boolean;
    heartbeatAgeMs: number;
    windowInUse: number;
    lastError: string | null;
  }[];
}

interface Options {
  note?: string;
  json?: boolean;
}

export function addChannels(program: Command, place: Place): void {
  program
    .command("channels")
    .description("show the channels with their connections, or enable or disable one")
    .addArgument(new Argument("[action]", "what to do with one of them").choices(["enable", "disable"]))
    .argument("[channel id]", "as the list shows it: chn_…")
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .action(
      async (action: string | undefined, id: string | undefined, options: Options, command: Command) => {
        const run = runningCopy(place);
        if (action === undefined) return await showChannels(run, options);
        if (id === undefined) command.error(`error: name the channel to ${action}`);
        await switchChannel(run, id, action === "enable", options);
      },
    );
}

async function showChannels(run: RunFile, { json }: Options): Promise<void> {
  const document = await askOps<{ channels: Channel[] }>(run, "GET", "channels");
  answer(json, document, table(TITLES, document.channels.map(rowOf), "There is no channel."));
}

async function switchChannel(
  run: RunFile,
  id: string,
  active: boolean,
  { note, json }: Options,
): Promise<void> {
  const path = `channels/${encodeURIComponent(id)}`;
  const document = await askOps<Channel & { effect: string }>(run, "PATCH", path, { active, note });
  answer(json, document, [`${document.id}: ${document.effect}`]);
}

const TITLES = [
  "channel",
  "supplier",
  "state",
  "priority",
  "connected",
  "window",
  "rate/s",
  "heartbeat",
  "last error",
];

function rowOf(channel: Channel): string[] {
  const { connections } = channel;
  const up = connections.filter(({ connected }) => connected);
  const inUse = connections.reduce((sum, { windowInUse }) => sum + windowInUse, 0);
  const youngest = Math.min(...connections.map(({ heartbeatAgeMs }) => heartbeatAgeMs));
  return [
    channel.id,
    channel.supplier.name,
    channel.active && channel.supplier.active ? "active" : "disabled",
    channel.groups.map(({ id, priority }) => `${id}:${priority}`).join(" "),
    `${up.length}/${channel.connectionsWanted}`,
    `${inUse}/${channel.window * channel.connectionsWanted}`,
    String(channel.ratePerSecond),
    connections.length === 0 ? "never" : `${ageOf(youngest)} ago`,
    connections.find(({ lastError }) => lastError !== null)?.lastError ?? "",
  ];
}
