/**
 * All facts about one message, read in one statement and therefore at one moment: what the customer's
 * view, its timeline and "what is it waiting for" are told from.
 */
import type { AttemptState, MessageStatus, SegmentReceipt, SegmentResult } from "../domain/message.ts";
import { statement, type Session } from "./client.ts";
import { attemptOf, notificationOf, submitOf } from "./of-message.ts";
import { modeOf, type PublicationMode } from "./publication.ts";
import { rfc3339 } from "./rfc3339.ts";

/** RFC 3339, UTC, microseconds. */
type Time = string;
/** An integer of 1/10000 of the currency unit, in digits: JSON cannot carry every one as a number. */
type Digits = string;

export interface MessageFacts {
  id: string;
  batch_id: string | null;
  number: string;
  encoding: "ascii" | "ucs2";
  text: string;
  segment_count: number;
  reference: string | null;
  price_units: Digits;
  currency: string;
  status: MessageStatus;
  reason: string | null;
  uncertain: boolean;
  current_attempt_id: string;
  created_at: Time;
  expires_at: Time;
  queued_at: Time | null;
  sent_at: Time | null;
  final_at: Time | null;
  /** Of the current attempt, while a person is to decide. */
  review_reason: string | null;
  review_since: Time | null;
  attempts: AttemptRow[];
  segments: SegmentRow[];
  commands: CommandRow[];
  takes: TakeRow[];
  receipts: ReceiptRow[];
  transfers: TransferRow[];
  notifications: NotificationRow[];
  tries: TryRow[];
}

export interface AttemptRow {
  id: string;
  number: number;
  retry_of: string | null;
  state: AttemptState;
  channel_id: string | null;
  channel_name: string | null;
  route: unknown;
  outcome: string | null;
  reason: string | null;
  created_at: Time;
  queued_at: Time | null;
  decided_at: Time | null;
}

export interface SegmentRow {
  attempt_id: string;
  part: number;
  result: SegmentResult | null;
  result_code: number | null;
  result_at: Time | null;
  receipt: SegmentReceipt | null;
  receipt_stat: string | null;
  receipt_at: Time | null;
}

/** The attempt's row of the outbox. */
export interface CommandRow {
  attempt_id: string;
  status: "pending" | "publishing" | "published" | "dead";
  /** That holds for its application. */
  mode: PublicationMode;
  published_at: Time | null;
  updated_at: Time;
}

export interface TakeRow {
  attempt_id: string;
  part: number;
  write_number: number;
  kind: "write" | "withdrawn";
  taken_at: Time;
  answer: "accepted" | "rejected" | "throttled" | "unknown" | null;
  answered_at: Time | null;
}

interface ReceiptRow {
  id: Digits;
  attempt_id: string;
  part: number | null;
  stat: string | null;
  received_at: Time;
  fate: "applied" | "late" | "foreign" | null;
}

export interface TransferRow {
  id: Digits;
  kind: "reserve" | "charge" | "release" | "refund";
  units: Digits;
  created_at: Time;
}

interface NotificationRow {
  id: string;
  url: string;
  status: "pending" | "delivered" | "parked" | "disabled";
  try_count: number;
  next_try_at: Time;
  created_at: Time;
  delivered_at: Time | null;
}

interface TryRow {
  notification_id: string;
  try_number: number;
  at: Time;
  http_status: number | null;
  error: string | null;
  duration_ms: number;
}

/** Undefined where the application has no such message, also where another one has. */
export async function findMessage(
  session: Session,
  applicationId: string,
  messageId: string,
): Promise<MessageFacts | undefined> {
  const [row] = await session.run(MESSAGE_FACTS, [messageId, applicationId]);
  if (row === undefined) return undefined;
  const { number_sealed: number, text_sealed: text, ...facts } = row;
  return {
    ...facts,
    number: session.vault.openText("messages.number", row.id, number),
    text: session.vault.openText("messages.text", row.id, text),
  };
}

/** Rows of a table as one JSON array, in the order given; an empty one where there are none. */
const rows = (columns: Record<string, string>, from: string, order: string): string => {
  const pairs = Object.entries(columns).map(([name, expression]) => `'${name}', ${expression}`);
  return `(SELECT coalesce(json_agg(json_build_object(${pairs.join(", ")}) ORDER BY ${order}), '[]') ${from})`;
};

