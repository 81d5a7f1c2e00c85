/**
 * Folding one supplier event into the part that it speaks of. Pure, and the same whatever order
 * events come in: delivered wins over failed, a receipt counts as acceptance (D8, D14).
 */
import type { SegmentReceipt } from "./message.ts";
import type { SegmentFacts } from "./outcome.ts";
import type { Answer } from "./supplier-codes.ts";

/** All of one part that events can teach. */
export interface FoldedSegment extends SegmentFacts {
  msgId: string | null;
}

export type SupplierFact =
  | { kind: "response"; answer: Answer; resultCode: number; msgId: string; writeNumber: number }
  | { kind: "no_response" }
  | { kind: "receipt"; stat: string; meaning: SegmentReceipt; msgId: string };

/** Contradictions are kept for a person; nobody wins by being first (D8). */
export type Contradiction = "result_contradicted" | "receipt_contradicted" | "msg_id_contradicted";

export interface Folded {
  segment: FoldedSegment;
  contradiction?: Contradiction;
}

/** A part that was throttled this often counts as rejected (C3). */
export const MAX_WRITES = 30;

/** A supplier that gives no Msg_Id sends zeros: they name nothing, and match nothing. */
export const NO_MSG_ID = "0000000000000000";

export function fold(segment: FoldedSegment, fact: SupplierFact): Folded {
  switch (fact.kind) {
    case "response":
      return foldResponse(segment, fact);
    case "no_response":
      return { segment: segment.result === null ? { ...segment, result: "unknown" } : segment };
    case "receipt":
      return foldReceipt(segment, fact);
  }
}

function foldResponse(segment: FoldedSegment, fact: SupplierFact & { kind: "response" }): Folded {
  if (fact.answer === "throttled" && fact.writeNumber < MAX_WRITES) return { segment };
  if (fact.answer === "unknown") {
    return { segment: segment.result === null ? { ...segment, result: "unknown" } : segment };
  }
  if (fact.answer === "accepted") return foldAcceptance(segment, fact);
  if (segment.result === "accepted") return { segment, contradiction: "result_contradicted" };
  return foldRejection(segment, fact.resultCode);
}

/** Of two different codes the smaller one stands, so that their order decides nothing. */
function foldRejection(segment: FoldedSegment, code: number): Folded {
  const known = segment.result === "rejected" ? (segment.resultCode ?? code) : code;
  const folded: FoldedSegment = { ...segment, result: "rejected", resultCode: Math.min(known, code) };
  return known === code ? { segment: folded } : { segment: folded, contradiction: "result_contradicted" };
}

function foldAcceptance(segment: FoldedSegment, fact: SupplierFact & { kind: "response" }): Folded {
  const learned = fact.msgId === NO_MSG_ID ? segment.msgId : fact.msgId;
  const folded: FoldedSegment = {
    ...segment,
    result: "accepted",
    resultCode: 0,
    msgId: segment.msgId ?? learned,
  };
  if (segment.result === "rejected") return { segment: folded, contradiction: "result_contradicted" };
  if (segment.msgId !== null && segment.msgId !== learned) {
    return { segment: folded, contradiction: "msg_id_contradicted" };
  }
  return { segment: folded };
}

function foldReceipt(segment: FoldedSegment, fact: SupplierFact & { kind: "receipt" }): Folded {
  const accepted: FoldedSegment = {
    ...segment,
    result: "accepted",
    resultCode: 0,
    msgId: segment.msgId ?? fact.msgId,
  };
  const receipt = fact.meaning;
  const folded = outranks(receipt, fact.stat, segment) ? withReceipt(accepted, receipt, fact.stat) : accepted;
  if (segment.result === "rejected") return { segment: folded, contradiction: "result_contradicted" };
  const contradicts = decides(receipt) && decides(segment.receipt) && receipt !== segment.receipt;
  return contradicts ? { segment: folded, contradiction: "receipt_contradicted" } : { segment: folded };
}

const RANKS = { delivered: 3, failed: 2, undecided: 1 } as const satisfies Record<SegmentReceipt, number>;

/** Of two states alike the one that comes first in the alphabet stands: order decides nothing (D8). */
function outranks(receipt: SegmentReceipt, stat: string, than: FoldedSegment): boolean {
  if (than.receipt === null) return true;
  return receipt === than.receipt ? stat < (than.receiptStat ?? "") : RANKS[receipt] > RANKS[than.receipt];
}

const decides = (receipt: SegmentReceipt | null): boolean => receipt === "delivered" || receipt === "failed";

const withReceipt = (segment: FoldedSegment, receipt: SegmentReceipt, stat: string): FoldedSegment => ({
  ...segment,
  receipt,
  receiptStat: stat,
});
