import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decode,
  encode,
  submitFields,
  submitPdu,
  type CmppVersion,
  type Deliver,
  type Pdu,
  type SubmitFields,
} from "./cmpp-codec.ts";
import { readDeliver } from "./cmpp-deliver.ts";
import { FieldError } from "./cmpp-fields.ts";
import { Framer, MAX_PDU_BYTES } from "./cmpp-frames.ts";
import { loginMatches, serverAuthenticator, serverMatches, sourceAuthenticator } from "./cmpp-login.ts";
import { MsgIdSource, msgIdFrom } from "./cmpp-msg-id.ts";
import { encodeReceipt, handsetNumber, parseReceipt } from "./cmpp-receipt.ts";
import { readUserData } from "./cmpp-text.ts";
import { loginTimestamp, parseReceiptTime, receiptTime } from "./cmpp-time.ts";

/** cmpp §15; the names are those of its lines. */
const VECTORS = {
  connect20: "0000002700000001000000013931303030311de00c152907797ae0e3d03b76b0db87202fbfb58d",
  connect30: "0000002700000001000000013931303030311de00c152907797ae0e3d03b76b0db87302fbfb58d",
  connectResp20: "0000001e8000000100000001001666f586033602ec1310841d30dd6a6a20",
  connectResp30: "00000021800000010000000100000000f6aad4fcd042276def8f6bcb61ed541130",
  connectResp20Auth: "0000001e8000000100000001030000000000000000000000000000000020",
  connectResp30Auth: "000000218000000100000001000000030000000000000000000000000000000030",
  submit20:
    "000000b500000004000000020000000000000000010101014d54303030310000000002000000000000000000000000000000000000000000000008393130303031303130303030303000000000000000000000000000000000000000000000000000000000000000000000313036393030303100000000000000000000000000013133383030313338303030000000000000000000001630106d4b8bd530119a8c8bc1780100310032003300340000000000000000",
  submit30:
    "000000d900000004000000020000000000000000010101014d54303030310000000002000000000000000000000000000000000000000000000000000000000000000000000008393130303031303130303030303000000000000000000000000000000000000000000000000000000000000000000000313036393030303100000000000000000000000000013133383030313338303030000000000000000000000000000000000000000000001630106d4b8bd530119a8c8bc1780100310032003300340000000000000000000000000000000000000000",
  submitResp20: "00000015800000040000000280a5e141e240000700",
  submitResp30: "00000018800000040000000280a5e141e240000700000000",
  submitResp20Throttled: "000000158000000400000002000000000000000008",
  submitResp30Throttled: "000000188000000400000002000000000000000000000008",
  receipt20:
    "00000091000000050000000980a5f081e24000083130363930303031000000000000000000000000004d543030303100000000000000313338303031333830303000000000000000000000013c80a5e141e240000744454c495652443236303830313039333032363038303130393331313338303031333830303000000000000000000000010203040000000000000000",
  receipt30:
    "000000b4000000050000000980a5f081e24000083130363930303031000000000000000000000000004d543030303100000000000000313338303031333830303000000000000000000000000000000000000000000000014780a5e141e240000744454c4956524432363038303130393330323630383031303933313133383030313338303030000000000000000000000000000000000000000000010203040000000000000000000000000000000000000000",
  receipt60In30:
    "000000a9000000050000000980a5f081e24000083130363930303031000000000000000000000000004d543030303100000000000000313338303031333830303000000000000000000000000000000000000000000000013c80a5e141e240000744454c495652443236303830313039333032363038303130393331313338303031333830303000000000000000000000010203040000000000000000000000000000000000000000",
  inbound20:
    "00000057000000050000000a80a5f081e24000083130363930303031000000000000000000000000004d543030303100000000000000313338303031333830303000000000000000000000000254440000000000000000",
  inbound30:
    "0000006f000000050000000a80a5f081e24000083130363930303031000000000000000000000000004d543030303100000000000000313338303031333830303000000000000000000000000000000000000000000000000254440000000000000000000000000000000000000000",
  deliverResp20: "00000015800000050000000980a5f081e240000800",
  deliverResp30: "00000018800000050000000980a5f081e240000800000000",
  activeTest: "0000000c000000080000000b",
  activeTestResp: "0000000d800000080000000b00",
  terminate: "0000000c000000020000000c",
  terminateResp: "0000000c800000020000000c",
  query: "00000027000000060000000d323032363038303100000000000000000000000000000000000000",
  cancel: "00000014000000070000000e80a5e141e2400007",
  cancelResp20: "0000000d800000070000000e00",
  cancelResp30: "00000010800000070000000e00000000",
};

