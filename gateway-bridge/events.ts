/**
 * What suppliers say is committed raw, in batches, before it is acknowledged to them and before
 * anything acts on it (D2); a wake-up follows, and losing it costs one poll.
 */
import { type Database, isAway, sqlState } from "../db/client.ts";
import { storeEvents, type SupplierEvent } from "../db/events.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import type { Streams } from "./streams.ts";

export interface EventRecorder {
  /**
   * Resolves when the event is committed. Rejects when it never will be by this process: PostgreSQL
   * refused it, the process stops, or too much waits and the supplier will say it again.
   */
  record(event: SupplierEvent): Promise<void>;
  /** Waits until all that was handed in is committed, or gives up when the database stays away. */
  drain(atMostMs: number): Promise<void>;
}

const BATCH = 64;
const GATHER_MS = 2;
const AWAY_PAUSE_MS = 500;
/**
 * While the database is away suppliers repeat on each new connection what they were not answered. Answers
 * to submits are bounded by the windows and are never turned away.
 */
const MOST_REPEATABLE_WAITING = 10_000;

interface Waiting {
  event: SupplierEvent;
  resolve: () => void;
  reject: (error: unknown) => void;
}

export function createEventRecorder(deps: {
  database: Database;
  streams: Pick<Streams, "wake">;
  log: Log;
}): EventRecorder {
  const waiting: Waiting[] = [];
  let running: Promise<void> | undefined;
  const stopping = new AbortController();

  async function run(): Promise<void> {
    await delay(GATHER_MS);
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH);
      await commit(batch);
      deps.streams.wake("events");
    }
    running = undefined;
  }

  /** While the database is away events are kept and tried again: dropping one would lose a fact. */
  async function commit(batch: Waiting[]): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const events = batch.map((it) => it.event);
        await atPoint("event_store", () => storeEvents(deps.database, events));
        return batch.forEach((it) => it.resolve());
      } catch (error) {
        if (isRefusal(error)) return refused(batch, error);
        deps.log.warn({ error: errorName(error), events: batch.length }, "events wait for the database");
        await delay(AWAY_PAUSE_MS, stopping.signal);
      }
    }
    for (const it of batch) it.reject(new Error("the gateway stops"));
  }

  /** One bad event never fails its mates: each is tried alone. */
  async function refused(batch: Waiting[], error: unknown): Promise<void> {
    if (batch.length > 1) {
      for (const it of batch) await commit([it]);
      return;
    }
    deps.log.error({ error: errorName(error), kind: batch[0]?.event.kind }, "a supplier event was refused");
    batch[0]?.reject(error);
  }

  return {
    record(event) {
      const repeatable = event.kind === "receipt" || event.kind === "inbound";
      if (stopping.signal.aborted || (repeatable && waiting.length >= MOST_REPEATABLE_WAITING)) {
        return Promise.reject(new Error("the event cannot be taken now"));
      }
      return new Promise((resolve, reject) => {
        waiting.push({ event, resolve, reject });
        running ??= run();
      });
    },
    async drain(atMostMs) {
      const giveUp = new AbortController();
      const patience = delay(atMostMs, giveUp.signal).then(() => stopping.abort());
      while (running !== undefined && !stopping.signal.aborted) await Promise.race([running, patience]);
      giveUp.abort();
    },
  };
}

/**
 * The event itself is at fault: its data, or a constraint. Anything else (a deadlock, a lock or statement
 * that took too long, a server that is not there) says nothing about it and passes.
 */
function isRefusal(error: unknown): boolean {
  const state = sqlState(error);
  if (state === undefined) return !isAway(error);
  return state.startsWith("22") || state.startsWith("23");
}
