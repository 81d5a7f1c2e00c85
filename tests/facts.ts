/**
 * Facts that tests of the send chain begin from, made by the statements under test themselves: an
 * accepted message, a queued attempt, a written part, an answer, a receipt.
 */
import { randomBytes } from "node:crypto";
import { persistAttempts } from "../db/attempts.ts";
import { beginEpoch, heartbeat } from "../db/connections.ts";
import { type Database, openDatabase, type Session, sqlState, statement } from "../db/client.ts";
import { storeEvents, type SupplierEvent } from "../db/events.ts";
import { foldEvents, type FoldedBatch } from "../db/folding.ts";
import { acceptMessages } from "../db/inbox.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { seedDemo } from "../db/seed.ts";
import { settle } from "../db/settlement.ts";
import { type Holder, take, writeKey } from "../db/takes.ts";
import {
  type AttemptId,
  attemptIdOf,
  type MessageId,
  messageIdFrom,
  messageIdOf,
  noResponseEventKey,
  receiptEventKey,
  responseEventKey,
  submitIdOf,
} from "../domain/ids.ts";
import type { SettleAnswer } from "../domain/steps.ts";
import { describeText } from "../domain/segment.ts";
import type { Answer } from "../domain/supplier-codes.ts";
import { freshDatabase, until, vault } from "./servers.ts";

const CONNECTIONS = 12;

/** A database of its own with the demo seed, and every supplier connected. */
export async function openFacts(url?: string): Promise<Database> {
  const database = openDatabase(url ?? (await freshDatabase()), "operations", CONNECTIONS, vault);
  await seedDemo(database, {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    suppliers: [1, 2, 3].map((n) => ({
      id: `sup_${n}`,
      name: `Supplier ${n}`,
      version: "2.0",
      host: "127.0.0.1",
      port: 7_890 + n,
      spId: `90000${n}`,
      secret: "unused",
    })),
  });
  for (const supplierId of ["sup_1", "sup_2", "sup_3"]) await connect(database, supplierId);
  return database;
}

/** Its heartbeat lies ahead, so that it stays fresh however long a test takes. */
export async function connect(database: Session, supplierId: string): Promise<void> {
  const epoch = await beginEpoch(database, supplierId, 1, "gateway-a");
  await heartbeat(database, "gateway-a", [
    { supplierId, slot: 1, epoch, connected: true, windowInUse: 0, lastError: null },
  ]);
  await ask(
    database,
    `UPDATE connections SET heartbeat_at = now() + interval '1 day' WHERE supplier_id = $1`,
    [supplierId],
  );
}