const SECRET = "s3cr3t";
const TIMESTAMP = "0801093005";
const SOURCE = Buffer.from("1de00c152907797ae0e3d03b76b0db87", "hex");
const SUBMIT_MSG_ID = "80a5e141e2400007";
const DELIVER_MSG_ID = "80a5f081e2400008";
const NO_DIGEST = Buffer.alloc(16);

const textFields = submitFields({
  serviceId: "MT0001",
  msgSrc: "910001",
  srcId: "10690001",
  destinations: ["13800138000"],
  msgFmt: 8,
  content: Buffer.from("【测试】验证码1234", "utf16le").swap16(),
});

function deliverPdu(fields: Partial<Deliver>): Deliver {
  return {
    command: "deliver",
    sequenceId: 9,
    msgId: DELIVER_MSG_ID,
    destId: "10690001",
    serviceId: "MT0001",
    tpPid: 0,
    udhi: 0,
    msgFmt: 0,
    sourceNumber: "13800138000",
    sourceType: 0,
    registeredDelivery: 1,
    content: Buffer.alloc(0),
    linkId: "",
    ...fields,
  };
}

const receiptContent = (version: CmppVersion): Buffer =>
  encodeReceipt(
    {
      msgId: SUBMIT_MSG_ID,
      stat: "DELIVRD",
      submitTime: new Date("2026-08-01T09:30:00+08:00"),
      doneTime: new Date("2026-08-01T09:31:00+08:00"),
      number: "13800138000",
      smscSequence: 0x01020304,
    },
    version,
  );

const connectPdu = (version: number): Pdu => ({
  command: "connect",
  sequenceId: 1,
  sourceAddr: "910001",
  authenticator: SOURCE,
  version,
  timestamp: TIMESTAMP,
});
const connectResp = (status: number, version: 0x20 | 0x30): Pdu => ({
  command: "connect_resp",
  sequenceId: 1,
  status,
  authenticator: status === 0 ? serverAuthenticator(0, SOURCE, SECRET, version === 0x20 ? 1 : 4) : NO_DIGEST,
  version,
});
const inbound = deliverPdu({ sequenceId: 10, registeredDelivery: 0, content: Buffer.from("TD") });

const CASES: [name: keyof typeof VECTORS, version: CmppVersion, pdu: Pdu][] = [
  ["connect20", "2.0", connectPdu(0x20)],
  ["connect30", "3.0", connectPdu(0x30)],
  ["connectResp20", "2.0", connectResp(0, 0x20)],
  ["connectResp30", "3.0", connectResp(0, 0x30)],
  ["connectResp20Auth", "2.0", connectResp(3, 0x20)],
  ["connectResp30Auth", "3.0", connectResp(3, 0x30)],
  ["submit20", "2.0", submitPdu(2, textFields)],
  ["submit30", "3.0", submitPdu(2, textFields)],
  ["submitResp20", "2.0", { command: "submit_resp", sequenceId: 2, msgId: SUBMIT_MSG_ID, result: 0 }],
  ["submitResp30", "3.0", { command: "submit_resp", sequenceId: 2, msgId: SUBMIT_MSG_ID, result: 0 }],
  [
    "submitResp20Throttled",
    "2.0",
    { command: "submit_resp", sequenceId: 2, msgId: "0".repeat(16), result: 8 },
  ],
  [
    "submitResp30Throttled",
    "3.0",
    { command: "submit_resp", sequenceId: 2, msgId: "0".repeat(16), result: 8 },
  ],
  ["receipt20", "2.0", deliverPdu({ content: receiptContent("2.0") })],
  ["receipt30", "3.0", deliverPdu({ content: receiptContent("3.0") })],
  ["receipt60In30", "3.0", deliverPdu({ content: receiptContent("2.0") })],
  ["inbound20", "2.0", inbound],
  ["inbound30", "3.0", inbound],
  ["deliverResp20", "2.0", { command: "deliver_resp", sequenceId: 9, msgId: DELIVER_MSG_ID, result: 0 }],
  ["deliverResp30", "3.0", { command: "deliver_resp", sequenceId: 9, msgId: DELIVER_MSG_ID, result: 0 }],
  ["activeTest", "2.0", { command: "active_test", sequenceId: 11 }],
  ["activeTestResp", "3.0", { command: "active_test_resp", sequenceId: 11 }],
  ["terminate", "2.0", { command: "terminate", sequenceId: 12 }],
  ["terminateResp", "3.0", { command: "terminate_resp", sequenceId: 12 }],
  ["query", "3.0", { command: "query", sequenceId: 13, time: "20260801", queryType: 0, queryCode: "" }],
  ["cancel", "2.0", { command: "cancel", sequenceId: 14, msgId: SUBMIT_MSG_ID }],
  ["cancelResp20", "2.0", { command: "cancel_resp", sequenceId: 14, result: 0 }],
  ["cancelResp30", "3.0", { command: "cancel_resp", sequenceId: 14, result: 0 }],
];

