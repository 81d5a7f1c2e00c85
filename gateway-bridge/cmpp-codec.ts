/**
 * CMPP 2.0 and 3.0 PDUs ↔ values (cmpp §3, §4). Bytes in, values out, no I/O.
 *
 * Encoding is strict: a value that does not fit throws FieldError, before anything is sent. Decoding is
 * tolerant of what gateways in the field send (cmpp §14) and never throws.
 */
import { FieldError, FieldReader, FieldWriter } from "./cmpp-fields.ts";
import { HEADER_BYTES } from "./cmpp-frames.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";

export type CmppVersion = "2.0" | "3.0";

const COMMAND_IDS = {
  connect: 0x00000001,
  connect_resp: 0x80000001,
  terminate: 0x00000002,
  terminate_resp: 0x80000002,
  submit: 0x00000004,
  submit_resp: 0x80000004,
  deliver: 0x00000005,
  deliver_resp: 0x80000005,
  query: 0x00000006,
  query_resp: 0x80000006,
  cancel: 0x00000007,
  cancel_resp: 0x80000007,
  active_test: 0x00000008,
  active_test_resp: 0x80000008,
} as const;
export type CommandName = keyof typeof COMMAND_IDS;

const COMMAND_NAMES = new Map<number, CommandName>(
  (Object.entries(COMMAND_IDS) as [CommandName, number][]).map(([name, id]) => [id, name]),
);

/** In what the two versions differ (cmpp §4.11). `tail` is Reserve in 2.0, LinkID in 3.0. */
interface Layout {
  versionByte: number;
  status: 1 | 4;
  number: 21 | 32;
  numberType: 0 | 1;
  tail: 8 | 20;
}
const LAYOUTS: Record<CmppVersion, Layout> = {
  "2.0": { versionByte: 0x20, status: 1, number: 21, numberType: 0, tail: 8 },
  "3.0": { versionByte: 0x30, status: 4, number: 32, numberType: 1, tail: 20 },
};

export const versionByte = (version: CmppVersion): number => LAYOUTS[version].versionByte;

/** Bytes of a status on the wire, which is also how it enters the server's digest. */
export const statusBytes = (version: CmppVersion): 1 | 4 => LAYOUTS[version].status;

export interface Connect {
  command: "connect";
  sequenceId: number;
  sourceAddr: string;
  authenticator: Buffer;
  /** High nibble major, low nibble minor. */
  version: number;
  /** Ten digits. */
  timestamp: string;
}

export interface ConnectResp {
  command: "connect_resp";
  sequenceId: number;
  status: number;
  authenticator: Buffer;
  /** The highest version that the server speaks. */
  version: number;
}

/** Everything of a SUBMIT that its sender decides. */
export interface SubmitFields {
  pkTotal: number;
  pkNumber: number;
  registeredDelivery: number;
  msgLevel: number;
  serviceId: string;
  feeUserType: number;
  feeTerminalId: string;
  feeTerminalType: number;
  tpPid: number;
  /** True: the content begins with a user data header. */
  udhi: boolean;
  msgFmt: number;
  msgSrc: string;
  feeType: string;
  feeCode: string;
  validTime: string;
  atTime: string;
  srcId: string;
  /** 1 to 99 numbers; we never send more than one (cmpp §4.4). */
  destinations: string[];
  destinationType: number;
  content: Buffer;
  linkId: string;
}

export interface Submit extends SubmitFields {
  command: "submit";
  sequenceId: number;
  /** Zero when an SP sends it; 16 hex characters. */
  msgId: string;
}

export interface SubmitResp {
  command: "submit_resp";
  sequenceId: number;
  msgId: string;
  result: number;
}

export interface Deliver {
  command: "deliver";
  sequenceId: number;
  /** Of this DELIVER, not of the text that a receipt tells about. */
  msgId: string;
  destId: string;
  serviceId: string;
  tpPid: number;
  /** As on the wire: 0x01, or 0x40 from gateways that leak an SMPP flag (cmpp §8). */
  udhi: number;
  msgFmt: number;
  sourceNumber: string;
  sourceType: number;
  registeredDelivery: number;
  content: Buffer;
  linkId: string;
}

export interface DeliverResp {
  command: "deliver_resp";
  sequenceId: number;
  msgId: string;
  result: number;
}

