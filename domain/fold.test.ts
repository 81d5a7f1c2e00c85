import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fold, type FoldedSegment, MAX_WRITES, NO_MSG_ID, type SupplierFact } from "./fold.ts";
import { acceptedWhole, isUncertain, judge } from "./outcome.ts";
import { receiptOf } from "./supplier-codes.ts";

const untold = (part: number): FoldedSegment => ({
  part,
  result: null,
  resultCode: null,
  msgId: null,
  receipt: null,
  receiptStat: null,
});

const foldAll = (facts: readonly SupplierFact[], from = untold(1)): FoldedSegment =>
  facts.reduce((segment, fact) => fold(segment, fact).segment, from);

const accepted = (msgId = "00000000000000a1"): SupplierFact => ({
  kind: "response",
  answer: "accepted",
  resultCode: 0,
  msgId,
  writeNumber: 1,
});
const rejected = (resultCode: number): SupplierFact => ({
  kind: "response",
  answer: "rejected",
  resultCode,
  msgId: NO_MSG_ID,
  writeNumber: 1,
});
const throttled = (writeNumber: number): SupplierFact => ({
  kind: "response",
  answer: "throttled",
  resultCode: 8,
  msgId: NO_MSG_ID,
  writeNumber,
});
const unclear: SupplierFact = {
  kind: "response",
  answer: "unknown",
  resultCode: 3,
  msgId: NO_MSG_ID,
  writeNumber: 1,
};
const silence: SupplierFact = { kind: "no_response" };
const receipt = (stat: string, msgId = "00000000000000a1"): SupplierFact => ({
  kind: "receipt",
  meaning: receiptOf(stat),
  stat,
  msgId,
});

const anyFact: fc.Arbitrary<SupplierFact> = fc.oneof(
  fc.constantFrom(accepted(), accepted(NO_MSG_ID), unclear, silence, throttled(1), throttled(MAX_WRITES)),
  fc.constantFrom(9, 13, 69).map(rejected),
  fc.constantFrom("DELIVRD", "UNDELIV", "EXPIRED", "UNKNOWN", "ACCEPTD", "MA:0001").map((it) => receipt(it)),
);

/** A fact and the part of the message that it is about. */
const anyStory = fc.integer({ min: 1, max: 3 }).chain((parts) =>
  fc.record({
    parts: fc.constant(parts),
    facts: fc.array(fc.record({ part: fc.integer({ min: 1, max: parts }), fact: anyFact }), { maxLength: 5 }),
  }),
);

interface Told {
  part: number;
  fact: SupplierFact;
}

function segmentsAfter(parts: number, facts: readonly Told[]): FoldedSegment[] {
  return Array.from({ length: parts }, (_, index) =>
    foldAll(
      facts.filter((it) => it.part === index + 1).map((it) => it.fact),
      untold(index + 1),
    ),
  );
}

function ordersOf<T>(items: readonly T[]): T[][] {
  if (items.length < 2) return [[...items]];
  return items.flatMap((item, index) =>
    ordersOf([...items.slice(0, index), ...items.slice(index + 1)]).map((rest) => [item, ...rest]),
  );
}

describe("facts that are there before the decision", () => {
  it.each(["per_segment", "message_level"] as const)(
    "come to one outcome in every order, copies included (D8, %s)",
    (mode) => {
      fc.assert(
        fc.property(anyStory, ({ parts, facts }) => {
          const expected = judge(segmentsAfter(parts, facts), mode);
          for (const order of ordersOf(facts)) {
            expect(judge(segmentsAfter(parts, order), mode)).toEqual(expected);
          }
        }),
        { numRuns: 300 },
      );
    },
  );

  it("are charged for, or called uncertain, alike in every order (D5)", () => {
    fc.assert(
      fc.property(anyStory, ({ parts, facts }) => {
        const segments = segmentsAfter(parts, facts);
        for (const order of ordersOf(facts)) {
          const other = segmentsAfter(parts, order);
          expect(acceptedWhole(other)).toBe(acceptedWhole(segments));
          expect(isUncertain(other)).toBe(isUncertain(segments));
        }
      }),
      { numRuns: 300 },
    );
  });

  it("say no more when each is told twice (D2)", () => {
    fc.assert(
      fc.property(fc.array(anyFact, { maxLength: 5 }), (facts) => {
        const once = foldAll(facts);
        expect(foldAll(facts, once)).toEqual(once);
      }),
    );
  });

  it("never take an acceptance or a delivery back", () => {
    fc.assert(
      fc.property(fc.array(anyFact, { maxLength: 5 }), anyFact, (before, fact) => {
        const segment = foldAll(before);
        const { segment: after } = fold(segment, fact);
        if (segment.result === "accepted") expect(after.result).toBe("accepted");
        if (segment.receipt === "delivered") expect(after.receipt).toBe("delivered");
        if (segment.msgId !== null) expect(after.msgId).toBe(segment.msgId);
      }),
    );
  });
});

