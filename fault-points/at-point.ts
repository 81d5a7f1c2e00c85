/**
 * Makes a process fail at a named point when a fault run ordered it: WAYBILL_FAULT_POINTS names a folder in
 * which a file `<point>` is such an order. Without that variable a point costs one comparison.
 */
import { readFileSync, renameSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Order, PointName } from "./points.ts";

const folder = process.env["WAYBILL_FAULT_POINTS"];

/** Where an order stands until it is carried out, and where it lies from then on. */
export const orderFile = (within: string, point: PointName): string => path.join(within, point);
export const doneFile = (within: string, order: Pick<Order, "id">): string =>
  path.join(within, `done-${order.id}`);

/** Does a step; where a fault is ordered here, does that to it instead. */
export function atPoint<T>(point: PointName, work: () => Promise<T>): Promise<T> {
  return folder === undefined ? work() : atWatchedPoint(folder, point, work);
}

/**
 * A place at which nothing can be waited for. A kill does not return: nothing is flushed, closed or told.
 * A hang holds the whole process, as if it had been stopped.
 */
export function reach(point: PointName): void {
  if (folder === undefined) return;
  const order = takeOrder(folder, point);
  if (order === undefined) return;
  if (order.mode === "hang") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.hangMs);
  else if (order.mode === "throw") throw new InjectedFault(point);
  else die();
}

/** Whether `reach` would act; for places that have to be brought about first. */
export const isArmed = (point: PointName): boolean =>
  folder !== undefined && readOrder(orderFile(folder, point)) !== undefined;

async function atWatchedPoint<T>(within: string, point: PointName, work: () => Promise<T>): Promise<T> {
  const order = takeOrder(within, point);
  switch (order?.mode) {
    case undefined:
      return work();
    case "kill":
      return die();
    case "throw":
      throw new InjectedFault(point);
    case "hang":
      await sleep(order.hangMs);
      return work();
    case "kill_after":
      await work();
      return die();
    case "lose":
      await work();
      // What a driver says of a connection that broke before the answer came.
      throw Object.assign(new Error("Connection terminated unexpectedly"), { code: "ECONNRESET" });
  }
}

/** Moving the file decides who carries the order out, and is the proof that somebody did. */
function takeOrder(within: string, point: PointName): Order | undefined {
  const file = orderFile(within, point);
  const order = readOrder(file);
  if (order === undefined) return undefined;
  try {
    renameSync(file, doneFile(within, order));
    return order;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function readOrder(file: string): Order | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Order;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function die(): never {
  process.kill(process.pid, "SIGKILL");
  // The signal arrives before another line of this process runs; the type system cannot know.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

class InjectedFault extends Error {
  override readonly name = "InjectedFault";
  constructor(point: PointName) {
    super(`a fault was ordered at ${point}`);
  }
}
