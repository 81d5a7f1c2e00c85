/**
 * A customer takes a message back, while nothing of it was written to a supplier. The one decision about
 * an attempt that its workflow does not make: it is committed under the same locks, and told afterwards.
 */
import { isFinal, type MessageStatus } from "../domain/message.ts";
import { type Database, type Session, statement } from "./client.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { attemptOf } from "./of-message.ts";
import { endMessages } from "./settlement.ts";
import { withdrawWhole } from "./takes.ts";
import { addUntold } from "./untold.ts";

export type Cancelled = "canceled" | "already_sent" | "not_found";

export const cancelMessage = (database: Database, applicationId: string, id: string): Promise<Cancelled> =>
  database.transaction((tx) => cancel(tx, applicationId, id));

async function cancel(tx: Session, applicationId: string, id: string): Promise<Cancelled> {
  const [current] = await tx.run(CURRENT, [id, applicationId]);
  if (current === undefined) return "not_found";
  await lockAttemptsAndMessages(tx, [current.attempt_id]);
  const [message] = await tx.run(READ, [id]);
  if (message === undefined) return "not_found";
  if (message.status === "canceled") return "canceled";
  if (isFinal(message.status) || message.written) return "already_sent";
  const attemptId = message.current_attempt_id;
  // A gateway may be taking a part this very moment.
  if (!(await withdrawWhole(tx, "cancel", attemptId))) return "already_sent";
  await endMessages(tx, [{ messageId: id, attemptId, status: "canceled", reason: "canceled_by_customer" }]);
  await addUntold(tx, [attemptId]);
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
                   WHERE ${attemptOf("m.id", "a.id")}) AS written
     FROM messages m WHERE m.id = $1`,
);
