import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describeText, MAX_SEGMENTS, splitText } from "./segment.ts";

const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("hex");
const ascii = (count: number): string => "A".repeat(count);
const chinese = (count: number): string => "测".repeat(count);

describe("what a text costs", () => {
  it.each([
    ["", "ascii", 1],
    ["0123 ~\r\n", "ascii", 1],
    [ascii(159), "ascii", 1],
    [ascii(160), "ascii", 2],
    [ascii(306), "ascii", 2],
    [ascii(307), "ascii", 3],
    ["tab\t", "ucs2", 1],
    ["\x7f", "ucs2", 1],
    ["é", "ucs2", 1],
    [chinese(70), "ucs2", 1],
    [chinese(71), "ucs2", 2],
    [chinese(134), "ucs2", 2],
    [chinese(135), "ucs2", 3],
    [`${ascii(69)}😀`, "ucs2", 2],
    [ascii(153 * 255), "ascii", 255],
    [ascii(153 * 255 + 1), "ascii", 256],
    [chinese(67 * 255), "ucs2", 255],
    [chinese(67 * 255 + 1), "ucs2", 256],
  ] as const)("case %#: counts segments by UTF-16 units (cmpp §8)", (text, encoding, segmentCount) => {
    expect(describeText(text)).toEqual({ encoding, segmentCount });
  });

  it("grows by a part where a pair moves on", () => {
    expect(describeText(`${chinese(66)}😀${chinese(66)}`).segmentCount).toBe(3);
  });
});

describe("splitting", () => {
  it("gives the vectors of cmpp §15", () => {
    expect(splitText("【测试】验证码1234", 0).parts.map(hex)).toEqual([
      "30106d4b8bd530119a8c8bc178010031003200330034",
    ]);
    const long = splitText(`【测试】${chinese(67)}`, 0x2a);
    expect(long).toMatchObject({ msgFmt: 8, udhi: true });
    expect(long.parts.map((part) => [hex(part.slice(0, 6)), part.length])).toEqual([
      ["0500032a0201", 140],
      ["0500032a0202", 14],
    ]);
    const emoji = splitText(`${chinese(66)}😀${chinese(10)}`, 1);
    expect(emoji.parts[0]).toHaveLength(6 + 132);
    expect(hex(emoji.parts[1]?.slice(6, 10))).toBe("d83dde00");
  });

  it("leaves a short text without a header", () => {
    const { msgFmt, udhi, parts } = splitText(" A\r\n", 9);
    expect([msgFmt, udhi, parts.map(hex)]).toEqual([0, false, ["20410d0a"]]);
  });

  it("refuses a text of more parts than a header can count, and a reference over a byte", () => {
    expect(splitText(ascii(153 * MAX_SEGMENTS), 255).parts).toHaveLength(255);
    expect(() => splitText(ascii(153 * MAX_SEGMENTS + 1), 0)).toThrow(RangeError);
    for (const reference of [-1, 256, 0.5, Number.NaN]) {
      expect(() => splitText("A", reference)).toThrow(RangeError);
    }
  });

  it("gives every text back, in parts that fit and that agree with the price", () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 0, max: 255 }), (text, reference) => {
        const { encoding, segmentCount } = describeText(text);
        const { msgFmt, udhi, parts } = splitText(text, reference);
        expect(parts).toHaveLength(segmentCount);
        expect(udhi).toBe(segmentCount > 1);
        expect(msgFmt).toBe(encoding === "ascii" ? 0 : 8);
        const bodies = parts.map((part, index) => {
          if (!udhi) return part;
          expect(Array.from(part.subarray(0, 6))).toEqual([5, 0, 3, reference, segmentCount, index + 1]);
          return part.slice(6);
        });
        for (const part of parts) expect(part.length).toBeLessThanOrEqual(msgFmt === 0 ? 159 : 140);
        expect(bodies.map((body) => decode(body, msgFmt)).join("")).toBe(text);
      }),
    );
  });
});

/** Texts long enough to be cut, with pairs at every offset; ASCII alone as often as anything else. */
const anyText = fc.oneof(
  fc.string({ unit: fc.constantFrom("A", "~", " ", "\r", "\n"), maxLength: 700 }),
  fc.string({ unit: fc.constantFrom("A", "测", "😀", "é"), maxLength: 400 }),
  fc.string({ unit: "binary", maxLength: 300 }),
);

/** Strict, so that a part that begins or ends inside a pair fails. */
function decode(bytes: Uint8Array, msgFmt: 0 | 8): string {
  const encoding = msgFmt === 0 ? "utf-8" : "utf-16be";
  return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(bytes);
}
