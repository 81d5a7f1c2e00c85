/** Waiting until nothing is left to do, and how much there still was when patience ended. */
import type { Session } from "../db/client.ts";
import { delay } from "../workers/service.ts";
import { type LeftOver, readLeftOver } from "./facts.ts";

const POLL_MS = 250;

/** @returns what is left: all zero when it drained in time */
export async function drained(
  database: Session,
  patienceMs: number,
  signal: AbortSignal,
  alsoDone: () => boolean,
): Promise<Record<LeftOver, number>> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    signal.throwIfAborted();
    const left = await readLeftOver(database);
    const isDone = Object.values(left).every((count) => count === 0) && alsoDone();
    if (isDone || Date.now() > deadline) return left;
    await delay(POLL_MS, signal);
  }
}
