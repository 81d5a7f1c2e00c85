/**
 * How the whole of it stands, at one moment: depths, ages, rates, last errors. Every figure is read
 * along an index that holds only what is open, and counting ends at a bound.
 */
import { sortableId } from "../domain/ids.ts";
import { statement, type Session } from "./client.ts";
import type { PublicationMode } from "./publication.ts";
import { rfc3339 } from "./rfc3339.ts";

/** Something that waits to be done. */
export interface Backlog {
  /** At most COUNTED_AT_MOST. */
  count: number;
  /** Since the oldest one was due; null where nothing is. */
  oldestMs: number | null;
}

export interface Overview {
  as_of: string;
  mode: PublicationMode;
  intake: Backlog;
  outbox: Backlog;
  /** Commands that a person must revive or fail (C7). */
  dead: Backlog;
  /** Supplier events that nothing has made of yet. */
  events: Backlog;
  /** Of these, receipts that belong to nothing we know. */
  unmatched: Backlog;
  /** Attempts of which a decision is due. */
  decisions: Backlog;
  /** Parts written and not answered. */
  unanswered: Backlog;
  webhooks: Backlog;
  paused_hosts: number;
  reviews: Backlog;
  alerts: Backlog;
  /** Within the last RATE_WINDOW_SECONDS. */
  accepted: number;
  answers: number;
  receipts: number;
  suppliers: {
    id: string;
    name: string;
    active: boolean;
    connected: number;
    connections: number;
    lastError: string | null;
  }[];
  errors: { where: string; subject: string; error: string; at: string }[];
}

export const COUNTED_AT_MOST = 100_000;
export const RATE_WINDOW_SECONDS = 60;

export async function readOverview(session: Session, nowMs: number): Promise<Overview> {
  // Ids sort by time, so the newest messages are the end of the primary key.
  const since = `msg_${sortableId(nowMs - RATE_WINDOW_SECONDS * 1_000, new Uint8Array(10))}`;
  const [row] = await session.run(OVERVIEW, [since]);
  if (row === undefined) throw new Error("an overview is always one row");
  return row;
}

const backlog = (name: string, rows: string, due: string): string =>
  `(SELECT json_build_object(
      'count', (SELECT count(*) FROM (SELECT 1 FROM ${rows} LIMIT ${COUNTED_AT_MOST}) counted),
      'oldestMs', (SELECT CASE WHEN min(${due}) IS NOT NULL
                     THEN greatest(0, extract(epoch FROM clock_timestamp() - min(${due})) * 1000)::bigint END
                     FROM ${rows}))) AS ${name}`;

const UNFOLDED = "supplier_events WHERE folded_at IS NULL";
/** Supplier by supplier, along the index of what is due: the oldest of each is among them. */
const DUE_EVENTS = `(SELECT due_at FROM suppliers s CROSS JOIN LATERAL (
     SELECT due_at FROM ${UNFOLDED} AND supplier_id = s.id AND due_at <= statement_timestamp()
      ORDER BY due_at, id LIMIT ${COUNTED_AT_MOST}) of_one) due`;

/** The newest events by their key, as many as may arrive in the window at twice the largest tier (L). */
const NEWEST_EVENTS = `(SELECT kind, received_at FROM supplier_events ORDER BY id DESC LIMIT 60000) newest
  WHERE received_at > clock_timestamp() - interval '${RATE_WINDOW_SECONDS} seconds'`;

const OVERVIEW = statement<Overview>(
  "overview.read",
  `SELECT ${rfc3339("clock_timestamp()")} AS as_of,
     coalesce((SELECT mode FROM publication), 'live') AS mode,
     ${backlog("intake", "inbox", "due_at")},
     ${backlog("outbox", "submit_outbox WHERE status IN ('pending', 'publishing')", "next_attempt_at")},
     ${backlog("dead", "submit_outbox WHERE status = 'dead'", "updated_at")},
     ${backlog("events", DUE_EVENTS, "due_at")},
     ${backlog("unmatched", `${UNFOLDED} AND kind = 'receipt' AND try_count > 0`, "received_at")},
     ${backlog("decisions", "attempts WHERE decided_at IS NULL AND due_at IS NOT NULL", "due_at")},
     ${backlog("unanswered", "takes WHERE kind = 'write' AND answered_at IS NULL", "taken_at")},
     ${backlog("webhooks", "notifications WHERE status = 'pending'", "next_try_at")},
     (SELECT count(*)::int FROM webhook_hosts WHERE paused_until > clock_timestamp()) AS paused_hosts,
     ${backlog("reviews", "reviews WHERE waiting_since IS NULL", "since")},
     ${backlog("alerts", "alerts WHERE cleared_at IS NULL", "raised_at")},
     (SELECT count(*)::int FROM messages WHERE id >= $1) AS accepted,
     events.answers, events.receipts,
     (SELECT coalesce(json_agg(supplier ORDER BY supplier.name, supplier.id), '[]') FROM (
        SELECT s.id, s.name, s.active, count(n.slot)::int AS connections,
               count(*) FILTER (WHERE n.connected
                 AND n.heartbeat_at > clock_timestamp() - interval '10 seconds')::int AS connected,
               (array_agg(n.last_error ORDER BY n.heartbeat_at DESC)
                 FILTER (WHERE n.last_error IS NOT NULL))[1] AS "lastError"
          FROM suppliers s LEFT JOIN connections n ON n.supplier_id = s.id GROUP BY s.id) supplier) AS suppliers,
     (SELECT coalesce(json_agg(json_build_object('where', 'outbox', 'subject', failed.submit_id,
               'error', failed.last_error, 'at', ${rfc3339("failed.updated_at")})), '[]') FROM (
        (SELECT submit_id, last_error, updated_at FROM submit_outbox
          WHERE status = 'dead' ORDER BY updated_at DESC LIMIT 5)
        UNION ALL
        (SELECT submit_id, last_error, updated_at FROM submit_outbox
          WHERE status IN ('pending', 'publishing') AND last_error IS NOT NULL
          ORDER BY next_attempt_at DESC LIMIT 5)) failed) AS errors
   FROM (SELECT count(*) FILTER (WHERE kind = 'response')::int AS answers,
                count(*) FILTER (WHERE kind = 'receipt')::int AS receipts FROM ${NEWEST_EVENTS}) events`,
);