describe("an answer", () => {
  it("that accepts brings the Msg_Id; zeros name nothing (D14)", () => {
    expect(foldAll([accepted()])).toMatchObject({ result: "accepted", msgId: "00000000000000a1" });
    expect(foldAll([accepted(NO_MSG_ID)])).toMatchObject({ result: "accepted", msgId: null });
  });

  it("settles what was unknown, and is not made unknown again (I)", () => {
    expect(foldAll([silence])).toMatchObject({ result: "unknown" });
    expect(foldAll([unclear])).toMatchObject({ result: "unknown" });
    expect(foldAll([silence, accepted(), silence])).toMatchObject({ result: "accepted" });
    expect(foldAll([silence, rejected(9), silence])).toMatchObject({ result: "rejected", resultCode: 9 });
  });

  it("that throttles says nothing, until the last write that is allowed (C3)", () => {
    expect(foldAll([throttled(MAX_WRITES - 1)])).toEqual(untold(1));
    expect(foldAll([throttled(MAX_WRITES)])).toMatchObject({ result: "rejected", resultCode: 8 });
  });

  it.each([
    ["accepted, then rejected", [accepted(), rejected(9)], "result_contradicted"],
    ["rejected, then accepted", [rejected(9), accepted()], "result_contradicted"],
    ["rejected in two ways", [rejected(9), rejected(13)], "result_contradicted"],
    ["accepted under two ids", [accepted(), accepted("00000000000000b2")], "msg_id_contradicted"],
    ["accepted twice", [accepted(), accepted()], undefined],
    ["rejected twice", [rejected(9), rejected(9)], undefined],
    ["accepted again without an id", [accepted(), accepted(NO_MSG_ID)], undefined],
  ] as const)("%s: contradiction %s is kept for a person (D8)", (_, [first, second], contradiction) => {
    expect(fold(foldAll([first]), second).contradiction).toBe(contradiction);
  });
});

describe("a receipt", () => {
  it("counts as acceptance, and brings the id that nobody told (D14)", () => {
    expect(foldAll([silence, receipt("UNKNOWN")])).toMatchObject({
      result: "accepted",
      msgId: "00000000000000a1",
      receipt: "undecided",
    });
  });

  it("that is interim or unmapped neither decides nor replaces one that does (D4)", () => {
    expect(foldAll([accepted(), receipt("ACCEPTD")]).receipt).toBe("undecided");
    expect(foldAll([accepted(), receipt("UNDELIV"), receipt("UNKNOWN")])).toMatchObject({
      receipt: "failed",
      receiptStat: "UNDELIV",
    });
    expect(foldAll([accepted(), receipt("UNKNOWN"), receipt("UNDELIV")]).receipt).toBe("failed");
  });

  it.each([
    ["delivered, then failed", [receipt("DELIVRD"), receipt("UNDELIV")], "receipt_contradicted"],
    ["failed, then delivered", [receipt("UNDELIV"), receipt("DELIVRD")], "receipt_contradicted"],
    ["rejected, then delivered", [rejected(9), receipt("DELIVRD")], "result_contradicted"],
    ["interim, then delivered", [receipt("ACCEPTD"), receipt("DELIVRD")], undefined],
    ["failed twice, in two words", [receipt("UNDELIV"), receipt("EXPIRED")], undefined],
  ] as const)("%s: contradiction %s (D8)", (_, [first, second], contradiction) => {
    expect(fold(foldAll([first]), second).contradiction).toBe(contradiction);
  });
});
