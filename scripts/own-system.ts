/** A whole system for one measuring command alone, under `.waybill/<name>/` on free ports (interfaces §2). */
import type { Copy } from "./copy.ts";
import type { Shape } from "./layout.ts";
import { listenForStop } from "./stop-requests.ts";
import { type System, startSystem } from "./system.ts";
import { Trouble } from "./trouble.ts";

/** Prepares the copy: its folder taken, its data empty, a running system left alone. */
export type PrepareOwn = (name: string) => Promise<OwnCopy>;

export interface OwnCopy extends Copy {
  /** Gives the folder back. */
  release(): void;
}

/**
 * Runs `work` while the system runs, and stops it whatever comes of that; its data and logs stay for a look
 * until the next run.
 *
 * @param work given a signal that Ctrl-C aborts
 * @throws Trouble when it was stopped from outside
 */
export async function inOwnSystem<Result>(
  prepare: PrepareOwn,
  name: string,
  shape: Shape,
  work: (system: System, copy: Copy, signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const copy = await prepare(name);
  const stop = listenForStop();
  let system: System | undefined;
  try {
    system = await startSystem(copy, shape, stop);
    return await work(system, copy, stop.signal);
  } catch (error) {
    if (stop.signal.aborted) throw new Trouble("It was stopped before it was done.");
    throw error;
  } finally {
    await system?.stop();
    stop.close();
    copy.release();
  }
}