/** Any statement; a test's own words need no name to be prepared under. */
export const ask = <Row = Record<string, unknown>>(
  session: Session,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> => session.run(statement<Row>("", text), values);

export async function only<Row>(
  session: Session,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row> {
  const rows = await ask<Row>(session, text, values);
  const [row] = rows;
  if (row === undefined || rows.length > 1) throw new Error(`${rows.length} rows where one was expected`);
  return row;
}

/** Pages that a statement reads, by PostgreSQL's own account. It is carried out. */
export async function pagesRead(
  session: Session,
  text: string,
  values: readonly unknown[] = [],
): Promise<number> {
  const { "QUERY PLAN": plans } = await only<{ "QUERY PLAN": [{ Plan: Record<string, number> }] }>(
    session,
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
    values,
  );
  const { "Shared Hit Blocks": hit, "Shared Read Blocks": read } = plans[0].Plan;
  if (hit === undefined || read === undefined) throw new Error("the plan counts no pages");
  return hit + read;
}

/**
 * The SQLSTATE with which PostgreSQL refuses a statement that breaks one of its guards on purpose;
 * undefined where it lets it pass. Under a name by which the run's log check knows it.
 */
export const refusal = (
  database: Database,
  text: string,
  values: readonly unknown[] = [],
): Promise<string | undefined> =>
  database
    .transaction(async (tx) => {
      await ask(tx, `SET LOCAL application_name = 'waybill-test-violation'`);
      await ask(tx, text, values);
    })
    .then(() => undefined, sqlState);

// ---- senders and messages -----------------------------------------------------------------------

export interface Sender {
  applicationId: string;
  accountId: string;
}

export const DEMO: Sender = { applicationId: "app_demo", accountId: "acc_demo" };
export const PRICE = 325n;

let made = 0;

/** Another application of the demo enterprise, with an account of its own that holds `units`. */
export async function openSender(database: Session, units: bigint): Promise<Sender> {
  const name = String(++made);
  const sender = { applicationId: `app_${name}`, accountId: `acc_${name}` };
  await ask(database, `INSERT INTO accounts (id, enterprise_id, currency) VALUES ($1, 'ent_demo', 'CNY')`, [
    sender.accountId,
  ]);
  if (units > 0n) {
    await ask(
      database,
      `WITH moved AS (
         INSERT INTO ledger_transfers (key, kind, account_id, debit_pot, credit_pot, units)
         VALUES ('top_up:' || $1, 'top_up', $1, 'outside', 'balance', $2))
       UPDATE accounts SET balance_units = $2 WHERE id = $1`,
      [sender.accountId, units],
    );
  }
  await ask(
    database,
    `INSERT INTO applications (id, enterprise_id, account_id, channel_group_id, name, unit_price_units,
                               default_signature_id, webhook_secret)
     VALUES ($1, 'ent_demo', $2, 'grp_demo', $1, $3, 'sig_demo', 'unused')`,
    [sender.applicationId, sender.accountId, PRICE],
  );
  return sender;
}

/** A number that no other test of this database uses, of China Mobile. */
export const freshNumber = (): string => `138${String(++made).padStart(8, "0")}`;

export const textOf = (segments: number): string => (segments === 1 ? "hello" : "a".repeat(153 * segments));

export interface MessageWishes {
  sender?: Sender;
  to?: string;
  segments?: number;
  /** In place of a made-up one of so many segments. */
  text?: string;
  validitySeconds?: number;
  webhookUrl?: string;
  /** The time in its id, in milliseconds. */
  at?: number;
}

/** Accepted, and not yet looked at. Answers its first attempt, whose id holds the message's. */
export async function acceptedMessage(database: Session, wishes: MessageWishes = {}): Promise<AttemptId> {
  const id = messageIdFrom(wishes.at ?? Date.now(), randomBytes(10));
  const { applicationId, accountId } = wishes.sender ?? DEMO;
  const text = wishes.text ?? textOf(wishes.segments ?? 1);
  await acceptMessages(database, {
    sender: { enterpriseId: "ent_demo", applicationId, accountId, currency: "CNY", unitPriceUnits: PRICE },
    messages: [
      {
        id,
        number: wishes.to ?? freshNumber(),
        text,
        ...describeText(text),
        reference: undefined,
        webhookUrl: wishes.webhookUrl,
        validitySeconds: wishes.validitySeconds ?? 3_600,
      },
    ],
    answer: { id },
  });
  return attemptIdOf(id, 1);
}

/** Accepted, and its price held. */
export async function reservedMessage(database: Database, wishes: MessageWishes = {}): Promise<AttemptId> {
  const attempt = await acceptedMessage(database, wishes);
  await database.transaction((tx) => reserveForAttempts(tx, [attempt]));
  return attempt;
}

/** Its command is committed, for the channel of that number. */
export async function queuedAttempt(
  database: Database,
  wishes: MessageWishes & { channel?: number } = {},
): Promise<AttemptId> {
  const attempt = await reservedMessage(database, wishes);
  await persist(database, attempt, wishes.channel ?? 1);
  return attempt;
}

export async function persist(database: Database, attempt: AttemptId, channel: number): Promise<void> {
  const answers = await database.transaction((tx) => persistAttempts(tx, [planned(attempt, channel)]));
  const answer = answers.get(attempt);
  if (answer?.kind !== "queued") throw new Error(`the attempt was not queued: ${answer?.kind}`);
}

export const planned = (attempt: AttemptId, channel: number) => ({
  attemptId: attempt,
  channelId: `chn_demo_${channel}`,
  considered: [],
});

export const successorOf = (attempt: AttemptId): AttemptId =>
  attemptIdOf(messageIdOf(attempt), Number(attempt.slice(attempt.lastIndexOf("_") + 1)) + 1);

// ---- what the gateway and the suppliers do ------------------------------------------------------

export const holder = (owner = "gateway-a", supplierId = "sup_1"): Holder => ({
  owner,
  supplierId,
  slot: 1,
  epoch: 1n,
});

export const write = (attempt: AttemptId, part = 1, writeNumber = 1) => ({
  submitId: submitIdOf(attempt),
  attemptId: attempt,
  part,
  writeNumber,
});

/** Takes these parts for their first write; throws where one cannot be had. */
export async function written(
  database: Session,
  attempt: AttemptId,
  parts: readonly number[] = [1],
  by = holder(),
): Promise<void> {
  const writes = parts.map((part) => write(attempt, part));
  const taken = await take(database, by, writes);
  for (const it of writes) if (!taken.has(writeKey(it))) throw new Error("a part could not be taken");
}

/** Sixteen hex characters, told apart by `name`. */
export const msgIdOf = (name: string | number): string =>
  Buffer.from(String(name)).toString("hex").slice(-16).padStart(16, "0");

export const NO_MSG_ID = "0".repeat(16);

export interface AnswerWishes {
  part?: number;
  writeNumber?: number;
  answer?: Answer;
  resultCode?: number;
  msgId?: string;
  supplierId?: string;
}

/** The supplier's answer to a written part; `msgId` is the one of {@link idOf} where none is named. */
export function response(attempt: AttemptId, wishes: AnswerWishes = {}): SupplierEvent {
  const { part = 1, writeNumber = 1, answer = "accepted", supplierId = "sup_1" } = wishes;
  const resultCode = wishes.resultCode ?? { accepted: 0, rejected: 9, throttled: 8, unknown: 3 }[answer];
  const msgId = wishes.msgId ?? (answer === "accepted" ? idOf(attempt, part) : NO_MSG_ID);
  const it = write(attempt, part, writeNumber);
  return {
    ...it,
    key: responseEventKey(it.submitId, part, writeNumber, msgId, resultCode),
    kind: "response",
    supplierId,
    slot: 1,
    epoch: 1n,
    answer,
    resultCode,
    msgId,
  };
}

/** The Msg_Id that this story's supplier gives to a part. */
export const idOf = (attempt: AttemptId, part = 1): string => msgIdOf(`${attempt.slice(-8)}${part}`);

export function silence(attempt: AttemptId, part = 1, writeNumber = 1, supplierId = "sup_1"): SupplierEvent {
  const it = write(attempt, part, writeNumber);
  return {
    ...it,
    key: noResponseEventKey(it.submitId, part, writeNumber),
    kind: "no_response",
    supplierId,
    slot: 1,
    epoch: 1n,
  };
}

export interface ReceiptWishes {
  stat?: string;
  supplierId?: string;
  srcId?: string;
  slot?: number;
}

export function receipt(msgId: string, number: string, wishes: ReceiptWishes = {}): SupplierEvent {
  const { stat = "DELIVRD", supplierId = "sup_1", slot = 1 } = wishes;
  return {
    key: receiptEventKey(supplierId, msgId, number, stat),
    kind: "receipt",
    supplierId,
    slot,
    epoch: 1n,
    msgId,
    stat,
    number,
    srcId: wishes.srcId ?? `1069000${supplierId.slice(4)}`,
  };
}

/** Receipt for a part whose id the supplier gave in its answer. */
export async function receiptFor(
  session: Session,
  attempt: AttemptId,
  wishes: ReceiptWishes & { part?: number } = {},
): Promise<SupplierEvent> {
  return receipt(idOf(attempt, wishes.part ?? 1), await numberOf(session, attempt), wishes);
}

export const store = (session: Session, ...events: SupplierEvent[]): Promise<void> =>
  storeEvents(session, events);

/** Stores and folds; makes parked receipts due first, so that no test waits for their time. */
export async function told(database: Database, ...events: SupplierEvent[]): Promise<FoldedBatch> {
  if (events.length > 0) await storeEvents(database, events);
  await ask(database, `UPDATE supplier_events SET due_at = now() WHERE folded_at IS NULL`);
  return database.transaction((tx) => foldEvents(tx, 1_000));
}

export async function settled(database: Database, attempt: AttemptId): Promise<SettleAnswer | undefined> {
  return (await database.transaction((tx) => settle(tx, [attempt]))).get(attempt);
}

/** Moves the message's own limit into the past (D7). */
export const passLimit = (session: Session, attempt: AttemptId): Promise<unknown> =>
  ask(session, `UPDATE messages SET expires_at = now() - interval '1 second' WHERE id = $1`, [
    messageIdOf(attempt),
  ]);

// ---- looking at what is stored ------------------------------------------------------------------

export interface MessageRow {
  id: MessageId;
  status: string;
  reason: string | null;
  uncertain: boolean;
  number: string;
  current_attempt_id: string;
  final_at: Date | null;
}

export async function messageOf(session: Session, attempt: AttemptId): Promise<MessageRow> {
  const id = messageIdOf(attempt);
  const { number_sealed: sealed, ...row } = await only<
    Omit<MessageRow, "number"> & { number_sealed: Buffer }
  >(session, `SELECT * FROM messages WHERE id = $1`, [id]);
  return { ...row, number: session.vault.openText("messages.number", id, sealed) };
}

export const numberOf = async (session: Session, attempt: AttemptId): Promise<string> =>
  (await messageOf(session, attempt)).number;

export interface AttemptRow {
  state: string;
  outcome: string | null;
  reason: string | null;
  channel_id: string | null;
  retry_of: string | null;
  facts_revision: number;
  due_at: Date | null;
}

export const attemptOf = (session: Session, attempt: AttemptId): Promise<AttemptRow> =>
  only(session, `SELECT * FROM attempts WHERE id = $1`, [attempt]);

export interface SegmentRow {
  part: number;
  result: string | null;
  result_code: number | null;
  msg_id: string | null;
  receipt: string | null;
  receipt_stat: string | null;
}

export const segmentsOf = (session: Session, attempt: AttemptId): Promise<SegmentRow[]> =>
  ask(
    session,
    `SELECT part, result, result_code, msg_id, receipt, receipt_stat FROM segments WHERE attempt_id = $1 ORDER BY part`,
    [attempt],
  );

/** Kinds of the transfers of one message, in the order in which they were made. */
export const transfersOf = async (session: Session, attempt: AttemptId): Promise<string[]> =>
  (
    await ask<{ kind: string }>(
      session,
      `SELECT kind FROM ledger_transfers WHERE message_id = $1 ORDER BY id`,
      [messageIdOf(attempt)],
    )
  ).map((row) => row.kind);

export const countOf = async (
  session: Session,
  table: string,
  values: readonly unknown[] = [],
): Promise<number> =>
  Number((await only<{ count: bigint }>(session, `SELECT count(*) FROM ${table}`, values)).count);

/** Waits until so many sessions of this database wait for a lock: both sides of a race have begun. */
export const untilWaiting = (database: Session, count: number): Promise<true> =>
  until(`${count} sessions wait for a lock`, async () => {
    const waiting = await countOf(
      database,
      "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return waiting >= count ? true : undefined;
  });
