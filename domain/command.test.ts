import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseCommand, type SubmitCommand } from "./command.ts";

const command: SubmitCommand = {
  submitId: "sub_1",
  attemptId: "att_1",
  messageId: "msg_1",
  channelId: "chn_1",
  supplierId: "sup_1",
  to: "13800000000",
  srcId: "10690001",
  msgFmt: 8,
  parts: ["0500030102010041", "0500030102020042"],
};

const parsed = (change: object) => parseCommand(JSON.stringify({ ...command, ...change }));

describe("a stored command", () => {
  it("reads back as it was written", () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 255 }), { minLength: 1, maxLength: 255 }),
        fc.constantFrom(0, 8),
        (contents, msgFmt) => {
          const parts = contents.map((it) => Buffer.from(it).toString("hex"));
          expect(parsed({ parts, msgFmt })).toEqual({ ok: true, command: { ...command, parts, msgFmt } });
        },
      ),
      { numRuns: 20 },
    );
  });

  it.each([
    ["no text", { to: 13_800_000_000 }],
    ["an empty id", { submitId: "" }],
    ["a missing id", { attemptId: undefined }],
    ["another format", { msgFmt: 15 }],
    ["no part", { parts: [] }],
    ["too many parts", { parts: Array.from({ length: 256 }, () => "41") }],
    ["half a byte", { parts: ["414"] }],
    ["what is no hex", { parts: ["zz"] }],
    ["more than a part can hold", { parts: ["41".repeat(256)] }],
    ["a part that is no string", { parts: [41] }],
  ])("with %s is malformed (C7)", (_, change) => {
    expect(parsed(change)).toEqual({ ok: false, why: "malformed_payload" });
  });

  it("never throws, whatever bytes were stored (C7)", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (payload) => {
        expect(parseCommand(payload)).toMatchObject({ ok: false });
      }),
    );
  });
});
