/**
 * What suppliers say is committed raw, in batches, before it is acknowledged to them and before
 * anything acts on it (D2); a wake-up follows, and losing it costs one poll.
 *
 * Every supplier waits in a line of its own, and a batch takes from all of them alike: the flood of one
 * does not delay another's. Within a line answers go first, since a window waits for them (cmpp §14, 22).
 */
import { type Database, isAway, sqlState } from "../db/client.ts";
import { storeEvents, type SupplierEvent } from "../db/events.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import type { Streams } from "./streams.ts";

export interface EventRecorder {
  /**
   * Resolves when the event is committed. Rejects when it never will be by this process: PostgreSQL
   * refused it, the process stops, or too much of that supplier waits and it is `repeatable`. Deliveries
   * always are: a supplier says them again until they are acknowledged.
   */
  record(event: SupplierEvent, repeatable?: boolean): Promise<void>;
  /** Waits until all that was handed in is committed, or gives up when the database stays away. */
  drain(atMostMs: number): Promise<void>;
}

const BATCH = 128;
/** While one commit waits for the disk another is made ready; more would only make batches smaller. */
const COMMITS_AT_ONCE = 2;
/** Time for more events to come, so that they share a commit; a supplier waits so much longer for our answer. */
const GATHER_MS = 10;
const AWAY_PAUSE_MS = 500;
/**
 * Of one supplier. While the database is away it repeats on each new connection what it was not answered.
 * First answers to submits are bounded by the windows and are never turned away.
 */
const MOST_REPEATABLE_WAITING = 10_000;

interface Waiting {
  event: SupplierEvent;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/** What one supplier said and nobody has stored yet. */
interface Line {
  answers: Waiting[];
  repeatable: Waiting[];
}

export function createEventRecorder(deps: {
  database: Database;
  streams: Pick<Streams, "wake">;
  log: Log;
}): EventRecorder {
  /** Only those in which somebody waits, the one longest without a turn first. */
  const lines = new Map<string, Line>();
  let waiting = 0;
  let committing = 0;
  const running = new Set<Promise<void>>();
  const stopping = new AbortController();

  /** A second one begins where the first has a full batch in hand already. */
  function begin(): void {
    if (committing >= COMMITS_AT_ONCE || (committing > 0 && waiting < BATCH)) return;
    committing++;
    const run = commitAll().finally(() => running.delete(run));
    running.add(run);
  }

  async function commitAll(): Promise<void> {
    await delay(GATHER_MS);
    while (lines.size > 0) {
      const batch = nextBatch(lines);
      waiting -= batch.length;
      await commit(batch);
      deps.streams.wake("events");
    }
    // In the turn in which nothing was left: who comes next begins anew.
    committing--;
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

  function lineOf(supplierId: string): Line {
    const known = lines.get(supplierId);
    if (known !== undefined) return known;
    const line: Line = { answers: [], repeatable: [] };
    lines.set(supplierId, line);
    return line;
  }

  return {
    record(event, repeatable = event.kind === "receipt" || event.kind === "inbound") {
      const tooMany = (lines.get(event.supplierId)?.repeatable.length ?? 0) >= MOST_REPEATABLE_WAITING;
      if (stopping.signal.aborted || (repeatable && tooMany)) {
        return Promise.reject(new Error("the event cannot be taken now"));
      }
      return new Promise((resolve, reject) => {
        const line = lineOf(event.supplierId);
        (repeatable ? line.repeatable : line.answers).push({ event, resolve, reject });
        waiting++;
        begin();
      });
    },
    async drain(atMostMs) {
      const giveUp = new AbortController();
      const patience = delay(atMostMs, giveUp.signal).then(() => stopping.abort());
      while (running.size > 0 && !stopping.signal.aborted) {
        await Promise.race([Promise.all(running), patience]);
      }
      giveUp.abort();
    },
  };
}

/** An equal share of each line, then what room is left in the order of their turns. */
function nextBatch(lines: Map<string, Line>): Waiting[] {
  const batch: Waiting[] = [];
  const share = Math.ceil(BATCH / lines.size);
  for (const room of [share, BATCH]) {
    const inTurn = [...lines];
    for (const [supplierId, line] of inTurn) {
      const taken = takeFrom(line, Math.min(room, BATCH - batch.length));
      if (taken.length === 0) continue;
      batch.push(...taken);
      lines.delete(supplierId);
      if (line.answers.length + line.repeatable.length > 0) lines.set(supplierId, line);
    }
  }
  return batch;
}

function takeFrom(line: Line, count: number): Waiting[] {
  const answers = line.answers.splice(0, count);
  return [...answers, ...line.repeatable.splice(0, count - answers.length)];
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
