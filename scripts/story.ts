/** One message's story as people read it: a line an event, in the order in which it is learned. */
import type { MessageStory, TimelineEntry } from "./api-client.ts";

/** Entries not seen before; a fact that arrives late may be older than what was shown already. */
export function unseen(seen: Set<string>, { timeline }: MessageStory): TimelineEntry[] {
  return timeline.filter((entry) => {
    const key = `${entry.at} ${entry.what} ${entry.why ?? ""}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Local time of day to the millisecond, what happened, and why where there is more to say. */
export function lineOf({ at, what, why }: TimelineEntry, dim: (text: string) => string): string {
  return `${dim(timeOfDay(at))}  ${what}${why === undefined ? "" : dim(`  (${why})`)}`;
}

/** How it ended, what it cost, and who carried it. */
export function summaryOf(message: MessageStory): string {
  const { status, reason, finalAt, createdAt, ledger, attempts } = message;
  const seconds = finalAt === null ? undefined : (Date.parse(finalAt) - Date.parse(createdAt)) / 1000;
  const money = ledger
    .map(({ kind, units, currency }) => `${kind} ${inCurrency(units, currency)}`)
    .join(", ");
  const route = attempts
    .map(({ channel, outcome }) => `${channel?.name ?? "no channel"}: ${outcome ?? "open"}`)
    .join(" → ");
  const parts = [
    `${status}${reason === null ? "" : ` (${reason})`}${seconds === undefined ? "" : ` after ${seconds.toFixed(1)} s`}`,
    `${message.segments} segment${message.segments === 1 ? "" : "s"}`,
    ...(route === "" ? [] : [route]),
    ...(money === "" ? [] : [money]),
  ];
  return parts.join(" · ");
}

/** Units are 1/10000 of the currency. */
function inCurrency(units: number | string, currency: string): string {
  const digits = String(units).padStart(5, "0");
  return `${digits.slice(0, -4)}.${digits.slice(-4)} ${currency}`;
}

function timeOfDay(at: string): string {
  const time = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":");
  return `${clock}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}
