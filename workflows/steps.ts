/**
 * The steps as an attempt calls them: first inside the workflow task, at the cost of one marker; where
 * that fails, as a regular activity that stays until it is answered (design §3).
 */
import { isCancellation, proxyActivities, proxyLocalActivities, TemporalFailure } from "@temporalio/workflow";
import type { Activities } from "../activities/index.ts";

/** From temporal-config.yaml, handed over at start: workflows cannot read files. */
export interface StepPolicy {
  local: { startToCloseMs: number; tries: number; firstRetryMs: number };
  regular: { heartbeatMs: number; tries: number };
}

/** More than an attempt lingers; what takes longer than this was forgotten by its worker. */
const LONGEST_LINGER_MS = 10_000;

/** Long enough that no outage ends a step; the activity itself counts its tries (D12). */
const LONGEST_OUTAGE_MS = 73 * 3600 * 1000;

/** Every activity, under the policy that the attempt was started with. */
export type Steps = Activities;

export function stepsUnder(policy: StepPolicy): Steps {
  const local = proxyLocalActivities<Activities>({
    startToCloseTimeout: policy.local.startToCloseMs,
    retry: {
      maximumAttempts: policy.local.tries,
      initialInterval: policy.local.firstRetryMs,
      backoffCoefficient: 2,
    },
  });
  const regular = proxyActivities<Activities>({
    startToCloseTimeout: LONGEST_OUTAGE_MS,
    heartbeatTimeout: policy.regular.heartbeatMs,
    retry: { initialInterval: 1000, maximumInterval: 2000, nonRetryableErrorTypes: ["StepExhausted"] },
  });
  const once = proxyLocalActivities<Pick<Activities, "linger">>({
    startToCloseTimeout: LONGEST_LINGER_MS,
    retry: { maximumAttempts: 1 },
  });
  return {
    reserve: (attemptId) => orElse(local.reserve(attemptId), () => regular.reserve(attemptId)),
    planRoute: async (attemptId) => {
      const answer = await orElse(local.planRoute(attemptId), () => regular.planRoute(attemptId));
      return answer.kind === "disconnected" ? regular.planRoute(attemptId) : answer;
    },
    persistOutbox: (planned) => orElse(local.persistOutbox(planned), () => regular.persistOutbox(planned)),
    publish: (attemptId) => orElse(local.publish(attemptId), () => regular.publish(attemptId)),
    // Never tried again, nor as a regular activity: whoever does not linger waits, and that is all.
    linger: (it) => orElse(once.linger(it), () => Promise.resolve({ kind: "not_yet" })),
    settleOrRetry: (attemptId) =>
      orElse(local.settleOrRetry(attemptId), () => regular.settleOrRetry(attemptId)),
    openReview: (it) => orElse(local.openReview(it), () => regular.openReview(it)),
    closeReview: (attemptId) => orElse(local.closeReview(attemptId), () => regular.closeReview(attemptId)),
    resolveReview: (it) => orElse(local.resolveReview(it), () => regular.resolveReview(it)),
  };
}

/** The failure of a local activity comes bare, that of a regular one inside an ActivityFailure. */
async function orElse<Answer>(first: Promise<Answer>, other: () => Promise<Answer>): Promise<Answer> {
  try {
    return await first;
  } catch (error) {
    if (isCancellation(error) || !(error instanceof TemporalFailure)) throw error;
    return other();
  }
}
