/**
 * How often a step is tried (D12). As a local activity it runs once and Temporal repeats it shortly; as
 * a regular one it stays here until it is answered: while a dependency is away it probes and counts
 * nothing, and after the last counted try it gives up for a person to look.
 */
import { ApplicationFailure, CancelledFailure, Context } from "@temporalio/activity";
import { isAway } from "../db/client.ts";
import { errorName } from "../workers/service.ts";

/** Type of the failure that sends an attempt to review. */
export const STEP_EXHAUSTED = "StepExhausted";

const PROBE_MS = 1_000;
const LONGEST_PAUSE_MS = 10_000;

/** `step` returns undefined for "not now": nothing was answered, and nothing is counted (B4). */
export function persevering<Args extends unknown[], Answer>(
  step: (...args: Args) => Promise<Answer>,
  options: { countedTries: number; notNow?: (answer: Answer) => boolean },
): (...args: Args) => Promise<Answer> {
  return (...args) => {
    const context = Context.current();
    return context.info.isLocal
      ? once(() => step(...args))
      : untilAnswered(context, () => step(...args), options);
  };
}

async function once<Answer>(step: () => Promise<Answer>): Promise<Answer> {
  try {
    return await step();
  } catch (error) {
    throw failed(error);
  }
}

async function untilAnswered<Answer>(
  context: Context,
  step: () => Promise<Answer>,
  options: { countedTries: number; notNow?: (answer: Answer) => boolean },
): Promise<Answer> {
  let counted = alreadyCounted(context);
  for (;;) {
    // Beats with the count inside, so that a restart of this worker goes on counting.
    context.heartbeat(counted);
    try {
      const answer = await step();
      if (options.notNow?.(answer) !== true) return answer;
      await context.sleep(PROBE_MS);
    } catch (error) {
      if (context.cancellationSignal.aborted) throw failed(error);
      if (isAway(error)) {
        await context.sleep(PROBE_MS);
        continue;
      }
      counted++;
      if (counted >= options.countedTries) throw exhausted(error);
      await context.sleep(Math.min(100 * 2 ** counted, LONGEST_PAUSE_MS, heartbeatShare(context)));
    }
  }
}

const alreadyCounted = (context: Context): number => {
  const details: unknown = context.info.heartbeatDetails;
  return typeof details === "number" ? details : 0;
};

/** A pause must not outlast the heartbeat timeout, or Temporal would start a second copy. */
const heartbeatShare = (context: Context): number => (context.info.heartbeatTimeoutMs ?? 5_000) / 2;

/** A history gets a code and never the error's message, which may quote what a row held. */
function exhausted(error: unknown): ApplicationFailure {
  const kind = errorName(error);
  return ApplicationFailure.nonRetryable(`gave up after an error of kind ${kind}`, STEP_EXHAUSTED, kind);
}

/** A cancellation stays one: Temporal tells it from a failure by its class. */
const failed = (error: unknown): ApplicationFailure | CancelledFailure =>
  error instanceof CancelledFailure
    ? error
    : ApplicationFailure.retryable("the step failed", "StepFailed", errorName(error));
