/**
 * Attempts that a workflow has to take up, claimed in batches without holding anything (A2).
 *
 * What is due is compared with `statement_timestamp()`: an index cannot be searched for a time that
 * may change while the statement runs, and every row that is not due would be read.
 */
import { messageIdOf } from "../domain/ids.ts";
import { type Session, statement } from "./client.ts";

export interface DueAttempt {
  attemptId: string;
  messageId: string;
  /** 1 at the first claim; above it the start before came to nothing. */
  startCount: number;
}

/**
 * Claims due rows: the next claim of a row comes after 5, 10, 20 … 300 s, unless the attempt was
 * persisted or its message ended by then, which closes the row. So a crash needs no take-over.
 */
export async function claimDueAttempts(session: Session, limit: number): Promise<DueAttempt[]> {
  const rows = await session.run(CLAIM, [limit]);
  return rows.map((row) => ({
    attemptId: row.attempt_id,
    messageId: row.message_id,
    startCount: row.start_count,
  }));
}

/** Makes claims due again at once that this process could not start. */
export async function returnDueAttempts(session: Session, attemptIds: readonly string[]): Promise<void> {
  await session.run(RETURN, [attemptIds]);
}

/** Asks for the workflows of these undecided attempts to be started (again): told by nobody, or lost. */
export async function startAgain(session: Session, attemptIds: readonly string[]): Promise<number> {
  return (await session.run(AGAIN, [attemptIds, attemptIds.map(messageIdOf)])).length;
}

/**
 * After Temporal lost its data: every message that is not final gets its workflow back, in pages by
 * message id. Answers the last id of the page, and undefined when there is nothing left.
 */
export async function rebuildPage(
  session: Session,
  afterMessageId: string,
  limit: number,
): Promise<string | undefined> {
  const rows = await session.run(REBUILD, [afterMessageId, limit]);
  return rows.at(-1)?.message_id;
}

/** A page of attempts, and where the next one begins; undefined after the last. */
export interface Page {
  attemptIds: string[];
  next: PageStart | undefined;
}
type PageStart = readonly [since: string, id: string];

const FIRST_PAGE: PageStart = ["-infinity", ""];

/** Undecided attempts for which a decision has been due for longer than `ageMs`. */
export async function overdueDecisions(
  session: Session,
  ageMs: number,
  limit: number,
  start: PageStart = FIRST_PAGE,
): Promise<Page> {
  return pageOf(await session.run(OVERDUE, [ageMs, limit, ...start]), limit);
}

/** Current attempts of messages that passed their own limit more than `ageMs` ago and did not end. */
export async function overdueLimits(
  session: Session,
  ageMs: number,
  limit: number,
  start: PageStart = FIRST_PAGE,
): Promise<Page> {
  return pageOf(await session.run(PAST_LIMIT, [ageMs, limit, ...start]), limit);
}

function pageOf(rows: readonly { since: string; key: string; attempt_id: string }[], limit: number): Page {
  const last = rows.length < limit ? undefined : rows.at(-1);
  return {
    attemptIds: rows.map((row) => row.attempt_id),
    next: last === undefined ? undefined : [last.since, last.key],
  };
}

const CLAIM = statement<{ attempt_id: string; message_id: string; start_count: number }>(
  "due_attempts.claim",
  `UPDATE inbox
      SET start_count = start_count + 1,
          due_at = clock_timestamp() + least(300, 5 * power(2, least(start_count, 10))) * interval '1 second'
    WHERE attempt_id IN (
            SELECT attempt_id FROM inbox WHERE due_at <= statement_timestamp()
             ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
   RETURNING attempt_id, message_id, start_count`,
);

const RETURN = statement<Record<string, never>>(
  "due_attempts.return",
  `UPDATE inbox SET due_at = clock_timestamp() + interval '1 second', start_count = greatest(start_count - 1, 0)
    WHERE attempt_id = ANY($1::text[])`,
);

const AGAIN = statement<{ attempt_id: string }>(
  "due_attempts.again",
  `INSERT INTO inbox AS i (attempt_id, message_id)
   SELECT m.current_attempt_id, m.id FROM messages m
    WHERE m.id = ANY($2::text[]) AND m.current_attempt_id = ANY($1::text[]) AND m.final_at IS NULL
   ON CONFLICT (attempt_id) DO NOTHING
   RETURNING attempt_id`,
);

const REBUILD = statement<{ message_id: string }>(
  "due_attempts.rebuild",
  `WITH page AS (
     SELECT id, current_attempt_id FROM messages
      WHERE final_at IS NULL AND id > $1 ORDER BY id LIMIT $2),
   due AS (
     INSERT INTO inbox (attempt_id, message_id) SELECT current_attempt_id, id FROM page
     ON CONFLICT (attempt_id) DO UPDATE SET due_at = clock_timestamp(), start_count = 0)
   SELECT id AS message_id FROM page ORDER BY id`,
);

const OVERDUE = statement<{ since: string; key: string; attempt_id: string }>(
  "due_attempts.overdue",
  `SELECT due_at::text AS since, id AS key, id AS attempt_id FROM attempts
    WHERE decided_at IS NULL AND due_at < statement_timestamp() - $1 * interval '1 millisecond'
      AND (due_at, id) > ($3::timestamptz, $4)
    ORDER BY due_at, id LIMIT $2`,
);

const PAST_LIMIT = statement<{ since: string; key: string; attempt_id: string }>(
  "due_attempts.past_limit",
  `SELECT expires_at::text AS since, id AS key, current_attempt_id AS attempt_id FROM messages
    WHERE final_at IS NULL AND expires_at < statement_timestamp() - $1 * interval '1 millisecond'
      AND (expires_at, id) > ($3::timestamptz, $4)
    ORDER BY expires_at, id LIMIT $2`,
);
