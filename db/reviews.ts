/**
 * Attempts that wait for a person, and what a person's word does to them (D12, C7). Whatever it comes to,
 * also nothing, is an audit row; opening one raises an alert that stays until somebody clears it (K).
 */
import { type AttemptId, attemptIdOf, messageIdOf } from "../domain/ids.ts";
import { isFinal, type MessageStatus } from "../domain/message.ts";
import {
  type Resolution,
  type ResolutionAction,
  RESOLUTION_ACTIONS,
  type ResolveAnswer,
} from "../domain/steps.ts";
import { type Session, statement } from "./client.ts";
import { FITTING_CHANNELS } from "./fitting-channels.ts";
import { BLACKLISTED } from "./intake-rules.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { endMessages, replaceByASuccessor } from "./settlement.ts";
import { withdrawWhole } from "./takes.ts";

/** Opens reviews that are not there yet. Answers the attempts whose review is new. */
export async function openReviews(
  session: Session,
  found: readonly { attemptId: string; reason: string }[],
): Promise<string[]> {
  const rows = await session.run(OPEN, [
    found.map((it) => it.attemptId),
    found.map((it) => messageIdOf(it.attemptId)),
    found.map((it) => it.reason),
  ]);
  return rows.map((row) => row.attempt_id);
}

/** A step that was given up is worked again: it needs nobody any more. */
export async function closeReview(session: Session, attemptId: string): Promise<void> {
  await session.run(CLOSE, [attemptId]);
}

/**
 * What no rule may decide and nobody has seen: commands that are dead, and parts whose outcome has been
 * unknown for longer than `unknownForMs`.
 */
export async function unreviewed(
  session: Session,
  unknownForMs: number,
  limit: number,
): Promise<{ attemptId: string; reason: string }[]> {
  const rows = await session.run(UNREVIEWED, [unknownForMs, limit]);
  return rows.map((row) => ({ attemptId: row.attempt_id, reason: row.reason }));
}

/** Carries out a person's word in one transaction. A wrong or repeated one changes nothing and says so. */
export async function resolveReview(
  tx: Session,
  attemptId: string,
  resolution: Resolution,
): Promise<ResolveAnswer> {
  await lockAttemptsAndMessages(tx, [attemptId]);
  const [row] = await tx.run(READ, [attemptId, messageIdOf(attemptId)]);
  const answer = await effectOf(tx, row, attemptId, resolution.action);
  await noteEffect(tx, attemptId, resolution, answer.effect);
  return answer;
}

/** Every word leaves its row, whatever it came to. Answers the effect. */
export async function noteEffect(
  session: Session,
  attemptId: string,
  resolution: Resolution,
  effect: string,
): Promise<string> {
  const { action, by = "signal", note = null } = resolution;
  await session.run(AUDIT, [by, `resolve ${action}`, attemptId, note, effect]);
  return effect;
}

/** Id of the last audit row about an attempt, or 0. */
export async function newestAudit(session: Session, attemptId: string): Promise<bigint> {
  const [row] = await session.run(NEWEST_AUDIT, [attemptId]);
  return row?.id ?? 0n;
}

/** What was written down about an attempt after a row; undefined while there is nothing. */
export async function effectSince(
  session: Session,
  attemptId: string,
  after: bigint,
): Promise<string | undefined> {
  const [row] = await session.run(EFFECT_SINCE, [attemptId, after]);
  return row?.effect;
}

const none = (why: string): ResolveAnswer => ({ effect: `none: ${why}`, next: "go_on" });

async function effectOf(
  tx: Session,
  row: ReviewRow | undefined,
  attemptId: string,
  action: string,
): Promise<ResolveAnswer> {
  if (row === undefined) return none("there is no such message");
  if (!isAction(action)) return none(`the action is not one of ${RESOLUTION_ACTIONS.join(", ")}`);
  if (isFinal(row.status)) return none(`the message is ${row.status}`);
  if (row.current_attempt_id !== attemptId) return none("another attempt took its place");
  if (row.reason === null) return none("the attempt is not in review");
  switch (action) {
    case "retry_step":
      await tx.run(REVIVE, [attemptId]);
      await tx.run(CLOSE, [attemptId]);
      return { effect: "the step is tried again", next: "retry_step" };
    case "wait":
      await tx.run(WAIT, [attemptId]);
      return { effect: "it waits on, until the message's limit at the latest", next: "go_on" };
    case "mark_delivered":
      return mark(tx, attemptId, "delivered");
    case "mark_failed":
      return mark(tx, attemptId, "failed");
    case "allow_new_attempt":
      return allowNewAttempt(tx, row, attemptId);
  }
}

const isAction = (action: string): action is ResolutionAction =>
  (RESOLUTION_ACTIONS as readonly string[]).includes(action);

async function mark(tx: Session, attemptId: string, status: "delivered" | "failed"): Promise<ResolveAnswer> {
  const messageId = messageIdOf(attemptId);
  await endMessages(tx, [{ messageId, attemptId, status, reason: "resolved_by_a_person" }]);
  return { effect: `the message is ${status}`, next: "decided" };
}

