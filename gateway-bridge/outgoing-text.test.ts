import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SubmitCommand } from "../domain/command.ts";
import { decodeText } from "../domain/content.ts";
import { describeText, splitText } from "../domain/segment.ts";
import { readUserData } from "./cmpp-text.ts";
import { outgoingText } from "./outgoing-text.ts";

function commandOf(text: string): SubmitCommand {
  const { msgFmt, parts } = splitText(text, 0x2a);
  return {
    submitId: "sub_1",
    attemptId: "att_1",
    messageId: "msg_1",
    channelId: "chn_1",
    supplierId: "sup_1",
    to: "13800138000",
    srcId: "10690001",
    msgFmt,
    parts: parts.map((part) => Buffer.from(part).toString("hex")),
  };
}

const hexOf = (contents: readonly Buffer[]): string[] => contents.map((it) => it.toString("hex"));

describe("a text for a supplier that wants GB characters", () => {
  it("leaves in them, and in UCS2 where the profile says nothing", () => {
    const text = "【测试】验证码1234";
    expect(outgoingText(commandOf(text), "ucs2")).toMatchObject({ msgFmt: 8 });
    const sent = outgoingText(commandOf(text), "gbk");
    expect([sent.msgFmt, hexOf(sent.contents)]).toEqual([15, ["a1beb2e2cad4a1bfd1e9d6a4c2eb31323334"]]);
    expect(outgoingText(commandOf(text), "gb18030")).toEqual(sent);
  });

  it("stays ASCII where it is", () => {
    expect(outgoingText(commandOf("hello"), "gb18030")).toMatchObject({ msgFmt: 0 });
  });

  it("has characters of four bytes only where the supplier reads them (cmpp §17)", () => {
    expect(outgoingText(commandOf("测试😀"), "gbk").msgFmt).toBe(8);
    const sent = outgoingText(commandOf("测试😀"), "gb18030");
    expect([sent.msgFmt, hexOf(sent.contents)]).toEqual([15, ["b2e2cad49439fc36"]]);
  });

  it("stays UCS2 where its characters need more room than it was paid for", () => {
    // Tibetan has two bytes in UCS2 and four in GB18030.
    const most = outgoingText(commandOf("ཀ".repeat(35)), "gb18030");
    expect([most.msgFmt, most.contents[0]?.length]).toEqual([15, 140]);
    expect(outgoingText(commandOf("ཀ".repeat(36)), "gb18030").msgFmt).toBe(8);
    const secondPart = commandOf("测".repeat(67) + "ཀ".repeat(67));
    expect(outgoingText(secondPart, "gb18030").msgFmt).toBe(8);
  });

  it("stays UCS2 where a character would not come back", () => {
    expect(outgoingText({ ...commandOf("测"), parts: ["d83d"] }, "gb18030").msgFmt).toBe(8);
  });

  it("keeps its encoding when the supplier is edited between two of its parts", () => {
    const command = commandOf("测".repeat(71));
    expect(outgoingText(command, "gbk").msgFmt).toBe(15);
    expect(outgoingText(command, "ucs2").msgFmt).toBe(15);
  });

  it("has the parts that it was paid for, whole characters in each, and says the same", () => {
    const text = fc.string({
      unit: fc.oneof(
        fc.constantFrom("测", "试", "A", "1", "😀", "ཀ", "€", "\n"),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
      ),
      maxLength: 300,
    });
    fc.assert(
      fc.property(text, fc.constantFrom("gbk" as const, "gb18030" as const), (said, encoding) => {
        fc.pre(!/\p{Surrogate}|\0/u.test(said));
        const { msgFmt, contents } = outgoingText(commandOf(said), encoding);
        expect(contents.length).toBe(describeText(said).segmentCount);
        const read = contents.map((content, at) => {
          expect(content.length).toBeLessThanOrEqual(msgFmt === 0 ? 159 : 140);
          const { body, part } = readUserData(content, contents.length > 1);
          if (contents.length > 1)
            expect(part).toMatchObject({ reference: 0x2a, total: contents.length, number: at + 1 });
          return decodeText(msgFmt, body);
        });
        // A byte order mark is said too, and read by nobody.
        const unmarked = (it: string): string => it.replaceAll("\ufeff", "");
        expect(unmarked(read.join(""))).toBe(unmarked(said));
      }),
      { numRuns: 500 },
    );
  });
});
