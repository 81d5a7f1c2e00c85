/**
 * Telling workflows that a decision is due, with a bounded number under way: an update to a dead worker
 * hangs, and each one returns only when its settlement has committed (design §3).
 */
import { atPoint } from "../fault-points/at-point.ts";
import type { Metrics } from "./metrics.ts";
import { errorName, type Log, type Service } from "./service.ts";
import { tellToLook, type Temporal } from "./temporal.ts";

export interface Tells extends Service {
  /**
   * Takes attempts in; waits while too many are under way, so that whoever folds slows down. What does
   * not get through is left to the sweeper, which finds it by its facts.
   */
  tell(attemptIds: readonly string[]): Promise<void>;
  /** Tells one and waits for the answer. */
  tellNow(attemptId: string): Promise<"told" | "no_workflow" | "no_answer">;
}

export function createTells(
  deps: { temporal: Temporal; metrics: Metrics; log: Log },
  limits: { tellsInFlight: number; tellTimeoutMs: number },
): Tells {
  const underWay = new Map<string, Promise<unknown>>();
  /** New facts came while an attempt was being told: it may have read the old ones. */
  const again = new Set<string>();

  async function tellNow(attemptId: string): Promise<"told" | "no_workflow" | "no_answer"> {
    const outcome = await atPoint("tell", () =>
      tellToLook(deps.temporal, attemptId, limits.tellTimeoutMs),
    ).catch((error: unknown) => {
      deps.log.warn(
        { attemptId, error: errorName(error) },
        "a workflow could not be told; left to the sweeper",
      );
      return "no_answer" as const;
    });
    deps.metrics.tells.inc({ outcome });
    return outcome;
  }

  function begin(attemptId: string): void {
    const telling = tellNow(attemptId).finally(() => {
      underWay.delete(attemptId);
      if (again.delete(attemptId)) begin(attemptId);
    });
    underWay.set(attemptId, telling);
  }

  return {
    name: "tells",
    tellNow,
    async tell(attemptIds) {
      for (const attemptId of attemptIds) {
        if (underWay.has(attemptId)) {
          again.add(attemptId);
          continue;
        }
        while (underWay.size >= limits.tellsInFlight) await Promise.race(underWay.values());
        begin(attemptId);
      }
    },
    start: () => Promise.resolve(),
    async stop() {
      again.clear();
      await Promise.allSettled(underWay.values());
    },
  };
}