describe("the vectors of cmpp §15", () => {
  it.each(CASES)("writes %s", (name, version, pdu) => {
    expect(encode(pdu, version).toString("hex")).toBe(VECTORS[name]);
  });

  it.each(CASES)("reads %s", (name, version, pdu) => {
    expect(decode(Buffer.from(VECTORS[name], "hex"), version)).toEqual({ ok: true, pdu });
  });

  it("covers every vector", () => {
    expect(new Set(CASES.map(([name]) => name))).toEqual(new Set(Object.keys(VECTORS)));
  });

  it.each([
    ["2.0", 159, 2376],
    ["2.0", 160, 2377],
    ["3.0", 159, 3490],
    ["3.0", 160, 3491],
  ] as const)("writes 99 numbers in %s with %i bytes in %i bytes", (version, content, size) => {
    const fields: SubmitFields = {
      ...textFields,
      msgFmt: 0,
      content: Buffer.alloc(content, 0x61),
      destinations: Array.from({ length: 99 }, () => "13800138000"),
    };
    const bytes = encode(submitPdu(2, fields), version);
    expect(bytes.length).toBe(size);
    expect(new Framer().push(bytes).frames).toEqual([bytes]);
  });
});

describe("login digests", () => {
  it("agree with the value that gocmpp publishes", () => {
    expect(sourceAuthenticator("900001", "888888", "1021080510").toString("hex")).toBe(
      "90d00c1d517abd0b4f65f6bcf8535d16",
    );
  });

  it("take a short login padded or bare (cmpp §4.1)", () => {
    const padded = sourceAuthenticator("9101", SECRET, TIMESTAMP, "padded");
    const bare = sourceAuthenticator("9101", SECRET, TIMESTAMP, "bare");
    expect(padded.toString("hex")).toBe("fb9822f65d9f4006f92ac0ae5ac231ba");
    expect(bare.toString("hex")).toBe("b3202a67f7b3667caa8f75fcf93d0967");
    for (const authenticator of [padded, bare]) {
      expect(loginMatches({ sourceAddr: "9101", timestamp: TIMESTAMP, authenticator }, SECRET)).toBe(true);
      expect(loginMatches({ sourceAddr: "9101", timestamp: TIMESTAMP, authenticator }, "other")).toBe(false);
    }
  });

  it("accept a server that hashes four bytes of status in 2.0 (cmpp §4.2)", () => {
    const fourBytes = Buffer.from("f6aad4fcd042276def8f6bcb61ed5411", "hex");
    const oneByte = Buffer.from("1666f586033602ec1310841d30dd6a6a", "hex");
    expect(serverAuthenticator(0, SOURCE, SECRET, 4)).toEqual(fourBytes);
    for (const authenticator of [fourBytes, oneByte]) {
      expect(serverMatches({ status: 0, authenticator }, SOURCE, SECRET)).toBe(true);
    }
    expect(serverMatches({ status: 0, authenticator: NO_DIGEST }, SOURCE, SECRET)).toBe(false);
  });

  it("write the time of Beijing with its leading zero", () => {
    expect(loginTimestamp(new Date("2026-08-01T01:30:05Z"))).toBe(TIMESTAMP);
  });
});

