/** Due attempts become workflows: claimed in batches, started eagerly, never checked here (A2). */
import type { Database } from "../db/client.ts";
import { claimDueAttempts, returnDueAttempts } from "../db/due-attempts.ts";
import { atPoint } from "../fault-points/at-point.ts";
import type { TemporalConfig } from "./config.ts";
import type { Metrics } from "./metrics.ts";
import { every, type Log, type Loop, loop } from "./service.ts";
import { isRefused, startAttempt, type Temporal } from "./temporal.ts";

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
      const unanswered: string[] = [];
      let error: unknown;
      for (const [index, outcome] of started.entries()) {
        const attemptId = due[index]?.attemptId ?? "";
        if (outcome.status === "fulfilled") deps.metrics.starts.inc({ kind: outcome.value });
        // Its claim stays: it comes again later and later, and others have their turn before it.
        else if (isRefused(outcome.reason))
          deps.log.error({ attemptId }, "Temporal would not start an attempt");
        else {
          error ??= outcome.reason;
          unanswered.push(attemptId);
        }
      }
      if (unanswered.length > 0) {
        await returnDueAttempts(deps.database, unanswered);
        throw error;
      }
      return { did: due.length, full: due.length >= config.intake.claim };
    },
  });
}
