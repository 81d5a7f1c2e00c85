/**
 * What suppliers say is committed raw, in batches, before it is acknowledged to them and before
 * anything acts on it (D2); a wake-up follows, and losing it costs one poll.
 */
import type { Database } from "../db/client.ts";
import { isAway } from "../db/client.ts";
import { storeEvents, type SupplierEvent } from "../db/events.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import type { Streams } from "./streams.ts";

export interface EventRecorder {
  /** Resolves when the event is committed; rejects when it never will be by this process. */
  record(event: SupplierEvent): Promise<void>;
  /** Waits until all that was handed in is committed, or gives up when the database stays away. */
  drain(atMostMs: number): Promise<void>;
}

const BATCH = 64;
const GATHER_MS = 2;
const AWAY_PAUSE_MS = 500;

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
    for (;;) {
      try {
        await storeEvents(
          deps.database,
          batch.map((it) => it.event),
        );
        return batch.forEach((it) => it.resolve());
      } catch (error) {
        if (stopping.signal.aborted) return batch.forEach((it) => it.reject(error));
        if (!isAway(error)) return refused(batch, error);
        await delay(AWAY_PAUSE_MS, stopping.signal);
      }
    }
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
      return new Promise((resolve, reject) => {
        waiting.push({ event, resolve, reject });
        running ??= run();
      });
    },
    async drain(atMostMs) {
      const giveUp = setTimeout(() => stopping.abort(), atMostMs);
      while (running !== undefined) await running;
      clearTimeout(giveUp);
    },
  };
}
