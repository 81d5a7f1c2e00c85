import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  assemble,
  contentOf,
  type InboundPart,
  JOIN_PATIENCE_MS,
  OPT_IN_WORDS,
  OPT_OUT_WORDS,
  wishIn,
} from "./inbound.ts";

const MINUTE_MS = 60_000;
let last = 0n;

function part(number: number, total: number, said: string, more: Partial<InboundPart> = {}): InboundPart {
  return {
    id: ++last,
    msgFmt: 0,
    content: Buffer.from(said),
    part: number,
    total,
    ageMs: 0,
    inboundId: null,
    ...more,
  };
}

const said = (parts: readonly InboundPart[]): string[] =>
  parts.map((it) => Buffer.from(it.content).toString());

describe("parts of a text", () => {
  it("are joined when all are there, in whatever order they came", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([1, 2, 3, 4], { minLength: 4 }), (order) => {
        const { texts, waiting } = assemble(order.map((number) => part(number, 4, String(number))));
        expect(texts.map((it) => [said(it.parts).join(""), it.complete])).toEqual([["1234", true]]);
        expect(waiting).toEqual([]);
      }),
    );
  });

  it("wait an hour for those that lack, counted from the first, and are then handed on as they are", () => {
    const parts = (ageMs: number) => [part(3, 3, "c", { ageMs }), part(1, 3, "a", { ageMs: 0 })];
    const early = assemble(parts(JOIN_PATIENCE_MS - 1));
    expect([early.texts, early.waiting.map((it) => it.forMs)]).toEqual([[], [1, 1]]);
    const late = assemble(parts(JOIN_PATIENCE_MS));
    expect(late.texts.map((it) => [said(it.parts), it.complete])).toEqual([[["a", "c"], false]]);
  });

  it("that come twice count once, before the text is whole and after it was handed on", () => {
    const [text] = assemble([part(1, 2, "a"), part(1, 2, "a"), part(2, 2, "b")]).texts;
    expect([said(text?.parts ?? []), text?.repeats.length, text?.conflicts.length]).toEqual([
      ["a", "b"],
      1,
      0,
    ]);
    const handedOn = [part(1, 2, "a", { inboundId: "inb_1" }), part(2, 2, "b", { inboundId: "inb_1" })];
    const again = part(2, 2, "b");
    expect(assemble([...handedOn, again])).toEqual({
      texts: [],
      repeats: [{ part: again, inboundId: "inb_1" }],
      waiting: [],
    });
  });

  it("that say something else under the same number are kept apart, and the first counts", () => {
    const [text] = assemble([part(1, 2, "a", { ageMs: MINUTE_MS }), part(1, 2, "x"), part(2, 2, "b")]).texts;
    expect([said(text?.parts ?? []), said(text?.conflicts ?? [])]).toEqual([["a", "b"], ["x"]]);
  });

  it("begin another text where the one before is whole, or older than a minute", () => {
    const twice = ["a", "b", "x", "y"].map((it, at) => part((at % 2) + 1, 2, it));
    expect(assemble(twice).texts.map((it) => said(it.parts).join(""))).toEqual(["ab", "xy"]);
    const later = [part(1, 2, "a", { ageMs: MINUTE_MS + 1 }), part(1, 2, "x"), part(2, 2, "y")];
    const { texts, waiting } = assemble(later);
    expect(texts.map((it) => said(it.parts).join(""))).toEqual(["xy"]);
    expect(said(waiting.map((it) => it.part))).toEqual(["a"]);
  });

  it("that come after their text was handed on without them are a text of their own", () => {
    const handedOn = part(1, 2, "a", { inboundId: "inb_1", ageMs: JOIN_PATIENCE_MS + 5 });
    const { texts, waiting } = assemble([handedOn, part(2, 2, "b", { ageMs: 1 })]);
    expect([texts, said(waiting.map((it) => it.part))]).toEqual([[], ["b"]]);
  });

  it("lose and double none, whatever comes", () => {
    const any = fc.record({
      number: fc.integer({ min: 1, max: 3 }),
      byte: fc.constantFrom("a", "b"),
      apartMs: fc.nat(50_000),
    });
    fc.assert(
      fc.property(fc.array(any, { maxLength: 12 }), (given) => {
        let now = 0;
        const times = given.map(({ apartMs }) => (now += apartMs));
        const parts = given.map(({ number, byte }, at) =>
          part(number, 3, byte, { ageMs: now - (times[at] ?? 0) }),
        );
        const { texts, repeats, waiting } = assemble(parts);
        const found = [
          ...texts.flatMap((it) => [...it.parts, ...it.repeats, ...it.conflicts]),
          ...repeats.map((it) => it.part),
          ...waiting.map((it) => it.part),
        ];
        expect(found.length).toBe(parts.length);
        expect(new Set(found.map((it) => it.id))).toEqual(new Set(parts.map((it) => it.id)));
        for (const text of texts) expect(text.parts.map((it) => it.part)).toEqual([1, 2, 3]);
      }),
    );
  });
});

describe("what a text says", () => {
  const ucs2 = (text: string): Buffer => Buffer.from(text, "utf16le").swap16();

  it("is whole where its sender cut a character in two (cmpp §8)", () => {
    const utf16 = ucs2("测😀");
    expect(
      contentOf([
        part(1, 2, "", { msgFmt: 8, content: utf16.subarray(0, 4) }),
        part(2, 2, "", { msgFmt: 8, content: utf16.subarray(4) }),
      ]),
    ).toEqual({ text: "测😀" });
    const gb = Buffer.from("b2e2cad4", "hex");
    expect(
      contentOf([
        part(1, 2, "", { msgFmt: 15, content: gb.subarray(0, 3) }),
        part(2, 2, "", { msgFmt: 15, content: gb.subarray(3) }),
      ]),
    ).toEqual({ text: "测试" });
  });

  it("is read part by part where their encodings differ, and kept as bytes where one is binary", () => {
    const mixed = [part(1, 2, "A"), part(2, 2, "", { msgFmt: 8, content: ucs2("测") })];
    expect(contentOf(mixed)).toEqual({ text: "A测" });
    expect(contentOf([...mixed, part(3, 3, "b", { msgFmt: 4 })])).toEqual({
      bytes: new Uint8Array(Buffer.from("416d4b62", "hex")),
    });
  });

  it("holds no character that PostgreSQL refuses", () => {
    expect(contentOf([part(1, 1, "a\0b")])).toEqual({ text: "ab" });
  });
});

describe("a wish", () => {
  const words = { out: [...OPT_OUT_WORDS, "R"], in: OPT_IN_WORDS };

  it.each([
    "T",
    " td ",
    "ＴＤ",
    "退订",
    "R",
    "退订！",
    "【退订】",
    "Stop. Thank you",
    "td\r\n-- sent from my phone",
  ])("to hear no more is %j", (text) => {
    expect(wishIn(text, words)).toBe("opt_out");
  });

  it.each(["回复T退订了", "请不要TD我的朋友", "STOP 12345", "please don't stop", "", "!!!", "ok"])(
    "is none in %j",
    (text) => {
      expect(wishIn(text, words)).toBeUndefined();
    },
  );

  it("to hear again has words of its own, and one that is in both lists refuses", () => {
    expect(wishIn("start", words)).toBe("opt_in");
    expect(wishIn("R", { out: ["R"], in: ["r"] })).toBe("opt_out");
    expect(wishIn("R", { out: [], in: [] })).toBeUndefined();
  });
});