export interface Query {
  command: "query";
  sequenceId: number;
  /** YYYYMMDD. */
  time: string;
  queryType: number;
  queryCode: string;
}

export interface QueryResp {
  command: "query_resp";
  sequenceId: number;
  time: string;
  queryType: number;
  queryCode: string;
  /** MT_TLMsg, MT_Tlusr, MT_Scs, MT_WT, MT_FL, MO_Scs, MO_WT, MO_FL. */
  counts: number[];
}

export interface Cancel {
  command: "cancel";
  sequenceId: number;
  msgId: string;
}

export interface CancelResp {
  command: "cancel_resp";
  sequenceId: number;
  /** 0 canceled, 1 not. */
  result: number;
}

export interface Bare {
  command: "terminate" | "terminate_resp" | "active_test" | "active_test_resp";
  sequenceId: number;
}

export type Pdu =
  | Connect
  | ConnectResp
  | Submit
  | SubmitResp
  | Deliver
  | DeliverResp
  | Query
  | QueryResp
  | Cancel
  | CancelResp
  | Bare;

export type WhyMalformed =
  | "header_cut"
  | "unknown_command"
  | "body_cut"
  | "content_cut"
  | "destination_count";

export type Decoded =
  | { ok: true; pdu: Pdu; note?: "short_tail" | "content_cut" }
  | { ok: false; why: WhyMalformed; commandId: number; sequenceId: number };

const AUTHENTICATOR_BYTES = 16;
const MAX_DESTINATIONS = 99;
/** Fixed part of a SUBMIT up to and including DestUsr_tl, and of a DELIVER up to Msg_Length. */
const FIXED_BYTES = {
  submit: { "2.0": 117, "3.0": 129 },
  deliver: { "2.0": 65, "3.0": 77 },
} as const;

/** The bytes of one PDU. Throws FieldError when a value does not fit (never cuts one). */
export function encode(pdu: Pdu, version: CmppVersion): Buffer {
  const layout = LAYOUTS[version];
  switch (pdu.command) {
    case "connect":
      return start(pdu, 27)
        .text("Source_Addr", pdu.sourceAddr, 6)
        .octets("AuthenticatorSource", pdu.authenticator, AUTHENTICATOR_BYTES)
        .u8("Version", pdu.version)
        .u32("Timestamp", Number(pdu.timestamp)).bytes;
    case "connect_resp":
      return start(pdu, layout.status + AUTHENTICATOR_BYTES + 1)
        .status("Status", pdu.status, layout.status)
        .octets("AuthenticatorISMG", pdu.authenticator, AUTHENTICATOR_BYTES)
        .u8("Version", pdu.version).bytes;
    case "submit":
      return encodeSubmit(pdu, version);
    case "deliver":
      return encodeDeliver(pdu, version);
    case "submit_resp":
    case "deliver_resp":
      return start(pdu, 8 + layout.status)
        .msgId("Msg_Id", pdu.msgId)
        .status("Result", pdu.result, layout.status).bytes;
    case "query":
      return start(pdu, 27)
        .text("Time", pdu.time, 8)
        .u8("Query_Type", pdu.queryType)
        .text("Query_Code", pdu.queryCode, 10).bytes;
    case "query_resp":
      return encodeQueryResp(pdu);
    case "cancel":
      return start(pdu, 8).msgId("Msg_Id", pdu.msgId).bytes;
    case "cancel_resp":
      return start(pdu, layout.status).status("Success_Id", pdu.result, layout.status).bytes;
    case "active_test_resp":
      return start(pdu, 1).bytes;
    case "active_test":
    case "terminate":
    case "terminate_resp":
      return start(pdu, 0).bytes;
  }
}

/** One frame of the framer as a value. `version` is that of the connection; never guessed per PDU. */
export function decode(frame: Buffer, version: CmppVersion): Decoded {
  if (frame.length < HEADER_BYTES) return { ok: false, why: "header_cut", commandId: 0, sequenceId: 0 };
  const commandId = frame.readUInt32BE(4);
  const sequenceId = frame.readUInt32BE(8);
  const command = COMMAND_NAMES.get(commandId);
  if (command === undefined) return { ok: false, why: "unknown_command", commandId, sequenceId };
  const body = decodeBody(command, sequenceId, new FieldReader(frame, HEADER_BYTES), LAYOUTS[version]);
  return typeof body === "string" ? { ok: false, why: body, commandId, sequenceId } : { ok: true, ...body };
}