/** A person accepts that a text whose fate is unknown may arrive twice. */
async function allowNewAttempt(tx: Session, row: ReviewRow, attemptId: string): Promise<ResolveAnswer> {
  if (row.number === null) return none("nothing was sent yet: use retry_step");
  if (!row.has_route) return none("no channel is left that may carry it");
  // What might still be written is withdrawn first; whoever takes a part first wins (C3).
  if (!(await withdrawWhole(tx, "review", attemptId))) return none("a part is on its way to the supplier");
  const successorId: AttemptId = attemptIdOf(messageIdOf(attemptId), row.number + 1);
  const replaced = {
    attempt_id: attemptId,
    message_id: messageIdOf(attemptId),
    successorId,
    outcome: "failed" as const,
    reason: "new_attempt_allowed_by_a_person",
  };
  await replaceByASuccessor(tx, [replaced], true);
  return { effect: `attempt ${successorId} takes its place`, next: "decided" };
}

interface ReviewRow {
  status: MessageStatus;
  current_attempt_id: string;
  number: number | null;
  reason: string | null;
  has_route: boolean;
}

const OPEN = statement<{ attempt_id: string }>(
  "reviews.open",
  `WITH found AS (
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS t(attempt_id, message_id, reason)),
   opened AS (
     INSERT INTO reviews (attempt_id, message_id, reason)
     SELECT found.* FROM found
       JOIN messages m ON m.id = found.message_id AND m.final_at IS NULL AND m.current_attempt_id = found.attempt_id
     ON CONFLICT (attempt_id) DO NOTHING
     RETURNING attempt_id, reason),
   alerted AS (
     INSERT INTO alerts (kind, subject, detail) SELECT 'needs_review', attempt_id, reason FROM opened
     ON CONFLICT DO NOTHING)
   SELECT attempt_id FROM opened`,
);

const CLOSE = statement<Record<string, never>>("reviews.close", `DELETE FROM reviews WHERE attempt_id = $1`);

const WAIT = statement<Record<string, never>>(
  "reviews.wait",
  `UPDATE reviews SET waiting_since = clock_timestamp() WHERE attempt_id = $1`,
);

const UNREVIEWED = statement<{ attempt_id: string; reason: string }>(
  "reviews.unreviewed",
  `(SELECT o.attempt_id, 'command_dead' AS reason
      FROM submit_outbox o
      JOIN attempts a ON a.id = o.attempt_id AND a.decided_at IS NULL
     WHERE o.status = 'dead' AND NOT EXISTS (SELECT 1 FROM reviews v WHERE v.attempt_id = o.attempt_id)
     LIMIT $2)
   UNION ALL
   (SELECT m.current_attempt_id, 'outcome_unknown'
      FROM messages m
     WHERE m.uncertain AND m.final_at IS NULL
       AND EXISTS (SELECT 1 FROM segments s
                    WHERE s.attempt_id = m.current_attempt_id AND s.result = 'unknown'
                      AND s.result_at < clock_timestamp() - $1 * interval '1 millisecond')
       AND NOT EXISTS (SELECT 1 FROM reviews v WHERE v.attempt_id = m.current_attempt_id)
     LIMIT $2)`,
);

const READ = statement<ReviewRow>(
  "reviews.read",
  `SELECT m.status, m.current_attempt_id, a.number, v.reason,
          p.active AND e.active AND NOT ${BLACKLISTED}
            AND EXISTS (SELECT 1 FROM ${FITTING_CHANNELS}) AS has_route
     FROM messages m
     JOIN applications p ON p.id = m.application_id
     JOIN enterprises e ON e.id = p.enterprise_id
     LEFT JOIN attempts a ON a.id = $1
     LEFT JOIN reviews v ON v.attempt_id = $1 AND v.waiting_since IS NULL
    WHERE m.id = $2`,
);

/** The row is claimable at once; its attempt's own publish or the sweeper brings it to the stream. */
const REVIVE = statement<Record<string, never>>(
  "reviews.revive",
  `UPDATE submit_outbox
      SET status = 'pending', attempt_count = 0, next_attempt_at = clock_timestamp(), last_error = NULL,
          updated_at = clock_timestamp()
    WHERE submit_id = (SELECT submit_id FROM attempts WHERE id = $1) AND status = 'dead'`,
);

const NEWEST_AUDIT = statement<{ id: bigint }>(
  "reviews.newest_audit",
  `SELECT id FROM audit_log WHERE subject = $1 ORDER BY id DESC LIMIT 1`,
);

const EFFECT_SINCE = statement<{ effect: string }>(
  "reviews.effect_since",
  `SELECT effect FROM audit_log WHERE subject = $1 AND id > $2 ORDER BY id LIMIT 1`,
);

const AUDIT = statement<Record<string, never>>(
  "reviews.audit",
  `INSERT INTO audit_log (actor, action, subject, note, effect) VALUES ($1, $2, $3, $4, $5)`,
);