const same = (table: string, ...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, `${table}.${name}`]));

const times = (table: string, ...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, rfc3339(`${table}.${name}`)]));

/**
 * The message's id as it was asked for: what is looked for by it is found along a key, where a join of two
 * partitioned tables is planned as if it gave thousands of rows.
 */
const ID = "$1::text";

/** Attempts of one message in their order: the ids differ in the number at their end. */
const inOrder = (attemptId: string): string => `length(${attemptId}), ${attemptId}`;

type SealedFacts = Omit<MessageFacts, "number" | "text"> & { number_sealed: Buffer; text_sealed: Buffer };

const MESSAGE_FACTS = statement<SealedFacts>(
  "story.message_facts",
  `SELECT m.id, m.batch_id, m.number_sealed, m.encoding, m.text_sealed, m.segment_count, m.reference,
     m.price_units::text AS price_units, m.currency, m.status, m.reason, m.uncertain, m.current_attempt_id,
     ${Object.entries(times("m", "created_at", "expires_at", "queued_at", "sent_at", "final_at"))
       .map(([name, expression]) => `${expression} AS ${name}`)
       .join(", ")},
     v.reason AS review_reason, ${rfc3339("v.since")} AS review_since,
     ${rows(
       {
         ...same("a", "id", "number", "retry_of", "state", "channel_id"),
         channel_name: "c.name",
         ...same("a", "route", "outcome", "reason"),
         ...times("a", "created_at", "queued_at", "decided_at"),
       },
       `FROM attempts a LEFT JOIN channels c ON c.id = a.channel_id WHERE ${attemptOf(ID, "a.id")}`,
       "a.number",
     )} AS attempts,
     ${rows(
       {
         ...same("s", "attempt_id", "part", "result", "result_code", "receipt", "receipt_stat"),
         ...times("s", "result_at", "receipt_at"),
       },
       `FROM segments s WHERE ${attemptOf(ID, "s.attempt_id")}`,
       `${inOrder("s.attempt_id")}, s.part`,
     )} AS segments,
     ${rows(
       {
         ...same("o", "attempt_id", "status"),
         mode: modeOf("o.application_id"),
         ...times("o", "published_at", "updated_at"),
       },
       `FROM submit_outbox o WHERE ${submitOf(ID, "o.submit_id")}`,
       inOrder("o.attempt_id"),
     )} AS commands,
     ${rows(
       {
         ...same("t", "attempt_id", "part", "write_number", "kind", "answer"),
         ...times("t", "taken_at", "answered_at"),
       },
       `FROM takes t WHERE ${submitOf(ID, "t.submit_id")}`,
       `${inOrder("t.attempt_id")}, t.part, t.write_number`,
     )} AS takes,
     ${rows(
       { id: "e.id::text", ...same("e", "attempt_id", "part", "stat", "fate"), ...times("e", "received_at") },
       `FROM supplier_events e
         WHERE e.attempt_id = ANY (ARRAY(SELECT a.id COLLATE "default" FROM attempts a WHERE ${attemptOf(ID, "a.id")}))
           AND e.attempt_id IS NOT NULL AND e.kind = 'receipt'`,
       "e.id",
     )} AS receipts,
     ${rows(
       {
         id: "l.id::text",
         kind: "l.kind",
         units: "l.units::text",
         ...times("l", "created_at"),
       },
       `FROM ledger_transfers l WHERE l.message_id = ${ID}`,
       "l.id",
     )} AS transfers,
     ${rows(
       {
         ...same("n", "id", "url", "status", "try_count"),
         ...times("n", "next_try_at", "created_at", "delivered_at"),
       },
       `FROM notifications n WHERE ${notificationOf(ID, "n.id")}`,
       "n.created_at, n.id",
     )} AS notifications,
     ${rows(
       {
         ...same("y", "notification_id", "try_number", "http_status", "error", "duration_ms"),
         ...times("y", "at"),
       },
       `FROM notification_tries y WHERE ${notificationOf(ID, "y.notification_id")}`,
       "y.at, y.notification_id, y.try_number",
     )} AS tries
   FROM messages m
   LEFT JOIN reviews v ON v.attempt_id = m.current_attempt_id AND v.waiting_since IS NULL
   WHERE m.id = $1 AND m.application_id = $2`,
);
