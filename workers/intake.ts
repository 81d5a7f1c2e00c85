/** Due attempts become workflows: claimed in batches, started eagerly, never checked here (A2). */
import type { Database } from "../db/client.ts";
import { claimDueAttempts, returnDueAttempts } from "../db/due-attempts.ts";
import { atPoint } from "../fault-points/at-point.ts";
import type { TemporalConfig } from "./config.ts";
import type { Metrics } from "./metrics.ts";
import { every, type Log, type Loop, loop } from "./service.ts";
import { startAttempt, type Temporal } from "./temporal.ts";

export function createIntake(
  deps: { database: Database; temporal: Temporal; metrics: Metrics; log: Log },
  config: TemporalConfig,
): Loop {
  return loop({
    name: "intake",
    log: deps.log,
    pause: every(config.intake.pollMs),
    async turn() {
      const due = await atPoint("intake_claim", () => claimDueAttempts(deps.database, config.intake.claim));
      const started = await Promise.allSettled(
        due.map((it) => atPoint("intake_start", () => startAttempt(deps.temporal, config, it.attemptId))),
      );
      const failed: string[] = [];
      let error: unknown;
      started.forEach((outcome, index) => {
        if (outcome.status === "fulfilled") deps.metrics.starts.inc({ kind: outcome.value });
        else {
          error ??= outcome.reason;
          const attemptId = due[index]?.attemptId;
          if (attemptId !== undefined) failed.push(attemptId);
        }
      });
      if (failed.length > 0) {
        await returnDueAttempts(deps.database, failed);
        throw error;
      }
      return { did: due.length, full: due.length >= config.intake.claim };
    },
  });
}