describe("Msg_Id", () => {
  const parts = { month: 8, day: 1, hour: 9, minute: 30, second: 5, gateway: 123456, sequence: 7 };

  /** MMDDHHMMSS, gateway and sequence: the 22 digits that other gateways log. */
  const digitsOf = (hex: string): string => {
    const bits = BigInt(`0x${hex}`).toString(2).padStart(64, "0");
    const field = (from: number, to: number, digits: number): string =>
      String(Number.parseInt(bits.slice(from, to), 2)).padStart(digits, "0");
    const clock = [field(0, 4, 2), field(4, 9, 2), field(9, 14, 2), field(14, 20, 2), field(20, 26, 2)];
    return [...clock, field(26, 48, 7), field(48, 64, 5)].join("");
  };

  it("has the bits of cmpp §10", () => {
    expect(msgIdFrom(parts)).toBe(SUBMIT_MSG_ID);
    expect(BigInt(`0x${SUBMIT_MSG_ID}`)).toBe(9270063081097003015n);
    expect(digitsOf(SUBMIT_MSG_ID)).toBe("0801093005012345600007");
    const max = { month: 12, day: 31, hour: 23, minute: 59, second: 59, gateway: 4194303, sequence: 65535 };
    expect(msgIdFrom(max)).toBe("cfdfbeffffffffff");
    const min = { month: 1, day: 1, hour: 0, minute: 0, second: 0, gateway: 0, sequence: 0 };
    expect(msgIdFrom(min)).toBe("1080000000000000");
  });

  it("refuses a part that does not fit its bits", () => {
    expect(() => msgIdFrom({ ...parts, gateway: 4194304 })).toThrow(RangeError);
    expect(() => msgIdFrom({ ...parts, sequence: -1 })).toThrow(RangeError);
  });

  it("is issued once, over 65,536 in a second and with a clock that goes back", () => {
    let now = Date.parse("2026-08-01T01:30:05Z");
    const source = new MsgIdSource(123456, () => now);
    const ids = new Set<string>();
    for (let i = 0; i < 70_000; i++) ids.add(source.next());
    now -= 60_000;
    for (let i = 0; i < 70_000; i++) ids.add(source.next());
    expect(ids.size).toBe(140_000);
    expect([...ids].filter((id) => !/^[0-9a-f]{16}$/.test(id))).toEqual([]);
    expect(ids.has(SUBMIT_MSG_ID)).toBe(true);
  });
});

describe("writing is strict", () => {
  it.each<[string, Partial<SubmitFields>]>([
    ["Src_Id of 22 digits", { srcId: "1".repeat(22) }],
    ["Service_Id of 11", { serviceId: "a".repeat(11) }],
    ["Msg_src of 7", { msgSrc: "9100011" }],
    ["no number", { destinations: [] }],
    ["100 numbers", { destinations: Array.from({ length: 100 }, () => "13800138000") }],
    ["141 bytes of UCS2", { content: Buffer.alloc(141) }],
    ["161 bytes of ASCII", { msgFmt: 0, content: Buffer.alloc(161) }],
    ["part 256", { pkNumber: 256 }],
    ["a number that is not ASCII", { destinations: ["１３８００１３８０００"] }],
  ])("and refuses %s", (_, fields) => {
    for (const version of ["2.0", "3.0"] as const) {
      expect(() => encode(submitPdu(2, { ...textFields, ...fields }), version)).toThrow(FieldError);
    }
  });

  it("allows a number of 32 characters in 3.0 and of 21 in 2.0", () => {
    const submit = (length: number): Pdu =>
      submitPdu(2, { ...textFields, destinations: ["1".repeat(length)] });
    expect(encode(submit(32), "3.0").length).toBe(217);
    expect(encode(submit(21), "2.0").length).toBe(181);
    expect(() => encode(submit(22), "2.0")).toThrow(FieldError);
  });

  it("names the field and never the value", () => {
    expect(() => encode(submitPdu(2, { ...textFields, srcId: "9".repeat(22) }), "3.0")).toThrow(
      /^field_too_long: Src_Id$/,
    );
  });
});

