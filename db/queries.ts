/**
 * The read side for customers: who calls, lists with keyset cursors, progress of a batch, account and
 * ledger. One message's whole story is in story.ts.
 */
import { and, eq, gte, isNotNull, isNull, lt, sql, type SQL } from "drizzle-orm";
import { isFinal, type MessageStatus } from "../domain/message.ts";
import { statement, type Database, type Session } from "./client.ts";
import type { Sender } from "./inbox.ts";
import { rfc3339 } from "./rfc3339.ts";
import { messages } from "./schema.ts";
import type { Vault } from "./vault.ts";

export interface Caller extends Sender {
  /** Messages a second; null where it may submit as fast as it likes. */
  ratePerSecond: number | null;
}

/** Whose key this is; undefined where no active key has this hash. */
export async function findCaller(session: Session, keyHash: Buffer): Promise<Caller | undefined> {
  const [row] = await session.run(CALLER, [keyHash]);
  return (
    row && {
      enterpriseId: row.enterprise_id,
      applicationId: row.application_id,
      accountId: row.account_id,
      currency: row.currency,
      unitPriceUnits: row.unit_price_units,
      ratePerSecond: row.rate_per_second,
    }
  );
}

const CALLER = statement<{
  enterprise_id: string;
  application_id: string;
  account_id: string;
  currency: string;
  unit_price_units: bigint;
  rate_per_second: number | null;
}>(
  "queries.caller",
  `SELECT a.enterprise_id, a.id AS application_id, a.account_id, c.currency, a.unit_price_units,
     a.rate_per_second
   FROM api_keys k
   JOIN applications a ON a.id = k.application_id
   JOIN accounts c ON c.id = a.account_id
   WHERE k.secret_hash = $1 AND k.active`,
);

/** Where a page ended: the sort key of its last row. */
interface Position {
  /** RFC 3339 with microseconds, as exact as it is stored. */
  at: string;
  id: string;
}

export interface MessageFilter {
  reference?: string | undefined;
  /** Eleven digits. */
  to?: string | undefined;
  status?: MessageStatus | undefined;
  batch?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
  before?: Position | undefined;
}

export type ListedMessage = Awaited<ReturnType<typeof listMessages>>[number];

/** Newest first. `since` is part of the span, `until` is not. */
export async function listMessages(
  database: Database,
  applicationId: string,
  filter: MessageFilter,
  limit: number,
) {
  const rows = await selectMessages(database, applicationId, filter, limit);
  return rows.map((row) => opened(database.vault, row));
}

export const selectMessages = (
  database: Database,
  applicationId: string,
  filter: MessageFilter,
  limit: number,
) =>
  database.orm
    .select(listedColumns)
    .from(messages)
    .where(and(eq(messages.applicationId, applicationId), ...matching(database.vault, filter)))
    .orderBy(...newestFirst)
    .limit(limit);

interface SealedMessage {
  id: string;
  numberSealed: Buffer;
  textSealed: Buffer;
}

/** With number and text as they were submitted. */
export const opened = <Row extends SealedMessage>(
  vault: Vault,
  { numberSealed, textSealed, ...row }: Row,
) => ({
  ...row,
  number: vault.openText("messages.number", row.id, numberSealed),
  text: vault.openText("messages.text", row.id, textSealed),
});

/**
 * Beside the status what an index knows about it: whoever looks for a few that failed, or that are still
 * open, must not walk through a million that were delivered.
 */
function ofStatus(status: MessageStatus | undefined): SQL[] {
  if (status === undefined) return [];
  const same = eq(messages.status, status);
  if (!isFinal(status)) return [same, isNull(messages.finalAt)];
  return status === "delivered" ? [same] : [same, isNotNull(messages.reason)];
}

/** The conditions of a filter, without the application. */
export const matching = (vault: Vault, filter: MessageFilter): (SQL | undefined)[] => [
  filter.reference === undefined ? undefined : eq(messages.reference, filter.reference),
  filter.to === undefined ? undefined : eq(messages.numberHash, vault.hash(filter.to)),
  ...ofStatus(filter.status),
  filter.batch === undefined ? undefined : eq(messages.batchId, filter.batch),
  filter.since === undefined ? undefined : gte(messages.createdAt, sql`${filter.since}::timestamptz`),
  filter.until === undefined ? undefined : lt(messages.createdAt, sql`${filter.until}::timestamptz`),
  filter.before === undefined
    ? undefined
    : sql`(${messages.createdAt}, ${messages.id}) < (${filter.before.at}::timestamptz, ${filter.before.id})`,
];

export const listedColumns = {
  id: messages.id,
  batchId: messages.batchId,
  numberSealed: messages.numberSealed,
  textSealed: messages.textSealed,
  encoding: messages.encoding,
  segmentCount: messages.segmentCount,
  reference: messages.reference,
  priceUnits: messages.priceUnits,
  currency: messages.currency,
  status: sql<MessageStatus>`${messages.status}`.as("listed_status"),
  reason: messages.reason,
  uncertain: messages.uncertain,
  createdAt: sql<string>`${sql.raw(rfc3339("messages.created_at"))}`.as("listed_created_at"),
  finalAt: sql<string | null>`${sql.raw(rfc3339("messages.final_at"))}`.as("listed_final_at"),
};

