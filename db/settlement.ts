/**
 * Every final state goes through here: state, money and what the customer is told commit together,
 * or nothing does (D10). Whoever comes second finds it done and changes nothing.
 *
 * Locks are taken in the order attempt, message, account (D11).
 */
import {
  type AttemptId,
  attemptIdOf,
  type MessageId,
  messageIdOf,
  notificationIdOf,
  submitIdOf,
} from "../domain/ids.ts";
import { type FinalStatus, isFinal, type MessageStatus, type ReceiptMode } from "../domain/message.ts";
import { judge, type SegmentFacts } from "../domain/outcome.ts";
import { decide, type Decision } from "../domain/retry.ts";
import type { SettleAnswer } from "../domain/steps.ts";
import { HOPELESS, type Hopeless } from "../domain/supplier-codes.ts";
import { notificationBody } from "../domain/webhook.ts";
import { type Session, statement } from "./client.ts";
import { FITTING_CHANNELS } from "./fitting-channels.ts";
import { BLACKLISTED } from "./intake-rules.ts";
import { charge, giveBack, lockHolders } from "./ledger.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { attemptOf } from "./of-message.ts";
import { withdraw } from "./takes.ts";
import type { Vault } from "./vault.ts";

/** How a message ends, decided by whoever calls; `attemptId` is its current attempt. */
export interface Ending {
  messageId: string;
  attemptId: string;
  status: FinalStatus;
  reason: string | null;
}

/**
 * Judges attempts by the facts there are and commits what follows. Call it inside one transaction.
 * Attempts that nobody knows are left out of the answer.
 */
export async function settle(tx: Session, attemptIds: readonly string[]): Promise<Map<string, SettleAnswer>> {
  await lockAttemptsAndMessages(tx, attemptIds);
  const locked = await tx.run(LOCKED, [attemptIds]);
  const answers = new Map<string, SettleAnswer>();
  const open: Locked[] = [];
  for (const it of locked) {
    const before = whatStands(it);
    if (before === undefined) open.push(it);
    else answers.set(it.attempt_id, before);
  }
  // A statement of its own, after the locks: only then does it see what others committed meanwhile.
  const segments = await readSegments(
    tx,
    open.map((it) => it.attempt_id),
  );
  const endings: Ending[] = [];
  const retries: Retry[] = [];
  const waiting: string[] = [];
  for (const it of open) {
    const decision = decisionOn(it, segments.get(it.attempt_id) ?? []);
    if (decision.kind === "end") {
      const { status, reason } = decision;
      endings.push({ messageId: it.message_id, attemptId: it.attempt_id, status, reason });
      answers.set(it.attempt_id, { kind: "final", status });
    } else if (decision.kind === "retry") {
      const successorId = attemptIdOf(it.message_id as MessageId, it.number + 1);
      retries.push({ ...it, successorId, outcome: decision.outcome, reason: decision.reason });
      answers.set(it.attempt_id, { kind: "retrying", successorId });
    } else {
      waiting.push(it.attempt_id);
      answers.set(it.attempt_id, {
        kind: "waiting",
        limitInMs: it.limit_in_ms,
        review: it.review_reason,
      });
    }
  }
  if (waiting.length > 0) await tx.run(NOTHING_DUE, [waiting]);
  await replaceByASuccessor(tx, retries);
  await endMessages(tx, endings);
  return answers;
}

/**
 * Ends messages: the caller holds the locks of their attempts (where they exist) and of the messages.
 * A message that is final already is left as it is. Answers the ids of those that ended now.
 */
export async function endMessages(tx: Session, endings: readonly Ending[]): Promise<Set<string>> {
  if (endings.length === 0) return new Set();
  // First of all, so that a write which a gateway took this very moment is seen when it counts (C3).
  await withdraw(
    tx,
    endings.map((it) => it.attemptId),
  );
  const ended = await tx.run(END, [
    endings.map((it) => it.messageId),
    endings.map((it) => it.status),
    endings.map((it) => it.reason),
    endings.map((it) => it.attemptId),
    endings.flatMap((it) => attemptsUpTo(it.attemptId)),
  ]);
  await notify(tx, ended);
  await moveMoney(tx, ended);
  return new Set(ended.map((row) => row.id));
}

