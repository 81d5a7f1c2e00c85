/**
 * Takes submissions in: what is answered is durable first, and what was answered under a client's key
 * is answered again, byte for byte, without creating anything (A1).
 */
import { attemptIdOf, type BatchId, type MessageId } from "../domain/ids.ts";
import { statement, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";
import type { Vault } from "./vault.ts";

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
  const withoutTime = JSON.stringify(acceptance.answer).slice(0, -1);
  const [accepted] = await session.run(ACCEPT, valuesOf(session.vault, acceptance, withoutTime));
  if (accepted === undefined) return readBack(session, acceptance);
  return { outcome: "accepted", answer: withTime(withoutTime, accepted.created_at) };
}

/**
 * The key is the first to be written, so it decides: without a row of its own nothing else is. An
 * expected duplicate raises no exception (D13).
 */
const ACCEPT = statement<{ created_at: string }>(
  "inbox.accept",
  `WITH keyed AS (
     INSERT INTO idempotency_keys (application_id, key, body_hash, answer_sealed, created_at)
     SELECT $2, $8, $9, $7::bytea, now() WHERE $8::text IS NOT NULL
     ON CONFLICT (application_id, key) DO NOTHING
     RETURNING key
   ), first AS (
     SELECT ${rfc3339("now()")} AS created_at WHERE $8::text IS NULL OR EXISTS (SELECT FROM keyed)
   ), batch AS (
     INSERT INTO batches (id, application_id, item_count)
     SELECT $10, $2, $11 FROM first WHERE $10::text IS NOT NULL
   ), message AS (
     INSERT INTO messages (id, enterprise_id, application_id, account_id, batch_id, number_hash, number_sealed,
       text_sealed, encoding, segment_count, reference, webhook_url, unit_price_units, price_units, currency,
       current_attempt_id, expires_at)
     SELECT m.id, $1, $2, $3, $10, m.number_hash, m.number_sealed, m.text_sealed, m.encoding, m.segment_count,
       m.reference, m.webhook_url, $5::bigint, $5::bigint * m.segment_count, $4, m.attempt_id,
       now() + m.validity_seconds * interval '1 second'
     FROM first, unnest($6::text[], $12::text[], $13::text[], $14::bytea[], $15::bytea[], $16::text[],
       $17::int[], $18::text[], $19::text[], $20::int[]) AS m (id, attempt_id, number_hash, number_sealed,
       text_sealed, encoding, segment_count, reference, webhook_url, validity_seconds)
     RETURNING id, current_attempt_id
   ), due AS (
     INSERT INTO inbox (attempt_id, message_id) SELECT current_attempt_id, id FROM message
   )
   SELECT created_at FROM first`,
);

function valuesOf(
  vault: Vault,
  { sender, messages, batch, key }: Acceptance,
  withoutTime: string,
): unknown[] {
  return [
    sender.enterpriseId,
    sender.applicationId,
    sender.accountId,
    sender.currency,
    sender.unitPriceUnits,
    messages.map((message) => message.id),
    key && vault.seal("idempotency_keys.answer", answerRow(sender, key.key), withoutTime),
    key?.key,
    key && keyedBodyHash(vault, key.bodyHash.toString("hex")),
    batch?.id,
    batch?.itemCount,
    messages.map((message) => attemptIdOf(message.id, 1)),
    messages.map((message) => vault.hash(message.number)),
    messages.map((message) => vault.seal("messages.number", message.id, message.number)),
    messages.map((message) => vault.seal("messages.text", message.id, message.text)),
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
  sender: Sender,
  { key, bodyHash }: NonNullable<Acceptance["key"]>,
): Promise<Accepted | undefined> {
  const [first] = await session.run(FIRST_ANSWER, [sender.applicationId, key]);
  if (first === undefined) return undefined;
  if (first.body_hash !== keyedBodyHash(session.vault, bodyHash.toString("hex")))
    return { outcome: "key_reused" };
  const withoutTime = session.vault.openText(
    "idempotency_keys.answer",
    answerRow(sender, key),
    first.answer_sealed,
  );
  return { outcome: "replayed", answer: withTime(withoutTime, first.created_at) };
}

/** The answer's bytes are the same each time, for its time is kept with it. */
const withTime = (withoutTime: string, createdAt: string): string =>
  `${withoutTime},"createdAt":"${createdAt}"}`;

const answerRow = ({ applicationId }: Pick<Sender, "applicationId">, key: string): string =>
  `${applicationId}/${key}`;

/** A body is a number and a text, both of which can be guessed and tried: an open hash would give them away. */
export const keyedBodyHash = (vault: Vault, bodyHashHex: string): string => vault.hash(`body:${bodyHashHex}`);

const FIRST_ANSWER = statement<{ body_hash: string; answer_sealed: Buffer; created_at: string }>(
  "inbox.first_answer",
  `SELECT body_hash, answer_sealed, ${rfc3339("created_at")} AS created_at FROM idempotency_keys WHERE application_id = $1 AND key = $2`,
);