/** In the words of the index: a plain DESC puts nulls first, which it does not serve, and would sort. */
export const newestFirst = [
  sql`${messages.createdAt} DESC NULLS LAST`,
  sql`${messages.id} DESC NULLS LAST`,
] as const;

export interface BatchProgress {
  id: string;
  item_count: number;
  created_at: string;
  as_of: string;
  /** Messages by status; only those that occur. */
  counts: Partial<Record<MessageStatus, number>>;
}

/** Counted from the messages at the moment of asking; sending keeps no counter (F1). */
export async function findBatch(
  session: Session,
  applicationId: string,
  batchId: string,
): Promise<BatchProgress | undefined> {
  const [row] = await session.run(BATCH_PROGRESS, [batchId, applicationId]);
  return row;
}

const BATCH_PROGRESS = statement<BatchProgress>(
  "queries.batch_progress",
  `SELECT b.id, b.item_count, ${rfc3339("b.created_at")} AS created_at, ${rfc3339("now()")} AS as_of,
     (SELECT coalesce(json_object_agg(s.status, s.count), '{}') FROM (
        SELECT status, count(*)::int AS count FROM messages WHERE batch_id = b.id COLLATE "default" GROUP BY status
      ) s) AS counts
   FROM batches b WHERE b.id = $1 AND b.application_id = $2`,
);

interface AccountRow {
  id: string;
  currency: string;
  balance_units: bigint;
  held_units: bigint;
}

export async function findAccount(session: Session, accountId: string): Promise<AccountRow> {
  const [row] = await session.run(ACCOUNT, [accountId]);
  if (row === undefined) throw new Error("an application without its account");
  return row;
}

const ACCOUNT = statement<AccountRow>(
  "queries.account",
  "SELECT id, currency, balance_units, held_units FROM accounts WHERE id = $1",
);

export interface LedgerRow {
  id: bigint;
  kind: "top_up" | "reserve" | "charge" | "release" | "refund";
  message_id: string | null;
  debit_pot: string;
  credit_pot: string;
  units: bigint;
  created_at: string;
}

/** Newest first. */
export const listTransfers = (
  session: Session,
  accountId: string,
  before: bigint | undefined,
  limit: number,
): Promise<LedgerRow[]> => session.run(TRANSFERS, [accountId, before, limit]);

const TRANSFERS = statement<LedgerRow>(
  "queries.transfers",
  `SELECT id, kind, message_id, debit_pot, credit_pot, units, ${rfc3339("created_at")} AS created_at
   FROM ledger_transfers
   WHERE account_id = $1 AND id < coalesce($2::bigint, 9223372036854775807)
   ORDER BY id DESC LIMIT $3`,
);

export interface DeliveryRow {
  id: string;
  message_id: string | null;
  /** The text from a recipient of which it tells, where it is of no message. */
  inbound_id: string | null;
  url: string;
  status: "pending" | "delivered" | "parked" | "disabled";
  try_count: number;
  next_try_at: string;
  created_at: string;
  delivered_at: string | null;
  tries: {
    try_number: number;
    at: string;
    http_status: number | null;
    error: string | null;
    duration_ms: number;
  }[];
}

/** Deliveries with every try's outcome, newest first. */
export const listDeliveries = (
  session: Session,
  applicationId: string,
  before: Position | undefined,
  limit: number,
): Promise<DeliveryRow[]> =>
  session.run(DELIVERIES, [applicationId, before?.at ?? "infinity", before?.id ?? "", limit]);

const DELIVERIES = statement<DeliveryRow>(
  "queries.deliveries",
  `SELECT n.id, n.message_id, n.inbound_id, n.url, n.status, n.try_count, ${rfc3339("n.next_try_at")} AS next_try_at,
     ${rfc3339("n.created_at")} AS created_at, ${rfc3339("n.delivered_at")} AS delivered_at,
     (SELECT coalesce(json_agg(json_build_object('try_number', t.try_number, 'at', ${rfc3339("t.at")},
        'http_status', t.http_status, 'error', t.error, 'duration_ms', t.duration_ms)
        ORDER BY t.try_number), '[]')
      FROM notification_tries t WHERE t.notification_id = n.id) AS tries
   FROM notifications n
   WHERE n.application_id = $1 AND (n.created_at, n.id) < ($2::timestamptz, $3)
   ORDER BY n.created_at DESC NULLS LAST, n.id DESC NULLS LAST LIMIT $4`,
);

interface SupplierState {
  id: string;
  name: string;
  /** Connections that are up and whose owner was heard from within 10 s (B4). */
  live: number;
}

/** Every active supplier, and whether anything can reach it now. */
export const supplierStates = (session: Session): Promise<SupplierState[]> => session.run(SUPPLIER_STATES);

const SUPPLIER_STATES = statement<SupplierState>(
  "queries.supplier_states",
  `SELECT s.id, s.name, count(c.slot)::int AS live
   FROM suppliers s
   LEFT JOIN connections c ON c.supplier_id = s.id AND c.connected
     AND c.heartbeat_at > now() - interval '10 seconds'
   WHERE s.active
   GROUP BY s.id ORDER BY s.name, s.id`,
);
