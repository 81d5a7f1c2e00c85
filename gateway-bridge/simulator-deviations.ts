/**
 * The ways in which real gateways deviate from the protocol, each a switch of a simulated supplier. The
 * numbers are those of cmpp §14. Not here, because it needs no switch: 17 (a DELIVER_RESP is matched by its
 * Sequence_Id whatever Msg_Id it holds), 19 (`POST /inbound` sends any Msg_Fmt), 23 (bytes that are no CMPP
 * end in a closed connection).
 */
import { z } from "zod";
import { encode, type CmppVersion, type Deliver, type Pdu } from "./cmpp-codec.ts";
import { encodeReceipt } from "./cmpp-receipt.ts";
import type { Plan, PlannedAnswer, PlannedReceipt, SeenSubmit } from "./simulator-fates.ts";

const everyMs = z.int().min(10).max(3_600_000);

export const deviations = z.strictObject({
  /** 1: receipts of this size whatever the version. */
  receiptBytes: z.literal([60, 71]).optional(),
  /** 2: CONNECT_RESP in the layout of this version. */
  loginAnswer: z.enum(["2.0", "3.0"]).optional(),
  /** 3: ACTIVE_TEST_RESP without its byte. */
  bareActiveTestResp: z.boolean().optional(),
  /** 4: TP_udhi 0x40 where it should be 0x01. */
  leakedUdhi: z.boolean().optional(),
  /** 5: receipts before the answer to their submit. */
  receiptFirst: z.boolean().optional(),
  /** 6: receipts never on the connection of their submit. */
  otherConnection: z.boolean().optional(),
  /** 7: each receipt so many times; 0: none at all. */
  receiptTimes: z.int().min(0).max(10).optional(),
  /** 7: of a long text, the receipt of this part alone. */
  onlyPart: z.enum(["first", "last"]).optional(),
  /** 8: each answer so many times. */
  answerTimes: z.int().min(1).max(10).optional(),
  /** 8: each answer so much later (out of order where it differs, which `answersReversed` makes sure of). */
  answerDelayMs: z.int().min(0).max(600_000).optional(),
  /** 8: the parts of a long text are answered from the last one on. */
  answersReversed: z.boolean().optional(),
  /** 9: only this digest of a short Source_Addr is accepted. */
  shortLogin: z.enum(["padded", "bare"]).optional(),
  /** 10: any other Msg_src is answered 11. */
  msgSrc: z.string().min(1).max(6).optional(),
  /** 11: after so many submits so many are answered 8, again and again. */
  throttleBursts: z.strictObject({ after: z.int().min(1), count: z.int().min(1) }).optional(),
  /** 12: how a receipt's state is written. */
  stat: z.enum(["lower_case", "space_padded"]).optional(),
  /** 13: the times of a receipt. */
  times: z.enum(["zeros", "blanks", "utc"]).optional(),
  /** 14: every PDU a byte at a time. (Several PDUs of a turn leave in one chunk by themselves.) */
  byteByByte: z.boolean().optional(),
  /** 15: TERMINATE so long after each login. */
  terminateAfterMs: everyMs.optional(),
  /** 16: ACTIVE_TEST again and again. */
  activeTestEveryMs: everyMs.optional(),
  /** 18: CANCEL_RESP of four bytes in 2.0. */
  wideCancelResp: z.boolean().optional(),
  /** 20: so many bytes behind the content of a DELIVER. */
  tailBytes: z.int().min(0).max(64).optional(),
  /** 21: in front of numbers. */
  numberPrefix: z.enum(["86", "+86", "0086"]).optional(),
  /** 22: DELIVERs are sent without waiting for any to be answered. */
  floods: z.boolean().optional(),
  /** 24: a PROXY protocol header, of either version, comes before everything else. */
  proxyHeader: z.boolean().optional(),
});
export type Deviations = z.infer<typeof deviations>;

/** So little that nothing fits between, and enough for the order of two timers to hold. */
const RIGHT_AFTER_MS = 10;

/** What becomes of a submit, as such a supplier has it (5 to 8). */
export function deviantPlan(plan: Plan, seen: SeenSubmit, by: Deviations): Plan {
  const receipts = deviantReceipts(plan.receipts, seen, by);
  return { answer: deviantAnswer(plan.answer, receipts, seen, by), receipts };
}

