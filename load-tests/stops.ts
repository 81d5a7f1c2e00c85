/** In the middle of each window an operator disables a channel, an application and a filing (L7). */
import type { Session } from "../db/client.ts";
import { askOps } from "../scripts/commands/ops-api.ts";
import type { RunFile } from "../scripts/run-file.ts";
import { delay } from "../workers/service.ts";
import { databaseNow, usedChannels } from "./facts.ts";
import type { Sender, Senders } from "./sender.ts";
import type { Stop } from "./verdict.ts";

/** At which share of the window. */
const AT = { channel: 0.35, application: 0.5, filing: 0.65 } as const;
const PATIENCE_MS = 20_000;
const POLL_MS = 50;

/**
 * The most used channel, and the filing on the next one. What stops must have been under way, so on a busy
 * machine each waits until it was.
 */
export async function stopThings(
  run: RunFile,
  database: Session,
  senders: Senders,
  windowMs: number,
  signal: AbortSignal,
): Promise<Stop[]> {
  const begun = Date.now();
  const until = (share: number): Promise<void> => delay(begun + windowMs * share - Date.now(), signal);
  const used = (sender: Sender, except?: string): Promise<string | undefined> =>
    untilUsed(database, sender, except, signal);
  const switchOff = async (what: Stop["what"], path: string, id: string): Promise<Stop> => {
    await askOps(run, "PATCH", path, { active: false, note: "load run" });
    return { what, id, at: await databaseNow(database) };
  };
  const stops: Stop[] = [];

  await until(AT.channel);
  const busiest = await used(senders.main);
  if (busiest !== undefined) stops.push(await switchOff("channel", `channels/${busiest}`, busiest));

  await until(AT.application);
  const { applicationId } = senders.stopped;
  if ((await used(senders.stopped)) !== undefined)
    stops.push(await switchOff("application", `applications/${applicationId}`, applicationId));

  await until(AT.filing);
  const next = await used(senders.main, busiest);
  const filing = senders.filingIds.get(next ?? "");
  if (next !== undefined && filing !== undefined)
    stops.push(await switchOff("filing", `filings/${filing}`, next));
  return stops;
}

/** The sender's most used channel, another than that one, as soon as it has used one; undefined in vain. */
async function untilUsed(
  database: Session,
  { applicationId }: Sender,
  except: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline; await delay(POLL_MS, signal)) {
    const channels = await usedChannels(database, applicationId);
    const found = channels.find(({ channel_id: id }) => id !== except);
    if (found !== undefined) return found.channel_id;
  }
  return undefined;
}

/** The next tier has all channels again; filings and applications are its own. */
export async function startChannels(run: RunFile, stops: readonly Stop[]): Promise<void> {
  for (const { what, id } of stops) {
    if (what === "channel") await askOps(run, "PATCH", `channels/${id}`, { active: true, note: "load run" });
  }
}
