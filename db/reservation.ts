/** The first step: today's rules are checked and the price is held, each once a message (A3–A5). */
import { messageIdOf } from "../domain/ids.ts";
import { type IntakeFacts, refusalOf } from "../domain/intake.ts";
import { isFinal, type MessageStatus } from "../domain/message.ts";
import type { ReserveAnswer } from "../domain/steps.ts";
import { type Session, statement } from "./client.ts";
import { reserve } from "./ledger.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { endMessages, type Ending } from "./settlement.ts";

/** Call it inside one transaction. A successor finds what its message holds and reserves nothing (A5). */
export async function reserveForAttempts(
  tx: Session,
  attemptIds: readonly string[],
): Promise<Map<string, ReserveAnswer>> {
  await lockAttemptsAndMessages(tx, attemptIds);
  const rows = await tx.run(FACTS, [attemptIds.map(messageIdOf)]);
  const byMessage = new Map(rows.map((row) => [row.id, row]));
  const answers = new Map<string, ReserveAnswer>();
  const endings: Ending[] = [];
  const passing: Row[] = [];
  for (const attemptId of new Set(attemptIds)) {
    const row = byMessage.get(messageIdOf(attemptId));
    if (row === undefined) continue;
    if (isFinal(row.status)) answers.set(attemptId, { kind: "ended", status: row.status });
    else if (row.current_attempt_id !== attemptId) answers.set(attemptId, { kind: "superseded" });
    else if (row.reserved) answers.set(attemptId, { kind: "reserved" });
    else if (row.past_limit) endings.push(ending(row, "expired", "time_limit_passed"));
    else {
      const refusal = refusalOf(intakeFacts(row));
      if (refusal === null) passing.push(row);
      else endings.push(ending(row, "refused", refusal));
    }
  }
  await keepWhatWasFound(tx, passing);
  // Endings move money only where some is held, and none is: the account lock still comes last.
  const poor = await reserve(
    tx,
    passing.map((row) => ({ messageId: row.id, accountId: row.account_id, units: row.price_units })),
  );
  for (const row of passing) {
    if (poor.has(row.id)) endings.push(ending(row, "refused", "insufficient_balance"));
    else answers.set(row.current_attempt_id, { kind: "reserved" });
  }
  await endMessages(tx, endings);
  for (const it of endings) answers.set(it.attemptId, { kind: "ended", status: it.status });
  return answers;
}

const ending = (row: Row, status: Ending["status"], reason: string): Ending => ({
  messageId: row.id,
  attemptId: row.current_attempt_id,
  status,
  reason,
});

const intakeFacts = (row: Row): IntakeFacts => ({
  applicationActive: row.application_active,
  enterpriseActive: row.enterprise_active,
  signatureStatus: row.signature_status,
  operator: row.operator,
});

async function keepWhatWasFound(tx: Session, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.run(KEEP, [
    rows.map((row) => row.id),
    rows.map((row) => row.operator),
    rows.map((row) => row.signature_id),
  ]);
}

interface Row {
  id: string;
  account_id: string;
  price_units: bigint;
  status: MessageStatus;
  current_attempt_id: string;
  reserved: boolean;
  past_limit: boolean;
  application_active: boolean;
  enterprise_active: boolean;
  operator: string | null;
  signature_id: string | null;
  signature_status: IntakeFacts["signatureStatus"];
}

/** A text with a signature of its own is sent under that one, any other under the default (§1). */
const FACTS = statement<Row>(
  "reservation.facts",
  `SELECT m.id, m.account_id, m.price_units, m.status, m.current_attempt_id,
          m.expires_at <= clock_timestamp() AS past_limit,
          EXISTS (SELECT 1 FROM ledger_transfers t WHERE t.key = 'reserve:' || m.id) AS reserved,
          p.active AS application_active, e.active AS enterprise_active,
          (SELECT n.operator FROM number_prefixes n
            WHERE n.prefix IN (left(m.number, 3), left(m.number, 4), left(m.number, 7))
            ORDER BY length(n.prefix) DESC LIMIT 1) AS operator,
          s.id AS signature_id, s.status AS signature_status
     FROM messages m
     JOIN applications p ON p.id = m.application_id
     JOIN enterprises e ON e.id = p.enterprise_id
     LEFT JOIN signatures s ON s.enterprise_id = m.enterprise_id
          AND CASE WHEN m.text ~ '^【[^】]+】' THEN s.text = substring(m.text FROM '^【[^】]+】')
                   ELSE s.id = p.default_signature_id END
    WHERE m.id = ANY($1::text[])
    ORDER BY m.id`,
);

const KEEP = statement<Record<string, never>>(
  "reservation.keep",
  `UPDATE messages m SET operator = t.operator, signature_id = t.signature_id
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(id, operator, signature_id)
    WHERE m.id = t.id`,
);