/** An earlier attempt's row may be back in the inbox, asked for by the sweeper before it was replaced. */
function attemptsUpTo(attemptId: string): string[] {
  const messageId = messageIdOf(attemptId);
  const number = Number(attemptId.slice(attemptId.lastIndexOf("_") + 1));
  return Array.from({ length: number }, (_, index) => attemptIdOf(messageId, index + 1));
}

/** The answer where there is nothing left to decide: the second run of a step ends here. */
function whatStands(it: Locked): SettleAnswer | undefined {
  if (it.current_attempt_id !== it.attempt_id) {
    return { kind: "retrying", successorId: it.successor_id ?? it.current_attempt_id };
  }
  return isFinal(it.status) ? { kind: "final", status: it.status } : undefined;
}

type Decided =
  | Exclude<Decision, { kind: "end" }>
  | { kind: "end"; status: FinalStatus; reason: string | null };

function decisionOn(it: Locked, segments: readonly SegmentFacts[]): Decided {
  const outcome =
    segments.length === 0 ? ({ kind: "waiting" } as const) : judge(segments, it.receipt_mode, hopelessOf(it));
  const decision = decide(outcome, {
    attemptNumber: it.number,
    maxAttempts: it.max_attempts,
    withinTime: it.within_retry_window && it.limit_in_ms > 0,
    mayStillSend: it.may_still_send,
    anotherChannel: it.another_channel,
  });
  // Facts that are there are judged first: a receipt that came in time is worth more than the limit.
  return decision.kind === "wait" && it.limit_in_ms <= 0
    ? { kind: "end", status: "expired", reason: "time_limit_passed" }
    : decision;
}

/** A profile that says nothing of it, or nothing that can be read, leaves what holds for all. */
const hopelessOf = ({ hopeless_results, hopeless_stats }: Locked): Hopeless => ({
  results: hopeless_results ?? HOPELESS.results,
  stats: hopeless_stats?.map((stat) => stat.trim().toUpperCase()) ?? HOPELESS.stats,
});

export interface Retry {
  attempt_id: string;
  message_id: string;
  successorId: AttemptId;
  outcome: "undelivered" | "failed";
  reason: string;
}

/** Decision, successor and the message's new current attempt in one (D6); intake finds the inbox row. */
export async function replaceByASuccessor(
  tx: Session,
  retries: readonly Retry[],
  mayRepeatChannels = false,
): Promise<void> {
  if (retries.length === 0) return;
  const attempts = retries.map((it) => it.attempt_id);
  await tx.run(DECIDE, [attempts, retries.map((it) => it.outcome), retries.map((it) => it.reason)]);
  await tx.run(SUCCEED, [
    attempts,
    retries.map((it) => it.successorId),
    retries.map((it) => submitIdOf(it.successorId)),
    mayRepeatChannels,
  ]);
  await tx.run(CLOSE_REVIEWS, [retries.map((it) => it.message_id)]);
}

async function readSegments(tx: Session, attempts: string[]): Promise<Map<string, SegmentFacts[]>> {
  const grouped = new Map<string, SegmentFacts[]>();
  if (attempts.length === 0) return grouped;
  for (const row of await tx.run(SEGMENTS, [attempts])) {
    const facts: SegmentFacts = {
      part: row.part,
      result: row.result,
      resultCode: row.result_code,
      receipt: row.receipt,
      receiptStat: row.receipt_stat,
    };
    const list = grouped.get(row.attempt_id);
    if (list === undefined) grouped.set(row.attempt_id, [facts]);
    else list.push(facts);
  }
  return grouped;
}

/** One notification a message and target, its bytes fixed now so that every try signs the same (E1). */
async function notify(tx: Session, ended: readonly Ended[]): Promise<void> {
  const told = ended.flatMap((row) => (row.url === null ? [] : [{ ...row, url: row.url }]));
  if (told.length === 0) return;
  await tx.run(NOTIFY, [
    told.map((row) => notificationIdOf(row.id as MessageId, 0)),
    told.map((row) => row.id),
    told.map((row) => row.application_id),
    told.map((row) => row.url),
    told.map((row) => sealedBody(tx.vault, row)),
  ]);
}

