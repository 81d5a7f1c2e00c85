import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answerOf, receiptOf, HOPELESS } from "./supplier-codes.ts";

describe("a result code", () => {
  it("of zero accepts, a listed one throttles, and the rest rejects or leaves it open", () => {
    expect(answerOf(0, [8])).toBe("accepted");
    expect(answerOf(8, [8])).toBe("throttled");
    expect(answerOf(8, [])).toBe("rejected");
    expect(answerOf(9, [8])).toBe("rejected");
    expect(answerOf(255, [8])).toBe("rejected");
  });

  it.each([3, 54, 55, 73])(
    "of %i may mean that the text was passed on, so nothing is tried again (D6)",
    (code) => {
      expect(answerOf(code, [8])).toBe("unknown");
    },
  );

  it("of zero accepts even where a profile lists it as throttling", () => {
    expect(answerOf(0, [0])).toBe("accepted");
  });

  it.each([1, 2, 4, 6, 13, 69, 76])("of %i no other supplier would answer otherwise", (code) => {
    expect(HOPELESS.results).toContain(code);
    expect(answerOf(code, [8])).toBe("rejected");
  });
});

describe("a receipt's state (D4)", () => {
  it("is read in any case, with padding (cmpp §5)", () => {
    expect(receiptOf("delivrd")).toBe("delivered");
    expect(receiptOf("UNDELIV ")).toBe("failed");
  });

  it("decides nothing where nobody mapped it", () => {
    const mapped = new Set(["DELIVRD", "EXPIRED", "DELETED", "UNDELIV", "REJECTD"]);
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ maxLength: 7 }), fc.constantFrom("UNKNOWN", "ACCEPTD", "toString", "__proto__")),
        (stat) => {
          if (!mapped.has(stat.trim().toUpperCase())) expect(receiptOf(stat)).toBe("undecided");
        },
      ),
    );
  });
});
