/**
 * Stored supplier events are folded and charged; a workflow is told only when a decision is due. It
 * decides nothing (D1, design §3).
 */
import { undecidedOf } from "../db/attempts.ts";
import type { Database } from "../db/client.ts";
import type { DueDecision } from "../db/folding.ts";
import type { Streams } from "../gateway-bridge/streams.ts";
import type { TemporalConfig } from "./config.ts";
import type { DueCalls } from "./due-calls.ts";
import { foldBatch } from "./fold-batch.ts";
import type { Metrics } from "./metrics.ts";
import { delay, type Log, type Loop, loop } from "./service.ts";
import type { Tells } from "./tells.ts";

interface Deps {
  database: Database;
  streams: Pick<Streams, "waitForWake">;
  calls: Pick<DueCalls, "call">;
  tells: Pick<Tells, "tell">;
  metrics: Metrics;
  log: Log;
}

/** An attempt that was called and lingered has committed its decision by then. */
const SETTLING_MS = 250;

export function createResults(deps: Deps, config: TemporalConfig): Loop {
  const { batch: most, pollMs, gatherMs } = config.results;
  const { lingerMs } = config.policy;
  const called = calledAttempts();

  /** Whoever may still linger is called, which costs next to nothing; everybody else is told. */
  async function tell(due: readonly DueDecision[]): Promise<void> {
    const young = due.filter((it) => it.ageMs < lingerMs);
    deps.calls.call(young.map((it) => it.attemptId));
    for (const it of young) called.add(it.attemptId, lingerMs - it.ageMs + SETTLING_MS);
    await deps.tells.tell(due.filter((it) => it.ageMs >= lingerMs).map((it) => it.attemptId));
  }

  /** Nobody lingers any more: who was called in vain, or not heard, is told like the others. */
  async function tellUnheard(): Promise<void> {
    const attemptIds = called.takeOver();
    if (attemptIds.length > 0) await deps.tells.tell(await undecidedOf(deps.database, attemptIds));
  }

  return loop({
    name: "results",
    log: deps.log,
    async turn() {
      const batch = await foldBatch(deps, most);
      if (batch.eventCount > 0) {
        deps.metrics.batchSize.observe({ step: "fold" }, batch.eventCount);
        deps.metrics.events.inc({ fate: "folded" }, batch.folded);
        deps.metrics.events.inc({ fate: "unmatched" }, batch.unmatched);
      }
      await tell(batch.due);
      await tellUnheard();
      return { did: batch.folded, full: batch.full };
    },
    async pause(signal) {
      await deps.streams.waitForWake("events", pollMs, signal);
      await delay(gatherMs, signal);
    },
  });
}

interface CalledAttempts {
  /** To be asked after so many milliseconds whether the call was heard. */
  add(attemptId: string, afterMs: number): void;
  /** Those whose time has come, which are forgotten here. */
  takeOver(): string[];
}

/** In memory only: what this process forgets by dying, the sweeper finds by its facts. */
function calledAttempts(now: () => number = () => performance.now()): CalledAttempts {
  const askAt = new Map<string, number>();
  return {
    add: (attemptId, afterMs) => void askAt.set(attemptId, now() + afterMs),
    takeOver() {
      const over = [...askAt].flatMap(([attemptId, at]) => (at <= now() ? [attemptId] : []));
      for (const attemptId of over) askAt.delete(attemptId);
      return over;
    },
  };
}
