import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SEGMENT_RECEIPTS, SEGMENT_RESULTS } from "./message.ts";
import { judge, type SegmentFacts } from "./outcome.ts";

const part = (facts: Partial<SegmentFacts> = {}): SegmentFacts => ({
  part: 1,
  result: null,
  resultCode: null,
  receipt: null,
  receiptStat: null,
  ...facts,
});
const delivered = part({ result: "accepted", receipt: "delivered", receiptStat: "DELIVRD" });
const failed = part({ result: "accepted", receipt: "failed", receiptStat: "UNDELIV" });
const accepted = part({ result: "accepted", resultCode: 0 });
const interim = part({ result: "accepted", receipt: "undecided", receiptStat: "ACCEPTD" });
const rejected = part({ result: "rejected", resultCode: 9 });
const hopeless = part({ result: "rejected", resultCode: 13 });
const unknown = part({ result: "unknown" });
const unwritten = part({ result: "never_written" });
const open = part();

const anySegment: fc.Arbitrary<SegmentFacts> = fc
  .record({
    result: fc.constantFrom(null, ...SEGMENT_RESULTS),
    resultCode: fc.constantFrom(8, 9, 13),
    receipt: fc.constantFrom(null, ...SEGMENT_RECEIPTS),
  })
  // A receipt counts as acceptance, so it stands on accepted parts alone (D14).
  .map((it) => part(it.result === "accepted" ? it : { ...it, receipt: null }));
const anySegments = fc.array(anySegment, { minLength: 1, maxLength: 4 });
const anyMode = fc.constantFrom("per_segment", "message_level");

describe("with a receipt for each part (D4)", () => {
  const kindOf = (...segments: SegmentFacts[]): string => judge(segments, "per_segment").kind;

  it("is delivered when every part is, and the first one's success is not the message's", () => {
    expect(kindOf(delivered)).toBe("delivered");
    expect(kindOf(delivered, delivered)).toBe("delivered");
    expect(kindOf(delivered, accepted)).toBe("waiting");
    expect(kindOf(delivered, open)).toBe("waiting");
  });

  it("has failed when every part has ended and one has failed", () => {
    expect(kindOf(failed)).toBe("failed");
    expect(kindOf(delivered, failed)).toBe("failed");
    expect(kindOf(rejected, delivered)).toBe("failed");
    expect(kindOf(rejected, unwritten)).toBe("failed");
    expect(kindOf(unwritten)).toBe("failed");
  });

  it.each([
    ["is not written yet", open],
    ["is accepted and without a receipt", accepted],
    ["has an interim receipt", interim],
    ["is unknown", unknown],
  ])("waits for a part that %s, whatever its mates came to", (_, waiting) => {
    for (const mate of [rejected, failed, delivered, unwritten]) {
      expect(kindOf(mate, waiting)).toBe("waiting");
      expect(kindOf(waiting, mate)).toBe("waiting");
    }
  });

  it("never says failed while an accepted part has no final receipt", () => {
    fc.assert(
      fc.property(anySegments, (segments) => {
        const awaits = segments.some(
          (it) => it.result === "accepted" && it.receipt !== "delivered" && it.receipt !== "failed",
        );
        if (awaits) expect(judge(segments, "per_segment").kind).toBe("waiting");
      }),
    );
  });
});

describe("with one receipt for the whole message (D4)", () => {
  const outcomeOf = (...segments: SegmentFacts[]) => judge(segments, "message_level");

  it("takes it for all parts, whichever it names", () => {
    expect(outcomeOf(accepted, delivered)).toEqual({ kind: "delivered" });
    expect(outcomeOf(failed, accepted)).toMatchObject({
      kind: "failed",
      status: "undelivered",
      mayRetry: true,
    });
  });

  it("waits without it, and until every part has its answer", () => {
    expect(outcomeOf(accepted, accepted).kind).toBe("waiting");
    expect(outcomeOf(accepted, rejected).kind).toBe("waiting");
    expect(outcomeOf(delivered, open).kind).toBe("waiting");
    expect(outcomeOf(failed, open).kind).toBe("waiting");
  });

  it("is delivered also where an answer got lost, since the supplier speaks of the whole", () => {
    expect(outcomeOf(delivered, unknown)).toEqual({ kind: "delivered" });
  });

  it("is not delivered where a part was rejected: such an attempt charges nothing (D5)", () => {
    expect(outcomeOf(delivered, rejected)).toMatchObject({ kind: "failed", mayRetry: false });
    expect(outcomeOf(delivered, rejected, accepted)).toMatchObject({ kind: "failed", mayRetry: false });
  });

  it("makes a failure wait for a part that is unknown, because it could be tried again (D6)", () => {
    expect(outcomeOf(failed, unknown).kind).toBe("waiting");
    expect(outcomeOf(rejected, unknown).kind).toBe("waiting");
  });

  it("fails without any receipt where no part was taken", () => {
    expect(outcomeOf(rejected, unwritten)).toMatchObject({ kind: "failed", status: "failed" });
  });
});

describe("whether it may be tried again (D6)", () => {
  it("is never so while a part is unknown or awaits its answer, or where one is delivered", () => {
    fc.assert(
      fc.property(anySegments, anyMode, (segments, mode) => {
        const outcome = judge(segments, mode);
        const barred = segments.some(
          (it) => it.result === null || it.result === "unknown" || it.receipt === "delivered",
        );
        if (barred && outcome.kind === "failed") expect(outcome.mayRetry).toBe(false);
        if (segments.some((it) => it.result === null)) expect(outcome.kind).toBe("waiting");
      }),
    );
  });

  it("is not so where the fault is in the message itself", () => {
    expect(judge([rejected], "per_segment")).toMatchObject({ mayRetry: true });
    expect(judge([hopeless], "per_segment")).toMatchObject({ mayRetry: false });
    expect(judge([rejected, hopeless], "per_segment")).toMatchObject({ mayRetry: false });
  });

  it("is hopeless where the supplier's profile says so, by result or by receipt state, and nowhere else (D6)", () => {
    const own = { results: [9], stats: ["UNDELIV"] };
    const undelivered = part({ result: "accepted", receipt: "failed", receiptStat: "UNDELIV" });
    const accepted = part({ result: "accepted", resultCode: 9, receipt: "failed", receiptStat: "EXPIRED" });
    for (const [facts, mayRetry] of [
      [part({ result: "rejected", resultCode: 9 }), false],
      [hopeless, true],
      [undelivered, false],
      [accepted, true],
    ] as const) {
      expect(judge([facts], "per_segment", own)).toMatchObject({ mayRetry });
      expect(judge([facts], "message_level", own)).toMatchObject({ mayRetry });
    }
  });
});

describe("what is said of a failure", () => {
  it.each([
    [[rejected, failed], "failed", "submit:9"],
    [[failed, delivered], "undelivered", "receipt:UNDELIV"],
    [[unwritten, delivered], "failed", "never_written"],
    [[unwritten, failed], "failed", "receipt:UNDELIV"],
  ] as const)("names the rejection before the receipt (%#)", (segments, status, reason) => {
    expect(judge(segments, "per_segment")).toMatchObject({ status, reason });
  });
});