describe("reading tolerates what gateways send (cmpp §14)", () => {
  const withLength = (bytes: Buffer): Buffer => {
    const copy = Buffer.from(bytes);
    copy.writeUInt32BE(copy.length, 0);
    return copy;
  };
  const vector = (name: keyof typeof VECTORS): Buffer => Buffer.from(VECTORS[name], "hex");

  it("CONNECT_RESP in the size of the other version (2)", () => {
    expect(decode(vector("connectResp20"), "3.0")).toMatchObject({
      ok: true,
      pdu: { status: 0, version: 0x20 },
    });
    expect(decode(vector("connectResp30Auth"), "2.0")).toMatchObject({
      ok: true,
      pdu: { status: 3, version: 0x30 },
    });
  });

  it("a refusal that is a bare status (2)", () => {
    for (const size of [1, 4]) {
      const frame = vector("connectResp30Auth").subarray(0, 12 + size);
      if (size === 1) frame.writeUInt8(3, 12);
      expect(decode(withLength(frame), "3.0")).toMatchObject({ ok: true, pdu: { status: 3 } });
    }
  });

  it("ACTIVE_TEST_RESP without a body (3)", () => {
    const bare = withLength(vector("activeTestResp").subarray(0, 12));
    expect(decode(bare, "3.0")).toMatchObject({ ok: true, pdu: { command: "active_test_resp" } });
  });

  it("results of one and four bytes in either version (18), and no failure that reads as success", () => {
    expect(decode(vector("cancelResp30"), "2.0")).toMatchObject({ ok: true, pdu: { result: 0 } });
    expect(decode(vector("cancelResp20"), "3.0")).toMatchObject({ ok: true, pdu: { result: 0 } });
    expect(decode(vector("submitResp30Throttled"), "2.0")).toMatchObject({ ok: true, pdu: { result: 8 } });
    expect(decode(vector("submitResp20Throttled"), "3.0")).toMatchObject({ ok: true, pdu: { result: 8 } });
  });

  it("a tail that is shorter or longer than the version's (20)", () => {
    for (const name of ["submit20", "submit30", "inbound20", "inbound30"] as const) {
      const version = name.endsWith("20") ? "2.0" : "3.0";
      const whole = decode(vector(name), version);
      const short = decode(withLength(vector(name).subarray(0, -5)), version);
      const long = decode(withLength(Buffer.concat([vector(name), Buffer.alloc(9)])), version);
      expect(short).toEqual({ ...whole, note: "short_tail" });
      expect(long).toEqual(whole);
    }
  });

  it("a SUBMIT whose content is cut or whose numbers are none is malformed, and says which", () => {
    const cut = withLength(vector("submit30").subarray(0, 217 - 21));
    expect(decode(cut, "3.0")).toMatchObject({ ok: false, why: "content_cut", sequenceId: 2 });
    const none = vector("submit30");
    none.writeUInt8(0, 140);
    expect(decode(none, "3.0")).toMatchObject({ ok: false, why: "destination_count" });
    none.writeUInt8(100, 140);
    expect(decode(none, "3.0")).toMatchObject({ ok: false, why: "destination_count" });
  });

  it("an unknown command is said to be one", () => {
    const frame = vector("activeTest");
    frame.writeUInt32BE(0x99, 4);
    expect(decode(frame, "3.0")).toEqual({
      ok: false,
      why: "unknown_command",
      commandId: 0x99,
      sequenceId: 11,
    });
  });

  it("spaces and garbage behind a NUL do not belong to a text", () => {
    const frame = vector("inbound30");
    frame.write("  10690001 \0junk", 20, "latin1");
    expect(decode(frame, "3.0")).toMatchObject({ ok: true, pdu: { destId: "10690001" } });
  });
});

