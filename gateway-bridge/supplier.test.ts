import { describe, expect, it } from "vitest";
import { answerBy, answeredMsgId, receiptBy, supplierProfile } from "./supplier.ts";

const NEEDED = { host: "127.0.0.1", port: 7890, version: "3.0", spId: "900001" } as const;
const profile = (more: object = {}) => supplierProfile.parse({ ...NEEDED, ...more });

describe("a supplier's profile", () => {
  it("reads a state by the supplier's own table, whatever its case, and by the common one otherwise", () => {
    const own = profile({ stats: { "mk:0000 ": "delivered", DELIVRD: "undecided" } });
    expect(receiptBy(own, "MK:0000")).toBe("delivered");
    expect(receiptBy(own, "delivrd")).toBe("undecided");
    expect(receiptBy(own, "UNDELIV")).toBe("failed");
    expect(receiptBy(profile(), "MK:0000")).toBe("undecided");
  });

  it("says which results mean slower and which leave the outcome open; open wins (C3)", () => {
    const own = profile({ throttleResults: [8, 77], uncertainResults: [77, 250] });
    expect([0, 8, 77, 250, 9].map((result) => answerBy(own, result))).toEqual([
      "accepted",
      "throttled",
      "unknown",
      "unknown",
      "rejected",
    ]);
  });

  it.each(["throttleResults", "uncertainResults"])(
    "lets no acceptance be called otherwise in %s",
    (field) => {
      expect(supplierProfile.safeParse({ ...NEEDED, [field]: [0] }).success).toBe(false);
    },
  );

  it("brings a receipt's Msg_Id back to how the answer spelled it", () => {
    expect(answeredMsgId(profile(), "0102030405060708")).toBe("0102030405060708");
    const reversed = profile({ receiptMsgId: "bytes_reversed" });
    expect(answeredMsgId(reversed, "0807060504030201")).toBe("0102030405060708");
  });

  it.each([
    ["timeZone", "Beijing", "timeZone: must be the name of a time zone"],
    ["encoding", "gb2312", "encoding: "],
    ["srcId", "ours", "srcId: "],
    ["receiptBytes", 66, "receiptBytes: "],
    ["hopelessResults", [0], "hopelessResults.0: "],
    ["hopelessStats", "UNDELIV", "hopelessStats: "],
  ])("refuses %s %j in words that lead there", (field, value, words) => {
    const read = supplierProfile.safeParse({ ...NEEDED, [field]: value });
    const said = read.error?.issues.map((it) => `${it.path.join(".")}: ${it.message}`).join();
    expect(said).toContain(words);
  });

  it("refuses a field that it does not know", () => {
    expect(supplierProfile.safeParse({ ...NEEDED, windows: 4 }).success).toBe(false);
  });
});
