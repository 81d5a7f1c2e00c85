/**
 * What suppliers' result codes and receipt states mean. Codes that nobody lists decide nothing where
 * a wrong guess could send a text twice, and mean "try elsewhere" where nothing was taken.
 */
import type { SegmentReceipt } from "./message.ts";

/** What a supplier's answer to one submit means for the part that was written. */
export type Answer = "accepted" | "rejected" | "throttled" | "unknown";

/** The text may have been passed on, or the answer is about another submit (cmpp §11). */
const UNCERTAIN_RESULTS = new Set([3, 54, 55, 73]);

/** After which no other supplier is asked: they would say the same. A supplier's profile may say others. */
export interface Hopeless {
  results: readonly number[];
  /** Receipt states, in capitals; of those that mean failed. */
  stats: readonly string[];
}

export const HOPELESS: Hopeless = {
  /** Our encoding (1, 2, 4, 6), a bad number (13), a block list or content refusal (69, 76). */
  results: [1, 2, 4, 6, 13, 69, 76],
  stats: [],
};

export function answerOf(result: number, throttleResults: readonly number[]): Answer {
  if (result === 0) return "accepted";
  if (throttleResults.includes(result)) return "throttled";
  return UNCERTAIN_RESULTS.has(result) ? "unknown" : "rejected";
}

/** UNKNOWN, interim and unmapped states wait for another receipt or the deadline (D4). */
const RECEIPT_STATES: Readonly<Record<string, SegmentReceipt>> = {
  DELIVRD: "delivered",
  EXPIRED: "failed",
  DELETED: "failed",
  UNDELIV: "failed",
  REJECTD: "failed",
};

/** Case and padding vary between suppliers (cmpp §5). */
export const receiptOf = (stat: string): SegmentReceipt =>
  RECEIPT_STATES[stat.trim().toUpperCase()] ?? "undecided";