function deviantReceipts(
  receipts: readonly PlannedReceipt[],
  seen: SeenSubmit,
  by: Deviations,
): PlannedReceipt[] {
  const part = by.onlyPart === "first" ? 1 : seen.parts;
  if (by.onlyPart !== undefined && seen.part !== part) return [];
  const placed = receipts.map((it): PlannedReceipt =>
    by.otherConnection === true && it.place === "any" ? { ...it, place: "other_connection" } : it,
  );
  return Array.from({ length: by.receiptTimes ?? 1 }, () => placed).flat();
}

function deviantAnswer(
  answer: Plan["answer"],
  receipts: readonly PlannedReceipt[],
  { parts }: SeenSubmit,
  by: Deviations,
): Plan["answer"] {
  if (typeof answer === "string") return answer;
  const told = by.receiptFirst === true ? Math.max(0, ...receipts.map(({ afterMs }) => afterMs)) : 0;
  const later = told > 0 ? Math.max(answer.afterMs, told + RIGHT_AFTER_MS) : answer.afterMs;
  const deviant: PlannedAnswer = {
    ...answer,
    afterMs: later + (by.answerDelayMs ?? 0),
    times: Math.max(answer.times, by.answerTimes ?? 1),
  };
  return by.answersReversed === true && parts > 1 ? { ...deviant, reversed: true } : deviant;
}

/** 11: in turns, by how many submits there were. */
export function isThrottledNow(submits: number, { throttleBursts }: Deviations): boolean {
  if (throttleBursts === undefined) return false;
  const { after, count } = throttleBursts;
  return submits % (after + count) >= after;
}

export interface ReceiptToTell {
  msgId: string;
  stat: string;
  submittedAt: number;
  doneAt: number;
  number: string;
  smscSequence: number;
}

const TIMES_AT = 15;
const TIMES_BYTES = 20;
const BEIJING_OFFSET_MS = 8 * 3_600_000;
const SHORT_RECEIPT_BYTES = 60;

/** The content of a receipt (1, 12, 13, 21). */
export function deviantReceipt(receipt: ReceiptToTell, version: CmppVersion, by: Deviations): Buffer {
  const shift = by.times === "utc" ? BEIJING_OFFSET_MS : 0;
  const time = (at: number): Date | null => (by.times === "zeros" ? null : new Date(at - shift));
  const size: CmppVersion = by.receiptBytes === SHORT_RECEIPT_BYTES ? "2.0" : "3.0";
  const content = encodeReceipt(
    {
      msgId: receipt.msgId,
      stat: spelled(receipt.stat, by),
      submitTime: time(receipt.submittedAt),
      doneTime: time(receipt.doneAt),
      number: (by.numberPrefix ?? "") + receipt.number,
      smscSequence: receipt.smscSequence,
    },
    by.receiptBytes === undefined ? version : size,
  );
  if (by.times === "blanks") content.fill(0x20, TIMES_AT, TIMES_AT + TIMES_BYTES);
  return content;
}

function spelled(stat: string, by: Deviations): string {
  if (by.stat === "lower_case") return stat.toLowerCase();
  return by.stat === "space_padded" ? stat.padEnd(7, " ") : stat;
}

const HEADER_BYTES = 12;
const TAIL_BYTES = { "2.0": 8, "3.0": 20 } as const;

/** A PDU as such a gateway writes it (2, 3, 4, 18, 20, 21). */
export function deviantBytes(pdu: Pdu, version: CmppVersion, by: Deviations): Buffer {
  if (pdu.command === "connect_resp") return encode(pdu, by.loginAnswer ?? version);
  if (pdu.command === "cancel_resp") return encode(pdu, by.wideCancelResp === true ? "3.0" : version);
  if (pdu.command === "deliver") return deviantDeliver(pdu, version, by);
  const bytes = encode(pdu, version);
  const bare = pdu.command === "active_test_resp" && by.bareActiveTestResp === true;
  return bare ? withLength(bytes.subarray(0, HEADER_BYTES)) : bytes;
}

function deviantDeliver(pdu: Deliver, version: CmppVersion, by: Deviations): Buffer {
  const udhi = by.leakedUdhi === true && pdu.udhi === 1 ? 0x40 : pdu.udhi;
  const sourceNumber = (by.numberPrefix ?? "") + pdu.sourceNumber;
  const bytes = encode({ ...pdu, udhi, sourceNumber }, version);
  if (by.tailBytes === undefined) return bytes;
  const withoutTail = bytes.subarray(0, bytes.length - TAIL_BYTES[version]);
  return withLength(Buffer.concat([withoutTail, Buffer.alloc(by.tailBytes)]));
}

function withLength(bytes: Buffer): Buffer {
  bytes.writeUInt32BE(bytes.length, 0);
  return bytes;
}
