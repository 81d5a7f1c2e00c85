import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Outcome } from "./outcome.ts";
import { decide, type RetryFacts } from "./retry.ts";

const open: RetryFacts = {
  attemptNumber: 1,
  maxAttempts: 3,
  withinTime: true,
  mayStillSend: true,
  anotherChannel: true,
};
const rejected: Outcome = { kind: "failed", status: "failed", reason: "submit:9", mayRetry: true };
const undelivered: Outcome = {
  kind: "failed",
  status: "undelivered",
  reason: "receipt:UNDELIV",
  mayRetry: true,
};

const anyFacts: fc.Arbitrary<RetryFacts> = fc.record({
  attemptNumber: fc.integer({ min: 1, max: 5 }),
  maxAttempts: fc.integer({ min: 1, max: 5 }),
  withinTime: fc.boolean(),
  mayStillSend: fc.boolean(),
  anotherChannel: fc.boolean(),
});

describe("the one decision of an attempt (D6)", () => {
  it("tries another channel after a rejection and after a failed receipt", () => {
    expect(decide(rejected, open)).toEqual({ kind: "retry", outcome: "failed", reason: "submit:9" });
    expect(decide(undelivered, open)).toEqual({
      kind: "retry",
      outcome: "undelivered",
      reason: "receipt:UNDELIV",
    });
  });

  it.each([
    ["every attempt was used", { attemptNumber: 3 }],
    ["the window for retries is closed (D7)", { withinTime: false }],
    ["the application may not send any more", { mayStillSend: false }],
    ["no other channel is left", { anotherChannel: false }],
  ])("ends with what it came to when %s", (_, missing) => {
    expect(decide(undelivered, { ...open, ...missing })).toEqual({
      kind: "end",
      status: "undelivered",
      reason: "receipt:UNDELIV",
    });
  });

  it("retries nothing that waits, is delivered, or may not be retried, whatever else allows it", () => {
    fc.assert(
      fc.property(anyFacts, (facts) => {
        expect(decide({ kind: "waiting" }, facts)).toEqual({ kind: "wait" });
        expect(decide({ kind: "delivered" }, facts)).toEqual({
          kind: "end",
          status: "delivered",
          reason: null,
        });
        expect(decide({ ...rejected, mayRetry: false }, facts).kind).toBe("end");
      }),
    );
  });
});
