/**
 * What a supplier is like, as data: protocol version, login, pace, and the quirks in which suppliers
 * differ. Stored in `suppliers.profile` and editable while the gateway runs; an unknown key is an error.
 */
import { z } from "zod";
import type { SegmentReceipt } from "../domain/message.ts";
import { type Answer, answerOf, HOPELESS, receiptOf } from "../domain/supplier-codes.ts";
import { isTimeZone } from "./cmpp-time.ts";

const words = z.array(z.string().trim().min(1).max(32)).max(50);
const resultCodes = z.array(z.int().min(1).max(0xffff_ffff));

export const supplierProfile = z.strictObject({
  host: z.string().min(1),
  port: z.int().min(1).max(65535),
  version: z.enum(["2.0", "3.0"]),
  /** Source_Addr: six characters. */
  spId: z.string().min(1).max(6),
  /** How a shorter one enters the digest of the login (cmpp §4.1). */
  shortLogin: z.enum(["padded", "bare"]).default("padded"),
  serviceId: z.string().max(10).default(""),
  /** Msg_src where it differs from the login (cmpp §14, 10). */
  msgSrc: z.string().max(6).optional(),
  connections: z.int().min(1).max(16).default(1),
  /** Submits sent and not yet answered on one connection (cmpp §1). */
  window: z.int().min(1).max(512).default(16),
  /** Parts a second over all connections of the account (B5). */
  ratePerSecond: z.int().min(1).max(10_000).default(200),
  responseTimeoutMs: z.int().min(100).max(600_000).default(10_000),
  connectTimeoutMs: z.int().min(100).max(600_000).default(10_000),
  /** Silence after which an ACTIVE_TEST is sent. */
  heartbeatIdleMs: z.int().min(100).max(600_000).default(30_000),
  heartbeatTimeoutMs: z.int().min(100).max(600_000).default(10_000),
  /** Results that say "slower" and take nothing (D, cmpp §11). */
  throttleResults: resultCodes.default([8]),
  throttleBackoffMs: z.int().min(1).max(600_000).default(1_000),
  /** Results that leave open whether the text went on, beside those that always do (cmpp §11). */
  uncertainResults: resultCodes.default([]),
  /** Receipt states that mean something else, or nothing known, with others (cmpp §6). */
  stats: z
    .record(z.string().min(1).max(16), z.enum(["delivered", "failed", "undecided"]))
    .default({})
    .transform((stats) =>
      Object.fromEntries(Object.entries(stats).map(([stat, means]) => [spelled(stat), means])),
    ),
  /** Results after which no other supplier is asked: they would say the same (D6, cmpp §11). */
  hopelessResults: resultCodes.default([...HOPELESS.results]),
  /** Receipt states after which none is asked, of those that mean failed. */
  hopelessStats: z
    .array(z.string().min(1).max(16))
    .default([])
    .transform((stats) => stats.map(spelled)),
  /** Where the clocks stand that its receipts tell the time by: an IANA name (cmpp §5). */
  timeZone: z
    .string()
    .refine(isTimeZone, "must be the name of a time zone, such as Asia/Shanghai or UTC")
    .default("Asia/Shanghai"),
  /**
   * Which of the two layouts a receipt has: that of 60 bytes, with 21 for the number, or that of 71, with
   * 32. By its length, unless the supplier's lengths are neither (cmpp §14, 1).
   */
  receiptBytes: z.union([z.literal("by_length"), z.literal(60), z.literal(71)]).default("by_length"),
  /**
   * What comes back in the place of our Src_Id: it, or a number of the supplier's own. That says nothing of
   * a receipt then, nor of whom a recipient wrote to (cmpp §13).
   */
  srcId: z.enum(["as_sent", "overwritten"]).default("as_sent"),
  /**
   * In what a text leaves that is not ASCII: UCS2, or GB characters (Msg_Fmt 15) of one and two bytes, or of
   * four as well. A text that does not fit its parts so stays UCS2.
   */
  encoding: z.enum(["ucs2", "gbk", "gb18030"]).default("ucs2"),
  /** Words of recipients who refuse, or ask again, where the application names none of its own. */
  optOutWords: words.optional(),
  optInWords: words.optional(),
  /** How a receipt spells the Msg_Id of the answer: alike, or with its eight bytes reversed (cmpp §17). */
  receiptMsgId: z.enum(["as_answered", "bytes_reversed"]).default("as_answered"),
});
export type SupplierProfile = z.infer<typeof supplierProfile>;

export interface Supplier {
  id: string;
  name: string;
  secret: string;
  profile: SupplierProfile;
}

/** What one supplier's answer to a submit means. Uncertain goes before throttled: never written twice. */
export function answerBy(profile: SupplierProfile, result: number): Answer {
  if (result !== 0 && profile.uncertainResults.includes(result)) return "unknown";
  return answerOf(result, profile.throttleResults);
}

/** What one supplier's receipt state means. */
export const receiptBy = (profile: SupplierProfile, stat: string): SegmentReceipt =>
  profile.stats[spelled(stat)] ?? receiptOf(stat);

/** The Msg_Id of the answer that a receipt belongs to, 16 hex characters. */
export function answeredMsgId(profile: SupplierProfile, msgId: string): string {
  if (profile.receiptMsgId === "as_answered") return msgId;
  return Buffer.from(msgId, "hex").reverse().toString("hex");
}

/** Case and padding vary (cmpp §5). */
const spelled = (stat: string): string => stat.trim().toUpperCase();
