import { describe, expect, it } from "vitest";
import { message, receipt, request, second, submit } from "./doctored.ts";
import type { MessageRow, Receipt, Requested, Submit } from "./evidence.ts";
import { judgeWitness } from "./witness.ts";

interface Case {
  requests?: Requested[];
  submits?: Submit[];
  receipts?: Receipt[];
  messages?: MessageRow[];
}

const judge = ({
  requests = [request()],
  submits = [submit(), second()],
  receipts = [receipt(), receipt({ msgId: "a2" })],
  messages = [message()],
}: Case) =>
  judgeWitness({
    requests,
    submits,
    receipts,
    messages: new Map(messages.map((it) => [it.reference ?? "", it])),
  }).map(({ clause, verdict }) => `${clause} ${verdict}`);

const elsewhere = (more: Partial<Submit> = {}): Submit[] => [
  submit({ supplier: "supplier-2", msgId: "b1", at: "2026-01-01T00:00:09Z", ...more }),
  second({ supplier: "supplier-2", msgId: "b2", at: "2026-01-01T00:00:09Z", ...more }),
];
const deliveredElsewhere = [
  receipt({ supplier: "supplier-2", msgId: "b1" }),
  receipt({ supplier: "supplier-2", msgId: "b2" }),
];

describe("the witness has nothing against", () => {
  it("a text that was written once and delivered", () => {
    expect(judge({})).toEqual([]);
  });

  it("a part that was written again after a throttle answer (C3)", () => {
    expect(judge({ submits: [submit({ result: 8, msgId: "00" }), submit(), second()] })).toEqual([]);
  });

  it("a retry elsewhere after a rejection, or after a failure was reported (D6)", () => {
    const rejected = [submit({ result: 9, msgId: "00" }), second({ result: 9, msgId: "00" })];
    expect(judge({ submits: [...rejected, ...elsewhere()], receipts: deliveredElsewhere })).toEqual([]);
    const undelivered = [receipt({ stat: "UNDELIV" }), receipt({ msgId: "a2", stat: "UNDELIV" })];
    expect(
      judge({
        submits: [submit(), second(), ...elsewhere()],
        receipts: [...undelivered, ...deliveredElsewhere],
      }),
    ).toEqual([]);
  });

  it("an unknown outcome that stays unknown to the end", () => {
    const unanswered = [submit({ result: null }), second({ result: null })];
    expect(
      judge({
        submits: unanswered,
        receipts: [],
        messages: [message({ status: "expired", uncertain: true })],
      }),
    ).toEqual([]);
  });

  it("a text in UCS2, in whatever order its parts came", () => {
    const hexOf = (part: number, text: string): string =>
      Buffer.concat([Buffer.from([5, 0, 3, 9, 2, part]), Buffer.from(text, "utf16le").swap16()]).toString(
        "hex",
      );
    const submits = [second({ textHex: hexOf(2, "二 [7-1]") }), submit({ textHex: hexOf(1, "一 [7-1]") })];
    expect(judge({ requests: [request({ text: "一 [7-1]二 [7-1]" })], submits })).toEqual([]);
  });
});

describe("a receipt under the Msg_Id of nothing (fate 0213)", () => {
  const nameless = [receipt({ msgId: "zz" }), receipt({ msgId: "zy" })];
  const one = { requests: [request({ parts: 1, text: "first [7-1] " })], receipts: nameless };
  const submits = [submit({ parts: 1, textHex: Buffer.from("first [7-1] ").toString("hex") })];

  it("may be what a text was delivered by (D14), and a text may expire all the same", () => {
    expect(judge({ ...one, submits })).toEqual([]);
    expect(judge({ ...one, submits, messages: [message({ status: "expired" })] })).toEqual([]);
  });
});

describe("the witness objects to", () => {
  it("a part that was written twice (C1)", () => {
    expect(judge({ submits: [submit(), submit(), second()] })).toEqual(["C1 duplicated"]);
  });

  it("a part that was written again after no answer (C1)", () => {
    expect(judge({ submits: [submit({ result: null }), submit(), second()] })).toEqual(["C1 duplicated"]);
  });

  it("a part that was written again after an answer that was no throttle, even if that one is throttled (C1)", () => {
    expect(judge({ submits: [submit(), submit({ result: 8 }), second()] })).toEqual(["C1 duplicated"]);
  });

  it("a second supplier while nothing had failed at the first (C2)", () => {
    expect(
      judge({ submits: [submit(), second(), ...elsewhere()], receipts: [receipt(), ...deliveredElsewhere] }),
    ).toEqual(["C2 duplicated"]);
  });

  it("a second supplier before the first reported its failure (C2)", () => {
    const late = receipt({ stat: "UNDELIV", at: "2026-01-01T00:00:30Z" });
    expect(
      judge({ submits: [submit(), second(), ...elsewhere()], receipts: [late, ...deliveredElsewhere] }),
    ).toEqual(["C2 duplicated"]);
  });

  it("a second supplier after an outcome that nobody knew (C2)", () => {
    const unanswered = [submit({ result: null }), second({ result: null })];
    expect(judge({ submits: [...unanswered, ...elsewhere()], receipts: deliveredElsewhere })).toEqual([
      "C2 duplicated",
    ]);
  });

  it("a text that nobody asked for, and one that cannot be read (C4)", () => {
    const foreign = submit({ parts: 1, textHex: Buffer.from("buy now [7-999]").toString("hex") });
    const garbage = submit({ parts: 1, textHex: "ff" });
    expect(judge({ submits: [submit(), second(), foreign, garbage] })).toEqual([
      "C4 unexpected",
      "C4 unexpected",
    ]);
  });

  it("another number, and other words, than were asked for (C4)", () => {
    expect(judge({ submits: [submit({ to: "13800000002" }), second({ to: "13800000002" })] })).toEqual([
      "C4 unexpected",
    ]);
    expect(judge({ submits: [submit({ content: "other [7-1] " }), second()] })).toEqual(["C4 unexpected"]);
  });

  it("a text that was written and is stored nowhere (C4)", () => {
    expect(judge({ messages: [] })).toEqual(["C4 unexpected"]);
  });

  it("delivered, where no supplier had it or delivered all of it", () => {
    expect(judge({ submits: [], receipts: [] })).toEqual(["witness lost"]);
    expect(judge({ receipts: [receipt()] })).toEqual(["witness lost"]);
  });

  it("undelivered, where no supplier said so", () => {
    expect(judge({ receipts: [], messages: [message({ status: "undelivered" })] })).toEqual([
      "witness unexpected",
    ]);
  });

  it("failed, where no supplier rejected it", () => {
    expect(
      judge({ submits: [], receipts: [], messages: [message({ status: "failed", reason: "no_route" })] }),
    ).toEqual(["witness unexpected"]);
  });

  it("canceled, where nobody asked for it or a supplier has read it", () => {
    const canceled = [message({ status: "canceled" })];
    expect(judge({ submits: [], receipts: [], messages: canceled })).toEqual(["witness unexpected"]);
    expect(judge({ requests: [request({ cancelAsked: true })], messages: canceled })).toEqual([
      "witness duplicated",
    ]);
  });

  it("refused, where nothing forbids it", () => {
    expect(judge({ submits: [], receipts: [], messages: [message({ status: "refused" })] })).toEqual([
      "witness unexpected",
    ]);
  });

  it("expired, where it was never written or had been delivered", () => {
    const expired = [message({ status: "expired" })];
    expect(judge({ submits: [], receipts: [], messages: expired })).toEqual(["witness unexpected"]);
    expect(judge({ messages: expired })).toEqual(["witness unexpected"]);
  });
});