/** Which request an undecodable frame was, so that it can be answered; undefined for an unknown one. */
export const commandName = (commandId: number): CommandName | undefined => COMMAND_NAMES.get(commandId);

interface DecodedBody {
  pdu: Pdu;
  note?: "short_tail" | "content_cut";
}

function decodeBody(
  command: CommandName,
  sequenceId: number,
  body: FieldReader,
  layout: Layout,
): DecodedBody | WhyMalformed {
  switch (command) {
    case "connect":
      return decodeConnect(sequenceId, body);
    case "connect_resp":
      return decodeConnectResp(sequenceId, body);
    case "submit":
      return decodeSubmit(sequenceId, body, layout);
    case "deliver":
      return decodeDeliver(sequenceId, body, layout);
    case "submit_resp":
    case "deliver_resp": {
      if (body.left < 9) return "body_cut";
      const msgId = body.msgId();
      return { pdu: { command, sequenceId, msgId, result: body.status(sentStatusBytes(body.left, layout)) } };
    }
    case "query":
      if (body.left < 19) return "body_cut";
      return { pdu: { command, sequenceId, ...queryFields(body) } };
    case "query_resp":
      if (body.left < 51) return "body_cut";
      return {
        pdu: {
          command,
          sequenceId,
          ...queryFields(body),
          counts: Array.from({ length: 8 }, () => body.u32()),
        },
      };
    case "cancel":
      if (body.left < 8) return "body_cut";
      return { pdu: { command, sequenceId, msgId: body.msgId() } };
    case "cancel_resp":
      if (body.left < 1) return "body_cut";
      return { pdu: { command, sequenceId, result: body.status(sentStatusBytes(body.left, layout)) } };
    case "terminate":
    case "terminate_resp":
    case "active_test":
    case "active_test_resp":
      return { pdu: { command, sequenceId } };
  }
}

/**
 * Servers send a status in the size of the other version (cmpp §14, 2 and 18). A body that holds exactly
 * one or four bytes of it decides; a four-byte 9 read as one byte would be a 0, that is, a success.
 */
function sentStatusBytes(left: number, layout: Layout): 1 | 4 {
  if (left === 1 || left === 4) return left;
  return left < 4 ? 1 : layout.status;
}

function start(pdu: { command: CommandName; sequenceId: number }, bodyBytes: number): FieldWriter {
  const size = HEADER_BYTES + bodyBytes;
  return new FieldWriter(size)
    .u32("Total_Length", size)
    .u32("Command_Id", COMMAND_IDS[pdu.command])
    .u32("Sequence_Id", pdu.sequenceId);
}

function decodeConnect(sequenceId: number, body: FieldReader): DecodedBody | WhyMalformed {
  if (body.left < 27) return "body_cut";
  const sourceAddr = body.text(6);
  const authenticator = body.octets(AUTHENTICATOR_BYTES);
  const version = body.u8();
  // As an integer the timestamp of January to September has lost its leading zero (cmpp §4.1).
  const timestamp = String(body.u32()).padStart(10, "0");
  return { pdu: { command: "connect", sequenceId, sourceAddr, authenticator, version, timestamp } };
}

/** Read by its length, because the client cannot know which size will come (cmpp §4.2). */
function decodeConnectResp(sequenceId: number, body: FieldReader): DecodedBody | WhyMalformed {
  if (body.left < 1) return "body_cut";
  const complete = body.left >= 18;
  const status = body.status(body.left >= 21 || (!complete && body.left >= 4) ? 4 : 1);
  const authenticator = complete ? body.octets(AUTHENTICATOR_BYTES) : Buffer.alloc(AUTHENTICATOR_BYTES);
  const pdu: Pdu = { command: "connect_resp", sequenceId, status, authenticator, version: body.u8() };
  return complete ? { pdu } : { pdu, note: "short_tail" };
}