function sealedBody(vault: Vault, row: Ended): Buffer {
  const messageId = row.id as MessageId;
  const id = notificationIdOf(messageId, 0);
  const body = notificationBody({
    id,
    messageId,
    to: vault.openText("messages.number", row.id, row.number_sealed),
    status: row.status,
    reason: row.reason,
    segments: row.segment_count,
    priceUnits: row.price_units,
    currency: row.currency,
    reference: row.reference,
    finalAt: row.final_at.toISOString(),
  });
  return vault.seal("notifications.body", id, body);
}

/** Delivered keeps or takes the money; every other end gives it back (D5, D7). */
async function moveMoney(tx: Session, ended: readonly Ended[]): Promise<void> {
  // Most were charged when their supplier accepted them: then the account, on which all wait, is left alone.
  const moving = ended.filter((row) => row.status !== "delivered" || !row.is_closed);
  // Both kinds at once, in one order: two batches must not lock their accounts crosswise.
  await lockHolders(
    tx,
    moving.map((row) => row.id),
  );
  const taken = moving.filter((row) => row.status === "delivered");
  await charge(
    tx,
    taken.map((row) => ({ messageId: row.id, attemptId: row.current_attempt_id })),
  );
  await giveBack(
    tx,
    moving.filter((row) => row.status !== "delivered").map((row) => row.id),
  );
}

interface Locked {
  attempt_id: string;
  message_id: string;
  number: number;
  receipt_mode: ReceiptMode;
  hopeless_results: number[] | null;
  hopeless_stats: string[] | null;
  current_attempt_id: string;
  successor_id: string | null;
  status: MessageStatus;
  limit_in_ms: number;
  within_retry_window: boolean;
  max_attempts: number;
  may_still_send: boolean;
  another_channel: boolean;
  review_reason: string | null;
}

/** SQL over `suppliers u`: a list of its profile; null where it has none. */
const listIn = (field: string): string =>
  `CASE WHEN jsonb_typeof(u.profile->'${field}') = 'array' THEN u.profile->'${field}' END`;

/** Read after both locks. Retry re-checks today's rules: application, enterprise, recipient, group, filing (D6). */
const LOCKED = statement<Locked>(
  "settlement.locked",
  `SELECT a.id AS attempt_id, a.message_id, a.number, coalesce(a.receipt_mode, 'per_segment') AS receipt_mode,
          ${listIn("hopelessResults")} AS hopeless_results, ${listIn("hopelessStats")} AS hopeless_stats,
          m.current_attempt_id, m.status,
          (SELECT s.id FROM attempts s
            WHERE s.id = 'att_' || substr(a.message_id, 5) || '_' || (a.number + 1)::text) AS successor_id,
          (extract(epoch FROM m.expires_at - clock_timestamp()) * 1000)::float8 AS limit_in_ms,
          clock_timestamp() < m.created_at + make_interval(secs => g.retry_window_seconds) AS within_retry_window,
          g.max_attempts,
          p.active AND e.active AND NOT ${BLACKLISTED} AS may_still_send,
          EXISTS (SELECT 1 FROM ${FITTING_CHANNELS}
                     AND NOT EXISTS (SELECT 1 FROM attempts tried
                                      WHERE ${attemptOf("m.id", "tried.id")} AND tried.channel_id = c.id))
            AS another_channel,
          (SELECT v.reason FROM reviews v WHERE v.attempt_id = a.id COLLATE "default" AND v.waiting_since IS NULL) AS review_reason
     FROM attempts a
     LEFT JOIN suppliers u ON u.id = a.supplier_id
     JOIN messages m ON m.id = a.message_id
     JOIN applications p ON p.id = m.application_id
     JOIN enterprises e ON e.id = p.enterprise_id
     JOIN channel_groups g ON g.id = p.channel_group_id
    WHERE a.id = ANY($1::text[])
    ORDER BY a.id`,
);

