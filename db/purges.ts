/**
 * Old rows of the tables that are not partitioned, deleted in batches: each statement looks at the oldest
 * rows alone, along an index, so its cost does not grow with what stays.
 */
import { type Session, type Statement, statement } from "./client.ts";

/** What can be purged, each with its own age. */
export const PURGED = ["idempotencyKeys", "admissions", "anomalies", "alerts", "audit"] as const;
export type Purged = (typeof PURGED)[number];

export const PURGE_BATCH = 2_000;

/** Deletes at most {@link PURGE_BATCH} of those older than so many days; answers how many. */
export const purge = (session: Session, what: Purged, olderThanDays: number): Promise<number> =>
  deleted(session, PURGES[what], [olderThanDays, PURGE_BATCH]);

/** Keys of events whose slice is gone: all that are older than the oldest slice there is. */
export const purgeEventKeys = (session: Session, beforeMs: number): Promise<number> =>
  deleted(session, EVENT_KEYS, [beforeMs, PURGE_BATCH]);

async function deleted(
  session: Session,
  what: Statement<{ count: number }>,
  values: readonly unknown[],
): Promise<number> {
  const [row] = await session.run(what, values);
  return row?.count ?? 0;
}

const deleting = (name: string, table: string, key: string, oldest: string) =>
  statement<{ count: number }>(
    `purges.${name}`,
    `WITH gone AS (
       DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM (${oldest}) oldest) RETURNING 1)
     SELECT count(*)::int AS count FROM gone`,
  );

const OLD = "now() - $1::int * interval '1 day'";

/** The ids of these tables count up with time, so the oldest rows are the first of the key. */
const byId = (table: string, at: string, condition = "true") =>
  deleting(
    table,
    table,
    "id",
    `SELECT id FROM (SELECT id, ${at} AS at FROM ${table} WHERE ${condition} ORDER BY id LIMIT $2) first WHERE at < ${OLD}`,
  );

const PURGES: Record<Purged, Statement<{ count: number }>> = {
  idempotencyKeys: deleting(
    "idempotency_keys",
    "idempotency_keys",
    "application_id, key",
    `SELECT application_id, key FROM idempotency_keys WHERE created_at < ${OLD} ORDER BY created_at LIMIT $2`,
  ),
  admissions: deleting(
    "admissions",
    "admissions",
    "message_id",
    `SELECT d.message_id FROM applications p CROSS JOIN LATERAL (
       SELECT message_id FROM admissions
        WHERE application_id = p.id AND day < ((${OLD}) AT TIME ZONE 'Asia/Shanghai')::date
        ORDER BY day, number_of_day LIMIT $2) d LIMIT $2`,
  ),
  anomalies: byId("anomalies", "created_at"),
  alerts: byId("alerts", "cleared_at", "cleared_at IS NOT NULL"),
  audit: byId("audit_log", "at"),
};

const EVENT_KEYS = deleting(
  "event_keys",
  "supplier_event_keys",
  "event_key",
  `SELECT event_key FROM supplier_event_keys
    WHERE event_id < event_time(to_timestamp($1::float8 / 1000)) ORDER BY event_id LIMIT $2`,
);