function encodeSubmit(pdu: Submit, version: CmppVersion): Buffer {
  const layout = LAYOUTS[version];
  const { destinations, content } = pdu;
  checkContent(pdu);
  if (destinations.length < 1 || destinations.length > MAX_DESTINATIONS) {
    throw new FieldError("field_out_of_range", "DestUsr_tl");
  }
  const fixed = FIXED_BYTES.submit[version];
  const numbers = destinations.length * layout.number;
  const out = start(pdu, fixed + numbers + layout.numberType + 1 + content.length + layout.tail)
    .msgId("Msg_Id", pdu.msgId)
    .u8("Pk_total", pdu.pkTotal)
    .u8("Pk_number", pdu.pkNumber)
    .u8("Registered_Delivery", pdu.registeredDelivery)
    .u8("Msg_level", pdu.msgLevel)
    .text("Service_Id", pdu.serviceId, 10)
    .u8("Fee_UserType", pdu.feeUserType)
    .text("Fee_terminal_Id", pdu.feeTerminalId, layout.number);
  if (layout.numberType === 1) out.u8("Fee_terminal_type", pdu.feeTerminalType);
  out
    .u8("TP_pId", pdu.tpPid)
    .u8("TP_udhi", pdu.udhi ? 1 : 0)
    .u8("Msg_Fmt", pdu.msgFmt)
    .text("Msg_src", pdu.msgSrc, 6)
    .text("FeeType", pdu.feeType, 2)
    .text("FeeCode", pdu.feeCode, 6)
    .text("ValId_Time", pdu.validTime, 17)
    .text("At_Time", pdu.atTime, 17)
    .text("Src_Id", pdu.srcId, 21)
    .u8("DestUsr_tl", destinations.length);
  for (const number of destinations) out.text("Dest_terminal_Id", number, layout.number);
  if (layout.numberType === 1) out.u8("Dest_terminal_type", pdu.destinationType);
  out.u8("Msg_Length", content.length).octets("Msg_Content", content, content.length);
  if (version === "3.0") out.text("LinkID", pdu.linkId, layout.tail);
  return out.bytes;
}

function decodeSubmit(sequenceId: number, body: FieldReader, layout: Layout): DecodedBody | WhyMalformed {
  const fixed = layout.numberType === 1 ? FIXED_BYTES.submit["3.0"] : FIXED_BYTES.submit["2.0"];
  if (body.left < fixed) return "body_cut";
  const msgId = body.msgId();
  const pkTotal = body.u8();
  const pkNumber = body.u8();
  const registeredDelivery = body.u8();
  const msgLevel = body.u8();
  const serviceId = body.text(10);
  const feeUserType = body.u8();
  const feeTerminalId = body.text(layout.number);
  const feeTerminalType = layout.numberType === 1 ? body.u8() : 0;
  const tpPid = body.u8();
  const udhi = hasUserDataHeader(body.u8());
  const msgFmt = body.u8();
  const msgSrc = body.text(6);
  const feeType = body.text(2);
  const feeCode = body.text(6);
  const validTime = body.text(17);
  const atTime = body.text(17);
  const srcId = body.text(21);
  const count = body.u8();
  if (count < 1 || count > MAX_DESTINATIONS) return "destination_count";
  if (body.left < count * layout.number + layout.numberType + 1) return "content_cut";
  const destinations = Array.from({ length: count }, () => body.text(layout.number));
  const destinationType = layout.numberType === 1 ? body.u8() : 0;
  const length = body.u8();
  if (body.left < length) return "content_cut";
  const content = body.octets(length);
  const short = body.left < layout.tail;
  const linkId = layout.tail === 20 ? body.text(layout.tail) : "";
  return {
    pdu: {
      command: "submit",
      sequenceId,
      msgId,
      pkTotal,
      pkNumber,
      registeredDelivery,
      msgLevel,
      serviceId,
      feeUserType,
      feeTerminalId,
      feeTerminalType,
      tpPid,
      udhi,
      msgFmt,
      msgSrc,
      feeType,
      feeCode,
      validTime,
      atTime,
      srcId,
      destinations,
      destinationType,
      content,
      linkId,
    },
    ...(short ? { note: "short_tail" as const } : {}),
  };
}

/** One bit, of which suppliers use two positions (cmpp §14, 4). */
export const hasUserDataHeader = (udhi: number): boolean => (udhi & 0x41) !== 0;

const MAX_ASCII_CONTENT_BYTES = 160;
const MAX_OTHER_CONTENT_BYTES = 140;

