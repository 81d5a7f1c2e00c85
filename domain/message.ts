/**
 * States of a message and of an attempt (docs/states.md has the pictures).
 *
 *   accepted -> queued -> sent -> delivered | undelivered | failed | expired
 *   accepted -> refused | canceled | failed | expired      queued -> canceled, where nothing was written
 *
 * `status` never goes back and never leaves a final one (interfaces §3).
 */
export const MESSAGE_STATUSES = [
  "accepted",
  "queued",
  "sent",
  "delivered",
  "undelivered",
  "failed",
  "refused",
  "expired",
  "canceled",
] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

export const FINAL_STATUSES = [
  "delivered",
  "undelivered",
  "failed",
  "refused",
  "expired",
  "canceled",
] as const;
export type FinalStatus = (typeof FINAL_STATUSES)[number];

export const isFinal = (status: MessageStatus): status is FinalStatus =>
  (FINAL_STATUSES as readonly string[]).includes(status);

/** planned: it exists and has no channel yet; queued: its command is committed; decided: closed for ever. */
export const ATTEMPT_STATES = ["planned", "queued", "decided"] as const;
export type AttemptState = (typeof ATTEMPT_STATES)[number];

export const OPERATORS = ["china_mobile", "china_unicom", "china_telecom"] as const;
export type Operator = (typeof OPERATORS)[number];

/** What the supplier said of one part when it was submitted; `unknown`: nobody knows whether it was taken. */
export const SEGMENT_RESULTS = ["accepted", "rejected", "unknown", "never_written"] as const;
export type SegmentResult = (typeof SEGMENT_RESULTS)[number];

/** What the supplier reported of one part later; `undecided`: interim or unmapped, decides nothing (D4). */
export const SEGMENT_RECEIPTS = ["delivered", "failed", "undecided"] as const;
export type SegmentReceipt = (typeof SEGMENT_RECEIPTS)[number];

/** How many receipts the channel's supplier sends for one long message (D4). */
export const RECEIPT_MODES = ["per_segment", "message_level"] as const;
export type ReceiptMode = (typeof RECEIPT_MODES)[number];