describe("receipts", () => {
  const expected = {
    msgId: SUBMIT_MSG_ID,
    stat: "DELIVRD",
    submitTime: new Date("2026-08-01T01:30:00Z"),
    doneTime: new Date("2026-08-01T01:31:00Z"),
    number: "13800138000",
  };
  const receiptIn = (frame: Buffer, version: CmppVersion) => {
    const decoded = decode(frame, version);
    if (!decoded.ok || decoded.pdu.command !== "deliver") throw new Error("not a DELIVER");
    return readDeliver(decoded.pdu, frame);
  };
  const receiptFrame = (content: Buffer, version: CmppVersion): Buffer =>
    encode(deliverPdu({ content }), version);

  it("of 60 and 71 bytes are read in both versions (cmpp §14, 1)", () => {
    for (const version of ["2.0", "3.0"] as const) {
      for (const size of ["2.0", "3.0"] as const) {
        expect(receiptIn(receiptFrame(receiptContent(size), version), version)).toMatchObject({
          kind: "receipt",
          srcId: "10690001",
          deliverMsgId: DELIVER_MSG_ID,
          ...expected,
        });
      }
    }
  });

  it("whose frame is 11 bytes short are read, whichever field lost them (cmpp §5)", () => {
    const frame = receiptFrame(receiptContent("3.0"), "3.0").subarray(0, 169);
    frame.writeUInt32BE(169, 0);
    expect(receiptIn(frame, "3.0")).toMatchObject({ kind: "receipt", ...expected });
    const cut = receiptFrame(receiptContent("3.0"), "3.0").subarray(0, 89 + 50);
    cut.writeUInt32BE(cut.length, 0);
    expect(receiptIn(cut, "3.0")).toMatchObject({ kind: "receipt", ...expected });
  });

  it("of an unusual length are read when their times are digits", () => {
    const content = Buffer.concat([receiptContent("2.0"), Buffer.alloc(5)]);
    expect(parseReceipt(content)).toMatchObject({ ok: true, receipt: expected });
    expect(parseReceipt(content.subarray(0, 46))).toMatchObject({ ok: true, receipt: expected });
    content.write("          ", 15, "latin1");
    expect(parseReceipt(content)).toEqual({ ok: false, why: "not_a_receipt" });
  });

  it("tell the time by the clocks of their supplier (cmpp §14, 13)", () => {
    const reading = (timeZone: string) => ({ timeZone, receiptBytes: "by_length" as const });
    const at = (timeZone: string) => {
      const parsed = parseReceipt(receiptContent("2.0"), reading(timeZone));
      return parsed.ok ? parsed.receipt.doneTime : undefined;
    };
    expect(at("Asia/Shanghai")).toEqual(new Date("2026-08-01T01:31:00Z"));
    expect(at("UTC")).toEqual(new Date("2026-08-01T09:31:00Z"));
    expect(at("America/St_Johns")).toEqual(new Date("2026-08-01T12:01:00Z"));
    // An hour that the clocks of Berlin leave out, and one that they show twice.
    expect(parseReceiptTime("2603290230", "Europe/Berlin")).toBeNull();
    expect(parseReceiptTime("2610250230", "Europe/Berlin")).not.toBeNull();
    fc.assert(
      fc.property(fc.integer({ min: 946_684_800, max: 4_000_000_000 }), (seconds) => {
        const minute = new Date(Math.floor(seconds / 60) * 60_000);
        expect(parseReceiptTime(receiptTime(minute))).toEqual(minute);
        expect(parseReceiptTime(receiptTime(minute), "Asia/Singapore")).toEqual(minute);
      }),
    );
  });

  it("have a number no longer than its field, whatever follows it (cmpp §5)", () => {
    const pseudo = "9".repeat(32);
    const content = receiptContent("3.0");
    content.write(`${pseudo}1234`, 35, "latin1");
    expect(parseReceipt(content)).toMatchObject({ ok: true, receipt: { number: pseudo } });
    const odd = Buffer.concat([content, Buffer.from("77")]);
    const numberIn = (receiptBytes: "by_length" | 60 | 71) => {
      const parsed = parseReceipt(odd, { timeZone: "UTC", receiptBytes });
      return parsed.ok ? parsed.receipt.number.length : undefined;
    };
    expect([numberIn("by_length"), numberIn(71), numberIn(60)]).toEqual([38, 32, 21]);
  });

  it("say no time where the supplier wrote none (cmpp §14, 13)", () => {
    for (const blank of ["0000000000", "          ", "26130109xx", "2613010930", "\0\0\0\0\0\0\0\0\0\0"]) {
      const content = receiptContent("2.0");
      content.write(blank, 25, "latin1");
      expect(parseReceipt(content)).toMatchObject({ ok: true, receipt: { ...expected, doneTime: null } });
    }
    expect(parseReceiptTime(receiptTime(expected.doneTime))).toEqual(expected.doneTime);
  });

  it("have their state in one spelling (cmpp §14, 12)", () => {
    for (const written of ["delivrd", "MK:1\0\0\0", " UNDEL ", "\0\0\0\0\0\0\0"]) {
      const content = receiptContent("3.0");
      content.write(written, 8, "latin1");
      const stat = written.replaceAll("\0", "").trim().toUpperCase();
      expect(parseReceipt(content)).toMatchObject({ ok: true, receipt: { stat } });
    }
  });

  it("have their number without a country code, and from outside when it is empty (cmpp §14, 21)", () => {
    for (const written of ["8613800138000", "+8613800138000", "008613800138000", "13800138000"]) {
      expect(handsetNumber(written)).toBe("13800138000");
      const content = receiptContent("2.0");
      content.fill(0, 35, 56).write(written, 35, "latin1");
      expect(parseReceipt(content)).toMatchObject({ ok: true, receipt: { number: "13800138000" } });
    }
    const empty = receiptContent("3.0");
    empty.fill(0, 35, 67);
    expect(receiptIn(receiptFrame(empty, "3.0"), "3.0")).toMatchObject({ number: "13800138000" });
  });

  it("that are none are kept raw as malformed", () => {
    const frame = receiptFrame(Buffer.from("hello"), "3.0");
    expect(receiptIn(frame, "3.0")).toEqual({ kind: "malformed", why: "not_a_receipt", raw: frame });
  });
});

