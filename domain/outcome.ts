/**
 * What became of one attempt: all facts present are judged together, whatever order they came in
 * (D4, D8). An unknown result is a value here and never an exception, so nothing can retry it by
 * accident (D6).
 */
import type { ReceiptMode, SegmentReceipt, SegmentResult } from "./message.ts";
import { HOPELESS, type Hopeless } from "./supplier-codes.ts";

export interface SegmentFacts {
  part: number;
  result: SegmentResult | null;
  resultCode: number | null;
  receipt: SegmentReceipt | null;
  receiptStat: string | null;
}

export type Outcome =
  | { kind: "waiting" }
  | { kind: "delivered" }
  | {
      kind: "failed";
      /** undelivered: accepted whole, its receipt negative; failed: rejected in whole or part. */
      status: "undelivered" | "failed";
      /** `submit:<result>`, `receipt:<stat>` or `never_written`: stable, and shown to customers. */
      reason: string;
      mayRetry: boolean;
    };

/** `hopeless`: what the supplier's profile says of failures that no other supplier can mend. */
export function judge(
  segments: readonly SegmentFacts[],
  mode: ReceiptMode,
  hopeless: Hopeless = HOPELESS,
): Outcome {
  return mode === "per_segment" ? judgePerSegment(segments, hopeless) : judgeMessageLevel(segments, hopeless);
}

/** The supplier accepted every part, by its answer or by a receipt for it: the moment to charge (D5). */
export const acceptedWhole = (segments: readonly SegmentFacts[]): boolean =>
  segments.length > 0 && segments.every((segment) => segment.result === "accepted");

/** Some part may or may not have reached the supplier, and nothing has told since. */
export const isUncertain = (segments: readonly SegmentFacts[]): boolean =>
  segments.some((segment) => segment.result === "unknown");

function judgePerSegment(segments: readonly SegmentFacts[], hopeless: Hopeless): Outcome {
  if (segments.every((segment) => segment.receipt === "delivered")) return { kind: "delivered" };
  return segments.every(hasEnded) ? failure(segments, hopeless) : { kind: "waiting" };
}

/**
 * One receipt speaks for all parts, once each has its answer: not for one that the supplier did not take,
 * and one that is unknown makes a failure wait, because it could be tried again (D5, D6).
 */
function judgeMessageLevel(segments: readonly SegmentFacts[], hopeless: Hopeless): Outcome {
  if (segments.some((segment) => segment.result === null)) return { kind: "waiting" };
  const delivered = segments.some((segment) => segment.receipt === "delivered");
  if (delivered && !segments.some(wasNotTaken)) return { kind: "delivered" };
  const reported = delivered || segments.some((segment) => segment.receipt === "failed");
  const known = segments.every((segment) => segment.result !== "unknown");
  return (reported && known) || segments.every(hasEnded) ? failure(segments, hopeless) : { kind: "waiting" };
}

const wasNotTaken = (segment: SegmentFacts): boolean =>
  segment.result === "rejected" || segment.result === "never_written";

const hasEnded = (segment: SegmentFacts): boolean =>
  segment.receipt === "delivered" || segment.receipt === "failed" || wasNotTaken(segment);

function failure(segments: readonly SegmentFacts[], hopeless: Hopeless): Outcome {
  const rejected = segments.find((segment) => segment.result === "rejected");
  const unwritten = segments.some((segment) => segment.result === "never_written");
  const undelivered = segments.find((segment) => segment.receipt === "failed");
  return {
    kind: "failed",
    status: rejected !== undefined || unwritten ? "failed" : "undelivered",
    reason: reasonOf(rejected, undelivered),
    mayRetry:
      segments.every((segment) => segment.receipt !== "delivered") &&
      !segments.some((segment) => isHopeless(segment, hopeless)),
  };
}

const isHopeless = (
  { result, resultCode, receipt, receiptStat }: SegmentFacts,
  hopeless: Hopeless,
): boolean =>
  (result === "rejected" && hopeless.results.includes(resultCode ?? 0)) ||
  (receipt === "failed" && hopeless.stats.includes(receiptStat ?? ""));

function reasonOf(rejected: SegmentFacts | undefined, undelivered: SegmentFacts | undefined): string {
  if (rejected !== undefined) return `submit:${rejected.resultCode ?? "unknown"}`;
  return undelivered === undefined ? "never_written" : `receipt:${undelivered.receiptStat ?? ""}`;
}
