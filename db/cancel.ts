/**
 * A customer takes a message back, while nothing of it was written to a supplier. The one decision about
 * an attempt that its workflow does not make: it is committed under the same locks, and told afterwards.
 */
import { isFinal, type MessageStatus } from "../domain/message.ts";
import { type Database, type Session, statement } from "./client.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { endMessages } from "./settlement.ts";
import { addUntold } from "./untold.ts";

export type Cancelled = "canceled" | "already_sent" | "not_found";

export async function cancelMessage(
  database: Database,
  applicationId: string,
  id: string,
): Promise<Cancelled> {
  try {
    return await database.transaction((tx) => cancel(tx, applicationId, id));
  } catch (error) {
    if (error instanceof PartIsOnItsWay) return "already_sent";
    throw error;
  }
}

/** Rolls back the parts that were withdrawn before the one that a gateway had taken. */
class PartIsOnItsWay extends Error {}

async function cancel(tx: Session, applicationId: string, id: string): Promise<Cancelled> {
  const [current] = await tx.run(CURRENT, [id, applicationId]);
  if (current === undefined) return "not_found";
  await lockAttemptsAndMessages(tx, [current.attempt_id]);
  const [message] = await tx.run(READ, [id]);
  if (message === undefined) return "not_found";
  if (message.status === "canceled") return "canceled";
  if (isFinal(message.status) || message.written) return "already_sent";
  // A gateway may be taking a part this very moment; the first insert wins (C3).
  const parts = await tx.run(WITHDRAW_ALL, [message.current_attempt_id]);
  if (parts.some((part) => !part.withdrawn)) throw new PartIsOnItsWay();
  const ending = { messageId: id, attemptId: message.current_attempt_id, status: "canceled" as const };
  await endMessages(tx, [{ ...ending, reason: "canceled_by_customer" }]);
  await addUntold(tx, [message.current_attempt_id]);
  return "canceled";
}

const CURRENT = statement<{ attempt_id: string }>(
  "cancel.current",
  `SELECT current_attempt_id AS attempt_id FROM messages WHERE id = $1 AND application_id = $2`,
);

const READ = statement<{ status: MessageStatus; current_attempt_id: string; written: boolean }>(
  "cancel.read",
  `SELECT m.status, m.current_attempt_id,
          EXISTS (SELECT 1 FROM attempts a JOIN takes t ON t.submit_id = a.submit_id AND t.kind = 'write'
                   WHERE a.message_id = m.id) AS written
     FROM messages m WHERE m.id = $1`,
);

const WITHDRAW_ALL = statement<{ withdrawn: boolean }>(
  "cancel.withdraw_all",
  `WITH part AS (
     SELECT a.id, a.submit_id, s.part, s.supplier_id
       FROM attempts a JOIN segments s ON s.attempt_id = a.id WHERE a.id = $1),
   withdrawn AS (
     INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner)
     SELECT submit_id, part, 1, 'withdrawn', id, supplier_id, 'cancel' FROM part
     ON CONFLICT DO NOTHING
     RETURNING part)
   SELECT EXISTS (SELECT 1 FROM withdrawn w WHERE w.part = part.part) AS withdrawn FROM part`,
);