describe("inbound texts", () => {
  const read = (fields: Partial<Deliver>) =>
    readDeliver(deliverPdu({ registeredDelivery: 0, ...fields }), Buffer.alloc(0));

  it("lose the header of a long text, announced by either bit (cmpp §14, 4)", () => {
    for (const udhi of [0x01, 0x40]) {
      expect(read({ udhi, msgFmt: 8, content: Buffer.from("0500032a02016d4b", "hex") })).toMatchObject({
        kind: "inbound",
        content: Buffer.from("6d4b", "hex"),
        part: { reference: 0x2a, referenceBits: 8, total: 2, number: 1 },
      });
    }
  });

  it("find the reference among other elements, and in 16 bits", () => {
    const long = Buffer.from("0c05041582000008040102030141", "hex");
    expect(readUserData(long, true)).toEqual({
      part: { reference: 0x0102, referenceBits: 16, total: 3, number: 1 },
      body: Buffer.from("A"),
    });
    const elementCut = Buffer.from("040003410241", "hex");
    expect(readUserData(elementCut, true)).toEqual({ body: Buffer.from("A") });
  });

  it("are taken whole when the announced header is none, and single when its numbers make no sense", () => {
    const plain = Buffer.from("hello");
    expect(readUserData(plain, true)).toEqual({ body: plain, headerIgnored: true });
    for (const counts of ["0000", "0200", "0203", "0101"]) {
      const content = Buffer.from(`0500032a${counts}41`, "hex");
      expect(readUserData(content, true)).toEqual({ body: Buffer.from("A") });
    }
  });
});

describe("framing", () => {
  const stream = Buffer.concat(CASES.map(([name]) => Buffer.from(VECTORS[name], "hex")));
  const frames = CASES.map(([name]) => VECTORS[name]);
  const asHex = (buffers: Buffer[]): string[] => buffers.map((buffer) => buffer.toString("hex"));

  it("finds the same PDUs however the stream is cut (cmpp §14, 14)", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1 }), (sizes) => {
        const framer = new Framer();
        const found: string[] = [];
        for (let at = 0, i = 0; at < stream.length; i++) {
          const size = sizes[i % sizes.length] ?? 1;
          found.push(...asHex(framer.push(stream.subarray(at, at + size)).frames));
          at += size;
        }
        expect(found).toEqual(frames);
      }),
    );
  });

  it.each([
    ["0000000b", "length_below_header"],
    ["00001001", "length_above_max"],
    [Buffer.from("GET / HTTP/1.1\r\n").toString("hex"), "length_above_max"],
  ])("gives up at the length %s, after the PDUs before it", (start, broken) => {
    const framer = new Framer();
    const chunk = Buffer.concat([stream, Buffer.from(start.padEnd(24, "0"), "hex")]);
    const result = framer.push(chunk);
    expect(asHex(result.frames)).toEqual(frames);
    expect(result.broken).toBe(broken);
    expect(framer.push(stream)).toEqual({ frames: [], broken });
  });

  it("copies nothing of a PDU that one chunk holds whole, and only a cut one of the others", () => {
    const framer = new Framer();
    // Not from Node's pool, which small buffers share.
    const chunk = Buffer.alloc(30 + stream.length);
    chunk.writeUInt32BE(30, 0);
    stream.copy(chunk, 30);
    const [cutBefore, ...whole] = framer
      .push(chunk.subarray(0, 7))
      .frames.concat(framer.push(chunk.subarray(7)).frames);
    expect(cutBefore?.buffer === chunk.buffer).toBe(false);
    expect(asHex(whole)).toEqual(frames);
    for (const frame of whole) expect(frame.buffer).toBe(chunk.buffer);
  });

  it("takes a PDU of the greatest length", () => {
    const longest = Buffer.alloc(MAX_PDU_BYTES);
    longest.writeUInt32BE(MAX_PDU_BYTES, 0);
    expect(new Framer().push(longest).frames).toEqual([longest]);
  });
});

