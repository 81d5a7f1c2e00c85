/** The facts of one tier as they stand in PostgreSQL, for a verdict that shares no code with the product. */
import { type Session, statement } from "../db/client.ts";

/** Epoch milliseconds, as all times here. */
type At = number;

export interface MessageFact {
  id: string;
  application_id: string;
  status: string;
  reason: string | null;
  segment_count: number;
  price_units: bigint;
  current_attempt_id: string;
  created_at: At;
  final_at: At | null;
  expires_at: At;
}

export interface AttemptFact {
  id: string;
  message_id: string;
  application_id: string;
  retry_of: string | null;
  submit_id: string;
  channel_id: string | null;
  supplier_id: string | null;
  state: string;
  outcome: string | null;
  created_at: At;
  queued_at: At | null;
  published_at: At | null;
}

export interface SegmentFact {
  attempt_id: string;
  part: number;
  result: string | null;
  receipt: string | null;
  taken_at: At | null;
  result_at: At | null;
}

export interface TransferFact {
  key: string;
  kind: string;
  message_id: string;
  units: bigint;
}

export interface BillingFact {
  message_id: string;
  amount_units: bigint;
  refunded: boolean;
}

export interface NotificationFact {
  id: string;
  message_id: string;
  url: string;
  status: string;
}

export interface AccountFact {
  balance_units: bigint;
  held_units: bigint;
  floor_units: bigint;
}

export interface StoredFacts {
  messages: MessageFact[];
  attempts: AttemptFact[];
  segments: SegmentFact[];
  transfers: TransferFact[];
  billing: BillingFact[];
  notifications: NotificationFact[];
  account: AccountFact;
}

export async function readStored(
  session: Session,
  applications: readonly string[],
  accountId: string,
): Promise<StoredFacts> {
  const [account] = await session.run(ACCOUNT, [accountId]);
  if (account === undefined) throw new Error(`no account ${accountId}`);
  return {
    messages: await session.run(MESSAGES, [applications]),
    attempts: await session.run(ATTEMPTS, [applications]),
    segments: await session.run(SEGMENTS, [applications]),
    transfers: await session.run(TRANSFERS, [applications]),
    billing: await session.run(BILLING, [applications]),
    notifications: await session.run(NOTIFICATIONS, [applications]),
    account,
  };
}

const ms = (column: string): string => `(extract(epoch FROM ${column}) * 1000)::float8`;

const ACCOUNT = statement<AccountFact>(
  "load.account",
  "SELECT balance_units, held_units, floor_units FROM accounts WHERE id = $1",
);

const MESSAGES = statement<MessageFact>(
  "load.messages",
  `SELECT id, application_id, status, reason, segment_count, price_units, current_attempt_id,
     ${ms("created_at")} AS created_at, ${ms("final_at")} AS final_at, ${ms("expires_at")} AS expires_at
   FROM messages WHERE application_id = ANY($1)`,
);

const ATTEMPTS = statement<AttemptFact>(
  "load.attempts",
  `SELECT a.id, a.message_id, a.application_id, a.retry_of, a.submit_id, a.channel_id, a.supplier_id, a.state,
     a.outcome, ${ms("a.created_at")} AS created_at, ${ms("a.queued_at")} AS queued_at,
     ${ms("o.published_at")} AS published_at
   FROM attempts a LEFT JOIN submit_outbox o ON o.submit_id = a.submit_id WHERE a.application_id = ANY($1)`,
);

const SEGMENTS = statement<SegmentFact>(
  "load.segments",
  `SELECT s.attempt_id, s.part::int AS part, s.result, s.receipt, ${ms("s.result_at")} AS result_at,
     (SELECT ${ms("min(t.taken_at)")} FROM takes t
       WHERE t.submit_id = a.submit_id AND t.part = s.part AND t.kind = 'write') AS taken_at
   FROM segments s JOIN attempts a ON a.id = s.attempt_id WHERE a.application_id = ANY($1)`,
);

const TRANSFERS = statement<TransferFact>(
  "load.transfers",
  `SELECT l.key, l.kind, l.message_id, l.units FROM ledger_transfers l JOIN messages m ON m.id = l.message_id
   WHERE m.application_id = ANY($1)`,
);

const BILLING = statement<BillingFact>(
  "load.billing",
  `SELECT b.message_id, b.amount_units, b.refunded_at IS NOT NULL AS refunded
   FROM billing_records b JOIN messages m ON m.id = b.message_id WHERE m.application_id = ANY($1)`,
);

const NOTIFICATIONS = statement<NotificationFact>(
  "load.notifications",
  "SELECT id, message_id, url, status FROM notifications WHERE application_id = ANY($1)",
);

