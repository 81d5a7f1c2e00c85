/**
 * Takes submissions in: what is answered is durable first, and what was answered under a client's key
 * is answered again, byte for byte, without creating anything (A1).
 */
import { attemptIdOf, type BatchId, type MessageId } from "../domain/ids.ts";
import { statement, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";

/** From our own rows, never from what a request says (D16). */
export interface Sender {
  enterpriseId: string;
  applicationId: string;
  accountId: string;
  currency: string;
  /** Of one segment, in 1/10000 of the currency unit. */
  unitPriceUnits: bigint;
}

export interface NewMessage {
  id: MessageId;
  /** Eleven digits. */
  number: string;
  text: string;
  encoding: "ascii" | "ucs2";
  segmentCount: number;
  reference: string | undefined;
  webhookUrl: string | undefined;
  validitySeconds: number;
}

export interface Acceptance {
  sender: Sender;
  messages: NewMessage[];
  batch?: { id: BatchId; itemCount: number };
  /** The client's key, and the SHA-256 of the body that it stands for. */
  key?: { key: string; bodyHash: Buffer };
  /**
   * The answer as a JSON object without a time. It gets `createdAt` as its last field, by the
   * database's clock, and is kept with the key.
   */
  answer: object;
}

export type Accepted = { outcome: "accepted" | "replayed"; answer: string } | { outcome: "key_reused" };

/**
 * One statement: the key's row, the batch's, and per message its own row and the one that intake finds
 * due. Whoever comes second with a key waits for the first to commit, inserts nothing and reads back.
 */
export async function acceptMessages(session: Session, acceptance: Acceptance): Promise<Accepted> {
  const [accepted] = await session.run(ACCEPT, valuesOf(acceptance));
  if (accepted !== undefined) return { outcome: "accepted", answer: accepted.answer };
  return readBack(session, acceptance);
}

/**
 * The key is the first to be written, so it decides: without a row of its own nothing else is. An
 * expected duplicate raises no exception (D13).
 */
const ACCEPT = statement<{ answer: string }>(
  "inbox.accept",
  `WITH answered AS (
     SELECT $7::text || ',"createdAt":"' || ${rfc3339("now()")} || '"}' AS answer
   ), keyed AS (
     INSERT INTO idempotency_keys (application_id, key, body_hash, answer)
     SELECT $2, $8, $9, answer FROM answered WHERE $8::text IS NOT NULL
     ON CONFLICT (application_id, key) DO NOTHING
     RETURNING key
   ), first AS (
     SELECT answer FROM answered WHERE $8::text IS NULL OR EXISTS (SELECT FROM keyed)
   ), batch AS (
     INSERT INTO batches (id, application_id, item_count)
     SELECT $10, $2, $11 FROM first WHERE $10::text IS NOT NULL
   ), message AS (
     INSERT INTO messages (id, enterprise_id, application_id, account_id, batch_id, number, text, encoding,
       segment_count, reference, webhook_url, unit_price_units, price_units, currency, current_attempt_id,
       expires_at)
     SELECT m.id, $1, $2, $3, $10, m.number, m.text, m.encoding, m.segment_count, m.reference, m.webhook_url,
       $5::bigint, $5::bigint * m.segment_count, $4, m.attempt_id,
       now() + m.validity_seconds * interval '1 second'
     FROM first, unnest($6::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::int[],
       $17::text[], $18::text[], $19::int[]) AS m (id, attempt_id, number, text, encoding, segment_count,
       reference, webhook_url, validity_seconds)
     RETURNING id, current_attempt_id
   ), due AS (
     INSERT INTO inbox (attempt_id, message_id) SELECT current_attempt_id, id FROM message
   )
   SELECT answer FROM first`,
);

function valuesOf({ sender, messages, batch, key, answer }: Acceptance): unknown[] {
  return [
    sender.enterpriseId,
    sender.applicationId,
    sender.accountId,
    sender.currency,
    sender.unitPriceUnits,
    messages.map((message) => message.id),
    JSON.stringify(answer).slice(0, -1),
    key?.key,
    key?.bodyHash,
    batch?.id,
    batch?.itemCount,
    messages.map((message) => attemptIdOf(message.id, 1)),
    messages.map((message) => message.number),
    messages.map((message) => message.text),
    messages.map((message) => message.encoding),
    messages.map((message) => message.segmentCount),
    messages.map((message) => message.reference ?? null),
    messages.map((message) => message.webhookUrl ?? null),
    messages.map((message) => message.validitySeconds),
  ];
}

async function readBack(session: Session, { sender, key }: Acceptance): Promise<Accepted> {
  const before = key && (await answeredBefore(session, sender, key));
  if (before === undefined) throw new Error("a submission was neither accepted nor found under its key");
  return before;
}

/** What a client's key stands for already; undefined where it is new. */
export async function answeredBefore(
  session: Session,
  { applicationId }: Sender,
  { key, bodyHash }: NonNullable<Acceptance["key"]>,
): Promise<Accepted | undefined> {
  const [first] = await session.run(FIRST_ANSWER, [applicationId, key]);
  if (first === undefined) return undefined;
  return bodyHash.equals(first.body_hash)
    ? { outcome: "replayed", answer: first.answer }
    : { outcome: "key_reused" };
}

const FIRST_ANSWER = statement<{ body_hash: Buffer; answer: string }>(
  "inbox.first_answer",
  `SELECT body_hash, answer AS answer FROM idempotency_keys WHERE application_id = $1 AND key = $2`,
);
