/** The order in which every transaction locks: attempt, message, and last of all the account (D11). */
import { messageIdOf } from "../domain/ids.ts";
import { type Session, statement } from "./client.ts";

/**
 * Sorted by id within each table. What must be seen as of the locks is read by a later statement. They
 * are not key locks: a take row that refers to the attempt is inserted beside them, or a decision that
 * withdraws a part and a gateway that takes it would wait for each other.
 */
export async function lockAttemptsAndMessages(tx: Session, attemptIds: readonly string[]): Promise<void> {
  await tx.run(LOCK_ATTEMPTS, [attemptIds]);
  await tx.run(LOCK_MESSAGES, [[...new Set(attemptIds.map(messageIdOf))]]);
}

const LOCK_ATTEMPTS = statement<{ id: string }>(
  "locks.attempts",
  `SELECT id FROM attempts WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
);

const LOCK_MESSAGES = statement<{ id: string }>(
  "locks.messages",
  `SELECT id FROM messages WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
);