describe("arbitrary input", () => {
  const version = fc.constantFrom<CmppVersion[]>("2.0", "3.0");

  it("is never answered with an exception", () => {
    const names = fc.constantFrom(...CASES.map(([name]) => VECTORS[name]));
    const cutOrSpoilt = fc
      .tuple(names, fc.nat(250), fc.array(fc.tuple(fc.nat(250), fc.nat(255)), { maxLength: 5 }))
      .map(([hex, cut, spoils]) => {
        const bytes = Buffer.from(hex, "hex").subarray(0, Math.max(0, hex.length / 2 - cut));
        for (const [at, value] of spoils) if (at < bytes.length) bytes.writeUInt8(value, at);
        return bytes;
      });
    const noise = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(noise, cutOrSpoilt), version, (bytes, spoken) => {
        const decoded = decode(bytes, spoken);
        if (decoded.ok && decoded.pdu.command === "deliver") readDeliver(decoded.pdu, bytes);
        parseReceipt(bytes);
        readUserData(bytes, true);
        new Framer().push(bytes);
      }),
      { numRuns: 3_000 },
    );
  });

  it("is read to the end of its frame and never beyond (cmpp §2)", () => {
    const names = fc.constantFrom(...CASES.map(([name]) => VECTORS[name]));
    const around = fc.uint8Array({ minLength: 40, maxLength: 40 });
    fc.assert(
      fc.property(names, fc.nat(200), fc.nat(255), version, around, (hex, cut, length, spoken, bytes) => {
        const frame = Buffer.from(hex, "hex").subarray(0, Math.max(12, hex.length / 2 - cut));
        // A Msg_Length that promises more than there is.
        for (const at of [76, 88, 129 + 21, 142 + 32]) if (at < frame.length) frame.writeUInt8(length, at);
        const inside = Buffer.concat([bytes, frame, bytes]).subarray(40, 40 + frame.length);
        const found = decode(inside, spoken);
        expect(found).toEqual(decode(Buffer.from(frame), spoken));
        if (!found.ok || found.pdu.command !== "deliver") return;
        expect(readDeliver(found.pdu, inside)).toEqual(readDeliver(found.pdu, Buffer.from(frame)));
      }),
      { numRuns: 2_000 },
    );
  });

  it("survives writing and reading again", () => {
    const ascii = (maxLength: number) =>
      fc.string({ unit: fc.constantFrom("0", "1", "9", "A", "Z", "a", ":"), maxLength });
    const byte = fc.integer({ min: 0, max: 255 });
    const fields = fc.record({
      pkTotal: byte,
      pkNumber: byte,
      registeredDelivery: byte,
      msgLevel: byte,
      serviceId: ascii(10),
      feeUserType: byte,
      feeTerminalId: ascii(21),
      tpPid: byte,
      udhi: fc.boolean(),
      msgFmt: byte,
      msgSrc: ascii(6),
      feeType: ascii(2),
      feeCode: ascii(6),
      validTime: ascii(17),
      atTime: ascii(17),
      srcId: ascii(21),
      destinations: fc.array(ascii(21), { minLength: 1, maxLength: 99 }),
      content: fc.uint8Array({ maxLength: 140 }).map((bytes) => Buffer.from(bytes)),
    });
    fc.assert(
      fc.property(fields, version, fc.integer({ min: 0, max: 0xffffffff }), (given, spoken, sequenceId) => {
        const pdu = submitPdu(sequenceId, submitFields(given));
        expect(decode(encode(pdu, spoken), spoken)).toEqual({ ok: true, pdu });
      }),
    );
  });
});