const SEGMENTS = statement<{
  attempt_id: string;
  part: number;
  result: SegmentFacts["result"];
  result_code: number | null;
  receipt: SegmentFacts["receipt"];
  receipt_stat: string | null;
}>(
  "settlement.segments",
  `SELECT attempt_id, part, result, result_code, receipt, receipt_stat
     FROM segments WHERE attempt_id = ANY($1::text[]) ORDER BY attempt_id, part`,
);

const NOTHING_DUE = statement<Record<string, never>>(
  "settlement.nothing_due",
  `UPDATE attempts SET due_at = NULL WHERE id = ANY($1::text[]) AND due_at IS NOT NULL`,
);

interface Ended {
  id: string;
  application_id: string;
  current_attempt_id: string;
  number_sealed: Buffer;
  status: FinalStatus;
  reason: string | null;
  segment_count: number;
  price_units: bigint;
  currency: string;
  reference: string | null;
  final_at: Date;
  url: string | null;
  /** Its reservation was charged or released before. */
  is_closed: boolean;
}

/**
 * The attempt's decision, and whatever still asks for a workflow or a person, in the same statement. Inbox
 * rows are found by the ids that the message's attempts have: by message there is no index.
 */
const END = statement<Ended>(
  "settlement.end",
  `WITH ended AS (
   UPDATE messages m
      SET status = t.status, reason = t.reason, final_at = clock_timestamp(),
          uncertain = t.status = 'expired' AND (m.uncertain OR EXISTS (
            SELECT 1 FROM attempts a JOIN takes k ON k.submit_id = a.submit_id
             WHERE a.id = m.current_attempt_id AND k.kind = 'write' AND k.answer IS NULL))
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS t(id, status, reason, attempt_id), applications p
    WHERE m.id = t.id AND p.id = m.application_id AND m.final_at IS NULL
   RETURNING m.id, m.application_id, m.current_attempt_id, m.number_sealed, m.status, m.reason,
             m.segment_count, m.price_units, m.currency, m.reference, m.final_at,
             coalesce(m.webhook_url, p.webhook_url) AS url, t.attempt_id),
   decided AS (
     UPDATE attempts a
        SET state = 'decided', outcome = ended.status, reason = ended.reason, decided_at = clock_timestamp(),
            due_at = NULL
       FROM ended WHERE a.id = ended.attempt_id AND a.decided_at IS NULL),
   taken_up AS (DELETE FROM inbox WHERE attempt_id = ANY($5::text[])),
   reviewed AS (DELETE FROM reviews WHERE message_id IN (SELECT id FROM ended))
   SELECT ended.*, EXISTS (SELECT FROM ledger_transfers l WHERE l.key = 'close:' || ended.id) AS is_closed
     FROM ended`,
);

const DECIDE = statement<Record<string, never>>(
  "settlement.decide",
  `UPDATE attempts a
      SET state = 'decided', outcome = t.outcome, reason = t.reason, decided_at = clock_timestamp(),
          due_at = NULL
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(id, outcome, reason)
    WHERE a.id = t.id AND a.decided_at IS NULL`,
);

const CLOSE_REVIEWS = statement<Record<string, never>>(
  "settlement.close_reviews",
  `DELETE FROM reviews WHERE message_id = ANY($1::text[])`,
);

const SUCCEED = statement<Record<string, never>>(
  "settlement.succeed",
  `WITH successor AS (
     INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
                           segment_count, may_repeat_channels)
     SELECT t.successor_id, a.message_id, a.enterprise_id, a.application_id, a.number + 1, a.id, t.submit_id,
            'planned', a.segment_count, $4
       FROM unnest($1::text[], $2::text[], $3::text[]) AS t(id, successor_id, submit_id)
       JOIN attempts a ON a.id = t.id
     RETURNING id, message_id),
   due AS (INSERT INTO inbox (attempt_id, message_id) SELECT id, message_id FROM successor)
   UPDATE messages m SET current_attempt_id = successor.id, uncertain = false
     FROM successor WHERE m.id = successor.message_id`,
);

const NOTIFY = statement<Record<string, never>>(
  "settlement.notify",
  `INSERT INTO notifications (id, message_id, application_id, url, body_sealed)
   SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[])
   ON CONFLICT DO NOTHING`,
);