/** What a drained system has none of, over all applications: nothing else runs on it. */
export type LeftOver =
  | "messages"
  | "inbox"
  | "outbox"
  | "dead_commands"
  | "unanswered_takes"
  | "events"
  | "notifications"
  | "decisions";

export async function readLeftOver(session: Session): Promise<Record<LeftOver, number>> {
  const [row] = await session.run(LEFT_OVER);
  if (row === undefined) throw new Error("counting answers one row");
  return row;
}

const LEFT_OVER = statement<Record<LeftOver, number>>(
  "load.left_over",
  `SELECT (SELECT count(*) FROM messages WHERE final_at IS NULL)::int AS messages,
     (SELECT count(*) FROM inbox)::int AS inbox,
     (SELECT count(*) FROM submit_outbox WHERE status IN ('pending', 'publishing'))::int AS outbox,
     (SELECT count(*) FROM submit_outbox WHERE status = 'dead')::int AS dead_commands,
     (SELECT count(*) FROM takes WHERE kind = 'write' AND answered_at IS NULL)::int AS unanswered_takes,
     (SELECT count(*) FROM supplier_events WHERE folded_at IS NULL)::int AS events,
     (SELECT count(*) FROM notifications WHERE status = 'pending')::int AS notifications,
     (SELECT count(*) FROM attempts WHERE decided_at IS NULL)::int AS decisions`,
);

/** What a person was needed for, ever. */
export async function countPersonsWork(session: Session): Promise<number> {
  const [row] = await session.run(PERSONS);
  return row?.count ?? 0;
}

const PERSONS = statement<{ count: number }>(
  "load.persons",
  `SELECT (SELECT count(*) FROM reviews)::int + (SELECT count(*) FROM audit_log WHERE starts_with(subject, 'att_'))::int AS count`,
);

export async function databaseNow(session: Session): Promise<At> {
  const [row] = await session.run(NOW);
  if (row === undefined) throw new Error("the clock answers one row");
  return row.now;
}

const NOW = statement<{ now: At }>("load.now", `SELECT ${ms("clock_timestamp()")} AS now`);

/** Suppliers with at least one live connection. */
export async function countConnected(session: Session): Promise<number> {
  const [row] = await session.run(CONNECTED);
  return row?.count ?? 0;
}

const CONNECTED = statement<{ count: number }>(
  "load.connected",
  `SELECT count(DISTINCT supplier_id)::int AS count FROM connections
   WHERE connected AND heartbeat_at > clock_timestamp() - interval '15 seconds'`,
);

/** Channels of an application's attempts, the most used first. */
export const usedChannels = (session: Session, applicationId: string): Promise<{ channel_id: string }[]> =>
  session.run(USED, [applicationId]);

const USED = statement<{ channel_id: string }>(
  "load.used_channels",
  `SELECT channel_id FROM attempts WHERE application_id = $1 AND channel_id IS NOT NULL
   GROUP BY channel_id ORDER BY count(*) DESC, channel_id`,
);

/** Every command of these applications as if the stream had lost it: the sweeper publishes it again (L6). */
export async function replayOutbox(session: Session, applications: readonly string[]): Promise<number> {
  return (await session.run(REPLAY, [applications])).length;
}

const REPLAY = statement<Record<string, never>>(
  "load.replay",
  `UPDATE submit_outbox SET status = 'pending', next_attempt_at = clock_timestamp(), attempt_count = 0,
     last_error = 'replayed', updated_at = clock_timestamp()
   WHERE status = 'published' AND application_id = ANY($1) RETURNING 1`,
);

export interface ServerActivity {
  lock_waits: number;
  idle_in_transaction: number;
  longest_transaction_s: number;
  connections: number;
}

/** The neighbours of a disturbed run say who they are, and are not counted. */
export const NEIGHBOUR = "load-neighbour";

export async function readActivity(session: Session): Promise<ServerActivity> {
  const [row] = await session.run(ACTIVITY, [NEIGHBOUR]);
  if (row === undefined) throw new Error("counting answers one row");
  return row;
}

const ACTIVITY = statement<ServerActivity>(
  "load.activity",
  `SELECT count(*) FILTER (WHERE wait_event_type = 'Lock')::int AS lock_waits,
     count(*) FILTER (WHERE state LIKE 'idle in transaction%')::int AS idle_in_transaction,
     coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 AS longest_transaction_s,
     count(*) FILTER (WHERE application_name LIKE 'waybill-%')::int AS connections
   FROM pg_stat_activity
   WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
     AND application_name <> $1`,
);
