/**
 * Ids and idempotency keys. Every id is a prefix and a string that sorts by time; every key is made
 * here, beside the race that it stops.
 */
export type MessageId = `msg_${string}`;
export type BatchId = `bat_${string}`;
export type AttemptId = `att_${string}`;
export type SubmitId = `sub_${string}`;
export type NotificationId = `evt_${string}`;
export type InboundId = `inb_${string}`;

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** 26 characters: 48 bits of milliseconds, then 80 random bits. `random` holds at least 10 bytes. */
export function sortableId(nowMs: number, random: Uint8Array): string {
  let time = "";
  for (let i = 0, rest = nowMs; i < 10; i++, rest = Math.floor(rest / 32)) {
    time = CROCKFORD.charAt(rest % 32) + time;
  }
  let tail = "";
  for (let bit = 0; bit < 80; bit += 5) {
    const byte = bit >> 3;
    const pair = ((random[byte] ?? 0) << 8) | (random[byte + 1] ?? 0);
    tail += CROCKFORD.charAt((pair >> (11 - (bit & 7))) & 31);
  }
  return time + tail;
}

export const messageIdFrom = (nowMs: number, random: Uint8Array): MessageId =>
  `msg_${sortableId(nowMs, random)}`;

export const batchIdFrom = (nowMs: number, random: Uint8Array): BatchId => `bat_${sortableId(nowMs, random)}`;

/** An inbound text; made by the transaction that joins it, so it sorts by that and not by its parts. */
export const inboundIdFrom = (nowMs: number, random: Uint8Array): InboundId =>
  `inb_${sortableId(nowMs, random)}`;

/** Attempts of one message are numbered from 1, so starting one twice names the same workflow. */
export const attemptIdOf = (message: MessageId, number: number): AttemptId =>
  `att_${message.slice(4)}_${number}`;

/** The message that an attempt belongs to: it is part of the attempt's id. */
export const messageIdOf = (attempt: string): MessageId =>
  `msg_${attempt.slice(4, attempt.lastIndexOf("_"))}`;

/** What the supplier side of an attempt is known by; stops a second command for one attempt. */
export const submitIdOf = (attempt: AttemptId): SubmitId => `sub_${attempt.slice(4)}`;

/** One notification per message and target (E1): the second settlement finds the first one's row. */
export const notificationIdOf = (message: MessageId, target: number): NotificationId =>
  `evt_${message.slice(4)}${target === 0 ? "" : `_${target}`}`;

/** One notification per inbound text: whoever looks at it again, also a person, finds the first one's row. */
export const inboundNotificationIdOf = (inbound: InboundId): NotificationId => `evt_${inbound.slice(4)}`;

/** Starting one attempt twice, from wherever, reaches the same workflow. */
export const attemptWorkflowId = (attempt: AttemptId): string => `attempt/${attempt}`;

/** The reservation belongs to the message: a successor attempt finds it and reserves nothing (A5). */
export const reserveKey = (message: string): string => `reserve:${message}`;

/** Charge and release share one key, so that whichever comes first shuts out the other (D5). */
export const closeKey = (message: string): string => `close:${message}`;

/** A charged message is refunded at most once, whatever decides it (D5, D7). */
export const refundKey = (message: string): string => `refund:${message}`;

/** The same answer of a supplier read twice is one event; a second, different answer is another (D2). */
export const responseEventKey = (
  submit: string,
  part: number,
  write: number,
  msgId: string,
  result: number,
): string => `response:${submit}:${part}:${write}:${msgId}:${result}`;

/** The gateway and the sweeper may both notice that no answer came: one event (I). */
export const noResponseEventKey = (submit: string, part: number, write: number): string =>
  `no_response:${submit}:${part}:${write}`;

/** A receipt repeated by the supplier, on whatever connection and day, is one event (D2). */
export const receiptEventKey = (supplier: string, msgId: string, number: string, stat: string): string =>
  `receipt:${supplier}:${msgId}:${number}:${stat}`;

/**
 * An inbound text repeated by the supplier because its answer was lost is one event, whatever connection
 * and Sequence_Id it comes with; two equal texts under two ids are two (D2). `content` tells apart what a
 * supplier names alike, such as the parts of a long text.
 */
export const inboundEventKey = (supplier: string, msgId: string, content: string): string =>
  `inbound:${supplier}:${msgId}:${content}`;
