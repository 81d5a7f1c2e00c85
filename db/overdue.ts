/**
 * Work that is due and that nobody does. Whatever the reason is, a person must hear of it: an alert that
 * needs no metrics server, survives recovery and stays until somebody clears it (K). One a stage, so that
 * an outage of a million messages is one line to read; it names the one that waits longest.
 */
import { sortableId } from "../domain/ids.ts";
import { type Session, statement } from "./client.ts";
import { modeOf } from "./publication.ts";

/** Raises an alert for every stage in which something has been due for longer; answers the new ones. */
export async function alertOverdue(session: Session, overdueMs: number, nowMs: number): Promise<string[]> {
  const before = `att_${sortableId(nowMs - overdueMs, new Uint8Array(10))}`;
  return (await session.run(ALERT, [overdueMs, before])).map((row) => row.subject);
}

const LATE = `statement_timestamp() - $1 * interval '1 millisecond'`;

/** The one that waits longest of what is open: a probe of an index that holds nothing else. */
const oldest = (stage: string, id: string, since: string, rows: string, late = LATE): string =>
  `(SELECT '${stage}' AS stage, ${id} AS id, ${since} AS since FROM ${rows} AND ${since} < ${late}
     ORDER BY ${since} LIMIT 1)`;

/** Of each supplier's, because they are claimed by supplier. Receipts that belong to nothing wait their turn. */
const OLDEST_EVENT = `(SELECT 'fold', e.id::text, e.due_at
      FROM suppliers s CROSS JOIN LATERAL (
        SELECT id, due_at FROM supplier_events
         WHERE supplier_id = s.id AND folded_at IS NULL AND due_at < ${LATE} ORDER BY due_at LIMIT 1) e
     ORDER BY e.due_at LIMIT 1)`;

/** Of each application's; what an operator holds back is not overdue (C5). */
const OLDEST_COMMAND = `(SELECT 'publish', o.submit_id, o.next_attempt_at
      FROM applications a CROSS JOIN LATERAL (
        SELECT submit_id, next_attempt_at FROM submit_outbox
         WHERE application_id = a.id AND status IN ('pending', 'publishing') AND next_attempt_at < ${LATE}
         ORDER BY next_attempt_at LIMIT 1) o
     WHERE ${modeOf("a.id")} = 'live'
     ORDER BY o.next_attempt_at LIMIT 1)`;

/**
 * A first attempt's id tells when its message was accepted; only a successor is asked for its own time. The
 * row's due time would not do: it moves with every claim, and while Temporal is away it is always about now.
 */
const OLDEST_START = `(SELECT 'start' AS stage, i.attempt_id AS id, coalesce(a.created_at, m.created_at) AS since
      FROM inbox i JOIN messages m ON m.id = i.message_id LEFT JOIN attempts a ON a.id = i.attempt_id
     WHERE i.attempt_id < $2 AND coalesce(a.created_at, m.created_at) < ${LATE}
     ORDER BY i.attempt_id LIMIT 1)`;

/** No supplier is given longer to answer than ten minutes. */
const LONGEST_ANSWER = `${LATE} - interval '10 minutes'`;

const ALERT = statement<{ subject: string }>(
  "overdue.alert",
  `WITH overdue AS (
     ${OLDEST_START}
     UNION ALL ${OLDEST_COMMAND}
     UNION ALL ${oldest("answer", "submit_id", "taken_at", "takes WHERE kind = 'write' AND answered_at IS NULL", LONGEST_ANSWER)}
     UNION ALL ${OLDEST_EVENT}
     UNION ALL ${oldest("settle", "id", "due_at", "attempts WHERE decided_at IS NULL")}
     UNION ALL ${oldest("expire", "current_attempt_id", "expires_at", "messages WHERE final_at IS NULL")})
   INSERT INTO alerts (kind, subject, detail)
   SELECT 'work_overdue', stage, id || ' since ' || to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
     FROM overdue
   ON CONFLICT DO NOTHING
   RETURNING subject`,
);
