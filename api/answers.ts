/**
 * The shapes of all answers. The code that answers is typed by them and the OpenAPI document is
 * generated from them, so neither can say what the other does not.
 */
import { z } from "zod";
import { PROBLEMS, type ProblemCode } from "../domain/errors.ts";
import { MESSAGE_STATUSES, ATTEMPT_STATES, SEGMENT_RECEIPTS, SEGMENT_RESULTS } from "../domain/message.ts";

/** Names under which shapes stand in the document. */
export const shapes = z.registry<{ id: string }>();

export const named = <T extends z.ZodType>(id: string, schema: T): T => {
  shapes.add(schema, { id });
  return schema;
};

export const time = z.iso.datetime({ offset: true });
export const messageId = z.string().regex(/^msg_[0-9A-Z]{26}$/);
const inboundId = z.string().regex(/^inb_[0-9A-Z]{26}$/);
const batchId = z.string().regex(/^bat_[0-9A-Z]{26}$/);
export const status = named("MessageStatus", z.enum(MESSAGE_STATUSES));
const encoding = z.enum(["ascii", "ucs2"]);
export const count = z.int().min(0);

export const money = named(
  "Money",
  z.object({
    units: z
      .union([z.int(), z.string().regex(/^-?\d+$/)])
      .describe("1/10000 of the currency unit; a string of digits beyond 2^53"),
    currency: z.string(),
  }),
);

const fieldError = z.object({ path: z.string(), message: z.string() });

export const problem = named(
  "Problem",
  z.object({
    type: z.string(),
    title: z.string(),
    status: z.int().min(400).max(599),
    code: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    retryable: z.boolean().describe("The same request may succeed when it is sent again later"),
    errors: z.array(fieldError).optional(),
    instance: z.string().optional().describe("Names this one occurrence in our log"),
  }),
);

const priced = {
  to: z.string(),
  segments: z.int().min(1),
  encoding,
  price: money,
  reference: z.string().nullable(),
};

export const acceptedMessage = named(
  "AcceptedMessage",
  z.object({ id: messageId, status: z.literal("accepted"), ...priced, createdAt: time }),
);

export const acceptedBatch = named(
  "AcceptedBatch",
  z.object({
    id: batchId,
    items: z
      .array(
        z.union([
          z.object({ id: messageId, status: z.literal("accepted"), ...priced }),
          z.object({ problem }),
        ]),
      )
      .describe("One per item submitted, in order: the message's id, or what was wrong with it"),
    createdAt: time,
  }),
);

export const batch = named(
  "Batch",
  z.object({
    id: batchId,
    items: count.describe("As submitted, refused ones included"),
    refusedAtSubmission: count,
    final: count.describe("Messages in a final status"),
    counts: z.object(
      Object.fromEntries(MESSAGE_STATUSES.map((name) => [name, count])) as Record<
        (typeof MESSAGE_STATUSES)[number],
        typeof count
      >,
    ),
    createdAt: time,
    asOf: time,
  }),
);

const outline = {
  id: messageId,
  status,
  reason: z.string().nullable().describe("Stable word for how it ended, where there is more to say"),
  uncertain: z.boolean().describe("A part's submit outcome is unknown: it may or may not have been sent"),
  ...priced,
  text: z.string(),
  batchId: batchId.nullable(),
  createdAt: time,
  finalAt: time.nullable(),
};

export const listedMessage = named("ListedMessage", z.object(outline));

export const nextCursor = z.string().nullable().describe("Give it as `cursor` to read on; null at the end");

export const messageList = named("MessageList", z.object({ messages: z.array(listedMessage), nextCursor }));

const segment = named(
  "Segment",
  z.object({
    part: z.int().min(1),
    writes: count.describe("How often it was written to the supplier; above 1 only after throttling"),
    result: z.enum(SEGMENT_RESULTS).nullable().describe("What the supplier answered; null while it has not"),
    resultCode: z.int().nullable(),
    resultAt: time.nullable(),
    receipt: z.enum(SEGMENT_RECEIPTS).nullable().describe("What the supplier reported about delivery"),
    receiptStat: z.string().nullable(),
    receiptAt: time.nullable(),
  }),
);

const attempt = named(
  "Attempt",
  z.object({
    id: z.string(),
    number: z.int().min(1),
    retryOf: z.string().nullable(),
    state: z.enum(ATTEMPT_STATES),
    channel: z.object({ id: z.string(), name: z.string().nullable() }).nullable(),
    considered: z
      .array(z.object({ channelId: z.string(), verdict: z.string() }))
      .describe("The channels that the plan looked at, best first, and what it found"),
    outcome: z.string().nullable(),
    reason: z.string().nullable(),
    createdAt: time,
    queuedAt: time.nullable(),
    decidedAt: time.nullable(),
    segments: z.array(segment),
  }),
);

