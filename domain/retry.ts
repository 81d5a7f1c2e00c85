/** One decision an attempt, ever: try another channel, or end the message (D6, D7, D9). */
import type { Outcome } from "./outcome.ts";

export interface RetryFacts {
  attemptNumber: number;
  maxAttempts: number;
  /** The group's window for retries, and the message's own limit, are both still open (D7). */
  withinTime: boolean;
  /** Application and enterprise may still send today, and to this recipient. */
  mayStillSend: boolean;
  /** A channel of the group that fits and was not tried, connected or not. */
  anotherChannel: boolean;
}

export type Decision =
  | { kind: "wait" }
  | { kind: "retry"; outcome: "undelivered" | "failed"; reason: string }
  | { kind: "end"; status: "delivered" | "undelivered" | "failed"; reason: string | null };

export function decide(outcome: Outcome, facts: RetryFacts): Decision {
  switch (outcome.kind) {
    case "waiting":
      return { kind: "wait" };
    case "delivered":
      return { kind: "end", status: "delivered", reason: null };
    case "failed": {
      const { status, reason } = outcome;
      return outcome.mayRetry && allowed(facts)
        ? { kind: "retry", outcome: status, reason }
        : { kind: "end", status, reason };
    }
  }
}

const allowed = (facts: RetryFacts): boolean =>
  facts.attemptNumber < facts.maxAttempts && facts.withinTime && facts.mayStillSend && facts.anotherChannel;
