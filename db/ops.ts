/**
 * What people look at across all applications: reviews, odd supplier events, messages. Lists are in
 * keyset order and every one is read along an index.
 */
import { and, desc, eq, sql } from "drizzle-orm";
import type { MessageStatus } from "../domain/message.ts";
import { statement, type Database, type Session } from "./client.ts";
import { matching, listedColumns, newestFirst, opened, type MessageFilter } from "./queries.ts";
import { rfc3339 } from "./rfc3339.ts";
import { applications, messages } from "./schema.ts";
import type { Vault } from "./vault.ts";

export interface ReviewRow {
  attempt_id: string;
  message_id: string;
  application_id: string;
  reason: string;
  since: string;
  channel_id: string | null;
  status: MessageStatus;
  uncertain: boolean;
  expires_at: string;
}

/** Attempts on which a person must decide, the longest waiting first (D12). */
export const listReviews = (
  session: Session,
  after: { since: string; attemptId: string } | undefined,
  limit: number,
): Promise<ReviewRow[]> => session.run(REVIEWS, [after?.since ?? "-infinity", after?.attemptId ?? "", limit]);

/** An attempt may be in review before it has a row of its own. */
const REVIEWS = statement<ReviewRow>(
  "ops.reviews",
  `SELECT r.attempt_id, r.message_id, m.application_id, r.reason, ${rfc3339("r.since")} AS since,
          a.channel_id, m.status, m.uncertain, ${rfc3339("m.expires_at")} AS expires_at
     FROM reviews r JOIN messages m ON m.id = r.message_id LEFT JOIN attempts a ON a.id = r.attempt_id
    WHERE r.waiting_since IS NULL AND (r.since, r.attempt_id) > ($1::timestamptz, $2)
    ORDER BY r.since, r.attempt_id LIMIT $3`,
);

/** A supplier's event as it is stored. */
interface SealedEvent {
  event_key: string;
  /** As PostgreSQL writes bytes in JSON. */
  number_sealed: string | null;
}

export interface SupplierEventRow {
  id: bigint;
  kind: "response" | "no_response" | "receipt" | "inbound";
  supplier_id: string;
  msg_id: string | null;
  stat: string | null;
  result_code: number | null;
  number: string | null;
  src_id: string | null;
  received_at: string;
  try_count: number;
  next_try_at: string;
  copy_count: number;
}

export interface AnomalyRow {
  id: bigint;
  kind: string;
  attempt_id: string | null;
  detail: string | null;
  created_at: string;
  event: (Omit<SupplierEventRow, "id"> & { id: string }) | null;
}

/** Newest first. */
export async function listAnomalies(
  session: Session,
  before: bigint | undefined,
  limit: number,
): Promise<AnomalyRow[]> {
  const rows = await session.run(ANOMALIES, [before, limit]);
  return rows.map((row) => ({ ...row, event: row.event && withNumber(session.vault, row.event) }));
}

function withNumber<Row extends SealedEvent>(
  vault: Vault,
  { event_key: key, number_sealed: sealed, ...row }: Row,
) {
  const bytes = sealed === null ? null : Buffer.from(sealed.slice(2), "hex");
  return { ...row, number: bytes && vault.openText("supplier_events.number", key, bytes) };
}

const EVENT_FIELDS = {
  event_key: "e.event_key",
  kind: "e.kind",
  supplier_id: "e.supplier_id",
  msg_id: "e.msg_id",
  stat: "e.stat",
  result_code: "e.result_code",
  number_sealed: "e.number_sealed::text",
  src_id: "e.src_id",
  received_at: rfc3339("e.received_at"),
  try_count: "e.try_count",
  next_try_at: rfc3339("e.due_at"),
  copy_count: "(SELECT k.copy_count FROM supplier_event_keys k WHERE k.event_id = e.id)",
};

const eventColumns = Object.entries(EVENT_FIELDS)
  .map(([name, expression]) => `${expression} AS ${name}`)
  .join(", ");

const eventJson = Object.entries(EVENT_FIELDS)
  .map(([name, expression]) => `'${name}', ${expression}`)
  .join(", ");

type SealedEventRow = Omit<SupplierEventRow, "number"> & SealedEvent;

const ANOMALIES = statement<
  Omit<AnomalyRow, "event"> & { event: (Omit<SealedEventRow, "id"> & { id: string }) | null }
>(
  "ops.anomalies",
  `SELECT n.id, n.kind, n.attempt_id, n.detail, ${rfc3339("n.created_at")} AS created_at,
          CASE WHEN e.id IS NOT NULL THEN json_build_object('id', e.id::text, ${eventJson}) END AS event
     FROM anomalies n LEFT JOIN supplier_events e ON e.id = n.event_id
    WHERE n.id < coalesce($1::bigint, 9223372036854775807) ORDER BY n.id DESC LIMIT $2`,
);

/** Receipts that were looked into and belong to nothing we know, newest first; they are tried again (D14). */
export async function listUnmatched(
  session: Session,
  before: bigint | undefined,
  limit: number,
): Promise<SupplierEventRow[]> {
  const rows = await session.run(UNMATCHED, [before, limit]);
  return rows.map((row) => withNumber(session.vault, row));
}

/** Gathered first, along the index of what is open: by its key alone the whole table would be walked. */
const UNMATCHED = statement<SealedEventRow>(
  "ops.unmatched",
  `WITH e AS MATERIALIZED (
     SELECT * FROM supplier_events
      WHERE folded_at IS NULL AND kind = 'receipt' AND try_count > 0
        AND id < coalesce($1::bigint, 9223372036854775807))
   SELECT e.id, ${eventColumns} FROM e ORDER BY e.id DESC LIMIT $2`,
);

export type ListedAnywhere = Awaited<ReturnType<typeof listMessagesAnywhere>>[number];

/**
 * Newest first over every application, or of one. Each application's own index gives its newest, so no
 * filter that a customer can use makes this read a whole table.
 */
export async function listMessagesAnywhere(
  database: Database,
  applicationId: string | undefined,
  filter: MessageFilter,
  limit: number,
) {
  const rows = await selectMessagesAnywhere(database, applicationId, filter, limit);
  return rows.map((row) => opened(database.vault, row));
}

export function selectMessagesAnywhere(
  database: Database,
  applicationId: string | undefined,
  filter: MessageFilter,
  limit: number,
) {
  const found = database.orm
    .select({ ...listedColumns, applicationId: messages.applicationId, sortAt: messages.createdAt })
    .from(messages)
    .where(and(eq(messages.applicationId, applications.id), ...matching(database.vault, filter)))
    .orderBy(...newestFirst)
    .limit(limit)
    .as("found");
  return database.orm
    .select({
      id: found.id,
      batchId: found.batchId,
      numberSealed: found.numberSealed,
      textSealed: found.textSealed,
      encoding: found.encoding,
      segmentCount: found.segmentCount,
      reference: found.reference,
      priceUnits: found.priceUnits,
      currency: found.currency,
      status: found.status,
      reason: found.reason,
      uncertain: found.uncertain,
      createdAt: found.createdAt,
      finalAt: found.finalAt,
      applicationId: found.applicationId,
    })
    .from(applications)
    .crossJoinLateral(found)
    .where(applicationId === undefined ? sql`true` : eq(applications.id, applicationId))
    .orderBy(desc(found.sortAt), desc(found.id))
    .limit(limit);
}
