/**
 * What a customer is told of a final state, when it is told again, and what each answer means (E).
 */
import type { InboundId, MessageId, NotificationId } from "./ids.ts";
import type { FinalStatus } from "./message.ts";

export interface NotificationFacts {
  id: NotificationId;
  messageId: MessageId;
  /** Eleven digits, as stored. */
  to: string;
  status: FinalStatus;
  reason: string | null;
  segments: number;
  /** 1/10000 of the currency unit. */
  priceUnits: bigint;
  currency: string;
  reference: string | null;
  /** RFC 3339 with offset. */
  finalAt: string;
}

/** The bytes of a notification, made once and sent alike at every try (interfaces §3). */
export function notificationBody(facts: NotificationFacts): string {
  return JSON.stringify({
    type: `message.${facts.status}`,
    id: facts.id,
    data: {
      id: facts.messageId,
      to: facts.to,
      status: facts.status,
      ...(facts.reason === null ? {} : { reason: facts.reason }),
      segments: facts.segments,
      price: { units: Number(facts.priceUnits), currency: facts.currency },
      reference: facts.reference,
      finalAt: facts.finalAt,
    },
  });
}

export interface InboundFacts {
  id: NotificationId;
  inboundId: InboundId;
  /** The handset, and the number that it wrote to. */
  from: string;
  to: string;
  /** Null where the content is no text; then its bytes are there. */
  text: string | null;
  bytes: Uint8Array | null;
  segments: number;
  complete: boolean;
  wish: "opt_out" | "opt_in" | null;
  /** RFC 3339 with offset. */
  receivedAt: string;
}

/** As `notificationBody`, for a text that a recipient sent. */
export function inboundBody(facts: InboundFacts): string {
  return JSON.stringify({
    type: "inbound.received",
    id: facts.id,
    data: {
      id: facts.inboundId,
      from: facts.from,
      to: facts.to,
      text: facts.text,
      ...(facts.bytes === null ? {} : { contentHex: hexOf(facts.bytes) }),
      segments: facts.segments,
      complete: facts.complete,
      ...(facts.wish === null ? {} : { wish: facts.wish }),
      receivedAt: facts.receivedAt,
    },
  });
}

const hexOf = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Milliseconds before each try, counted from the one before: a little over 75 hours in sum. */
export const TRY_LADDER_MS: readonly number[] = [
  0,
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];

/** A notification whose turn has not come for so long is given up, because its host pauses (E3). */
export const LADDER_SUM_MS = TRY_LADDER_MS.reduce((sum, wait) => sum + wait, 0);

/**
 * How a host that fails pauses itself: some failures in a row are borne, then each doubles the pause.
 * Five minutes at most, so that whoever comes back is noticed in that time.
 */
export const HOST_PAUSE = { borne: 5, firstPauseMs: 5 * SECOND, longestPauseMs: 5 * MINUTE } as const;

/** Waits only ever grow, or the ladder could end before its 72 hours. */
const JITTER = 0.2;

/** An endpoint that asks for a rest gets it, but cannot silence its own notifications for days. */
const LONGEST_RETRY_AFTER_MS = HOUR;

/** How a call ended, before anybody judged it. */
export type CallOutcome =
  | { kind: "answered"; httpStatus: number; retryAfter: string | undefined }
  | { kind: "unanswered"; error: CallError };

export type CallError =
  | "timeout"
  | "address_refused"
  | "name_not_resolved"
  | "not_connected"
  | "connection_lost"
  | "tls_failed"
  | "bad_response"
  | "secret_unusable";

/** What a try's record says went wrong; stable words, fit for a metric's label. */
export type TryError = CallError | "gone" | "redirected" | "throttled" | "refused" | "server_failed";

export type Verdict =
  | { kind: "delivered" }
  /** 410: this address is not called again until a person replays. */
  | { kind: "gone"; error: TryError }
  | ({ kind: "retry"; afterMs: number } & Failure)
  /** The ladder has no further rung. */
  | ({ kind: "parked" } & Failure);

interface Failure {
  error: TryError;
  /** The endpoint's whole host failed, as far as one can tell, and is called more carefully. */
  hostFailed: boolean;
  /** For so long nothing at all is sent to the host, in milliseconds. */
  restMs: number;
}

/**
 * Judges the call that was the `triesOnLadder`-th since the ladder began (1 is the first).
 *
 * `random` lies in [0, 1) and spreads the next try, so that a customer who comes back is not met by
 * everything at once. `nowMs` is only compared with a Retry-After that names a date.
 */
export function judgeCall(
  outcome: CallOutcome,
  triesOnLadder: number,
  random: number,
  nowMs: number,
): Verdict {
  const error = errorOf(outcome);
  if (error === undefined) return { kind: "delivered" };
  if (error === "gone") return { kind: "gone", error };
  const failure = { error, hostFailed: error !== "secret_unusable", restMs: restOf(outcome, nowMs) };
  const wait = waitBeforeTry(triesOnLadder + 1, random);
  if (wait === undefined) return { kind: "parked", ...failure };
  return { kind: "retry", afterMs: Math.max(wait, failure.restMs), ...failure };
}

/** Milliseconds to wait before the `number`-th try of a ladder; undefined past its last rung. */
export function waitBeforeTry(number: number, random: number): number | undefined {
  const rung = TRY_LADDER_MS[number - 1];
  return rung === undefined ? undefined : Math.round(rung * (1 + JITTER * random));
}

/** Only a 2xx is success; a redirect is not followed, so it delivered nothing (interfaces §3). */
function errorOf(outcome: CallOutcome): TryError | undefined {
  if (outcome.kind === "unanswered") return outcome.error;
  const status = outcome.httpStatus;
  if (status >= 200 && status < 300) return undefined;
  if (status === 410) return "gone";
  if (status === 429 || status === 503) return "throttled";
  if (status >= 300 && status < 400) return "redirected";
  return status >= 400 && status < 500 ? "refused" : "server_failed";
}

function restOf(outcome: CallOutcome, nowMs: number): number {
  if (outcome.kind === "unanswered" || outcome.retryAfter === undefined) return 0;
  if (outcome.httpStatus !== 429 && outcome.httpStatus !== 503) return 0;
  const asked = parseRetryAfter(outcome.retryAfter.trim(), nowMs);
  return Math.min(Math.max(asked, 0), LONGEST_RETRY_AFTER_MS);
}

/** Seconds or a date (RFC 9110 §10.2.3); anything else asks for nothing. */
function parseRetryAfter(value: string, nowMs: number): number {
  if (/^\d+$/.test(value)) return Number(value) * SECOND;
  const date = Date.parse(value);
  return Number.isNaN(date) ? 0 : date - nowMs;
}