const notificationTry = z.object({
  number: z.int().min(1),
  at: time,
  httpStatus: z.int().nullable(),
  error: z.string().nullable(),
  durationMs: count,
});

const delivery = {
  id: z.string(),
  url: z.string(),
  status: z.enum(["pending", "delivered", "parked", "disabled"]),
  createdAt: time,
  deliveredAt: time.nullable(),
  nextTryAt: time.nullable().describe("Null once nothing more is tried"),
  tries: z.array(notificationTry),
};

const timelineEntry = named(
  "TimelineEntry",
  z.object({ at: time, what: z.string(), why: z.string().optional() }),
);

const WAITING_FOR = [
  "intake",
  "route",
  "connection",
  "publication",
  "gateway",
  "supplier_answer",
  "receipt",
  "settlement",
  "person",
] as const;

const waitingFor = named(
  "WaitingFor",
  z.object({
    kind: z.enum(WAITING_FOR),
    what: z.string().describe("The same as a sentence"),
    since: time,
    until: time.describe("Latest moment at which the message ends by itself"),
  }),
);

export const message = named(
  "Message",
  z.object({
    ...outline,
    expiresAt: time,
    waitingFor: waitingFor.optional().describe("While it is not final"),
    needsReview: z
      .object({ reason: z.string(), since: time })
      .optional()
      .describe("Only where a person must decide"),
    attempts: z.array(attempt),
    ledger: z.array(
      z.object({
        id: z.string(),
        kind: z.enum(["reserve", "charge", "release", "refund"]),
        units: money.shape.units,
        currency: z.string(),
        at: time,
      }),
    ),
    notifications: z.array(z.object(delivery)),
    timeline: z.array(timelineEntry),
  }),
);

export const account = named("Account", z.object({ id: z.string(), balance: money, held: money }));

export const ledger = named(
  "Ledger",
  z.object({
    entries: z.array(
      z.object({
        id: z.string(),
        kind: z.enum(["top_up", "reserve", "charge", "release", "refund"]),
        messageId: messageId.nullable(),
        from: z.string().describe("The pot that the money left: outside, balance, held or earned"),
        to: z.string(),
        units: money.shape.units,
        currency: z.string(),
        at: time,
      }),
    ),
    nextCursor,
  }),
);

export const webhooks = named(
  "Webhooks",
  z.object({
    deliveries: z.array(
      z.object({
        messageId: messageId.optional().describe("Where it tells of a message"),
        inboundId: inboundId.optional().describe("Where it tells of an inbound text"),
        ...delivery,
      }),
    ),
    nextCursor,
  }),
);

/** A text that a recipient sent. */
export const inboundFields = {
  id: inboundId,
  from: z.string().describe("The handset"),
  to: z.string().describe("The number that it wrote to"),
  text: z.string().nullable().describe("Null where the content is no text"),
  contentHex: z.string().optional().describe("The bytes of a content that is no text"),
  segments: z.int().min(1),
  complete: z.boolean().describe("False: parts that did not come within an hour are missing"),
  wish: z.enum(["opt_out", "opt_in"]).optional().describe("What it said of further messages"),
  receivedAt: time,
};

export const inbound = named("Inbound", z.object({ inbound: z.array(z.object(inboundFields)), nextCursor }));

export const replayed = named("Replayed", z.object({ id: z.string(), status: z.literal("pending") }));

export const replayedMany = named(
  "ReplayedMany",
  z.object({ replayed: count.describe("Sent again, each under its id"), nextCursor }),
);

export const rotatedSecret = named(
  "RotatedSecret",
  z.object({
    secret: z.string().describe("Signs from now on; shown here alone"),
    previousUntil: time.nullable().describe("Until then the secret before signs too"),
    changed: z.boolean().describe("False where this secret signed already"),
  }),
);

const part = z.object({ ready: z.boolean(), detail: z.string().optional() });

export const readiness = named(
  "Readiness",
  z.object({
    ready: z.boolean(),
    database: part,
    roles: z.record(z.string(), part),
    suppliers: z.record(z.string(), part),
  }),
);

export const liveness = named("Liveness", z.object({ live: z.literal(true) }));

export type AnswerOf<T extends z.ZodType> = z.output<T>;

const LARGEST_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

/** An integer of 1/10000 as JSON can carry it: digits in a string beyond 2^53. */
export function unitsOf(units: bigint): number | string {
  return units <= LARGEST_NUMBER && units >= -LARGEST_NUMBER ? Number(units) : units.toString();
}