/** What a handset takes in one part; 160 ASCII octets by custom, against the letter of the protocol. */
function checkContent(pdu: Submit): void {
  const max = pdu.msgFmt === 0 ? MAX_ASCII_CONTENT_BYTES : MAX_OTHER_CONTENT_BYTES;
  if (pdu.content.length > max) throw new FieldError("field_too_long", "Msg_Content");
}

function encodeDeliver(pdu: Deliver, version: CmppVersion): Buffer {
  const layout = LAYOUTS[version];
  const { content } = pdu;
  const out = start(pdu, FIXED_BYTES.deliver[version] + content.length + layout.tail)
    .msgId("Msg_Id", pdu.msgId)
    .text("Dest_Id", pdu.destId, 21)
    .text("Service_Id", pdu.serviceId, 10)
    .u8("TP_pid", pdu.tpPid)
    .u8("TP_udhi", pdu.udhi)
    .u8("Msg_Fmt", pdu.msgFmt)
    .text("Src_terminal_Id", pdu.sourceNumber, layout.number);
  if (layout.numberType === 1) out.u8("Src_terminal_type", pdu.sourceType);
  out
    .u8("Registered_Delivery", pdu.registeredDelivery)
    .u8("Msg_Length", content.length)
    .octets("Msg_Content", content, content.length);
  if (version === "3.0") out.text("LinkID", pdu.linkId, layout.tail);
  return out.bytes;
}

function decodeDeliver(sequenceId: number, body: FieldReader, layout: Layout): DecodedBody | WhyMalformed {
  const fixed = layout.numberType === 1 ? FIXED_BYTES.deliver["3.0"] : FIXED_BYTES.deliver["2.0"];
  if (body.left < fixed) return "body_cut";
  const msgId = body.msgId();
  const destId = body.text(21);
  const serviceId = body.text(10);
  const tpPid = body.u8();
  const udhi = body.u8();
  const msgFmt = body.u8();
  const sourceNumber = body.text(layout.number);
  const sourceType = layout.numberType === 1 ? body.u8() : 0;
  const registeredDelivery = body.u8();
  const length = body.u8();
  // A receipt may end early and still say all that matters (cmpp §5); a text may not.
  const cut = body.left < length;
  if (cut && registeredDelivery === 0) return "content_cut";
  const content = body.octets(length);
  const short = body.left < layout.tail;
  const linkId = layout.tail === 20 ? body.text(layout.tail) : "";
  const pdu: Pdu = {
    command: "deliver",
    sequenceId,
    msgId,
    destId,
    serviceId,
    tpPid,
    udhi,
    msgFmt,
    sourceNumber,
    sourceType,
    registeredDelivery,
    content,
    linkId,
  };
  if (cut) return { pdu, note: "content_cut" };
  return short ? { pdu, note: "short_tail" } : { pdu };
}

function encodeQueryResp(pdu: QueryResp): Buffer {
  if (pdu.counts.length !== 8) throw new FieldError("field_malformed", "counts");
  const out = start(pdu, 51)
    .text("Time", pdu.time, 8)
    .u8("Query_Type", pdu.queryType)
    .text("Query_Code", pdu.queryCode, 10);
  for (const count of pdu.counts) out.u32("counts", count);
  return out.bytes;
}

function queryFields(body: FieldReader): Pick<Query, "time" | "queryType" | "queryCode"> {
  return { time: body.text(8), queryType: body.u8(), queryCode: body.text(10) };
}

/** A SUBMIT's fields as we send them for an ordinary text (cmpp §4.4), receipt requested. */
export function submitFields(
  given: Pick<SubmitFields, "msgSrc" | "srcId" | "destinations" | "msgFmt" | "content"> &
    Partial<SubmitFields>,
): SubmitFields {
  return {
    pkTotal: 1,
    pkNumber: 1,
    registeredDelivery: 1,
    msgLevel: 1,
    serviceId: "",
    feeUserType: 2,
    feeTerminalId: "",
    feeTerminalType: 0,
    tpPid: 0,
    udhi: false,
    feeType: "01",
    feeCode: "000000",
    validTime: "",
    atTime: "",
    destinationType: 0,
    linkId: "",
    ...given,
  };
}

/** A SUBMIT as an SP sends it: its Msg_Id is left to the gateway. */
export const submitPdu = (sequenceId: number, fields: SubmitFields): Submit => ({
  command: "submit",
  sequenceId,
  msgId: NO_MSG_ID,
  ...fields,
});
