/** The first step: today's rules are checked and the price is held, each once a message (A3–A5). */
import { messageIdOf } from "../domain/ids.ts";
import { type IntakeFacts, type Refusal, refusalOf } from "../domain/intake.ts";
import { isFinal, type MessageStatus } from "../domain/message.ts";
import type { ReserveAnswer } from "../domain/steps.ts";
import { signatureOf } from "../domain/signature.ts";
import { matchesOne } from "../domain/template.ts";
import { type Session, statement } from "./client.ts";
import {
  BLACKLISTED,
  countTowardsLimits,
  LIMITED,
  lockLimits,
  OPERATOR,
  overLimits,
  prefixesOf,
  readTemplates,
} from "./intake-rules.ts";
import { reserve } from "./ledger.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { endMessages, type Ending } from "./settlement.ts";

/** Call it inside one transaction. A successor finds what its message holds and reserves nothing (A5). */
export async function reserveForAttempts(
  tx: Session,
  attemptIds: readonly string[],
): Promise<Map<string, ReserveAnswer>> {
  await lockAttemptsAndMessages(tx, attemptIds);
  const rows = await readFacts(tx, attemptIds.map(messageIdOf));
  const byMessage = new Map(rows.map((row) => [row.id, row]));
  const templates = await readTemplates(
    tx,
    rows.flatMap((row) => (row.template_required ? [row.application_id] : [])),
  );
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
      const refusal = refusalOf(intakeFacts(row, templates.get(row.application_id) ?? []));
      if (refusal === null) passing.push(row);
      else endings.push(ending(row, "refused", refusal));
    }
  }
  await keepWhatWasFound(tx, passing);
  // Endings move money only where some is held, and none is: the account lock still comes last.
  const refused = await holdWithinLimits(tx, passing);
  for (const row of passing) {
    const refusal = refused.get(row.id);
    if (refusal === undefined) answers.set(row.current_attempt_id, { kind: "reserved" });
    else endings.push(ending(row, "refused", refusal));
  }
  await endMessages(tx, endings);
  for (const it of endings) answers.set(it.attemptId, { kind: "ended", status: it.status });
  return answers;
}

/** Signature and operator depend on what is sealed, so it is opened first and asked for afterwards. */
async function readFacts(tx: Session, messageIds: readonly string[]): Promise<Row[]> {
  const { vault } = tx;
  const opened = (await tx.run(SEALED, [messageIds])).map((row) => ({
    id: row.id,
    text: vault.openText("messages.text", row.id, row.text_sealed),
    number: vault.openText("messages.number", row.id, row.number_sealed),
  }));
  const rows = await tx.run(FACTS, [
    opened.map((it) => it.id),
    opened.map((it) => signatureOf(it.text)),
    opened.map((it) => prefixesOf(vault, it.number)),
  ]);
  const texts = new Map(opened.map((it) => [it.id, it.text]));
  return rows.map((row) => ({ ...row, text: texts.get(row.id) ?? "" }));
}

const ending = (row: Row, status: Ending["status"], reason: string): Ending => ({
  messageId: row.id,
  attemptId: row.current_attempt_id,
  status,
  reason,
});

const intakeFacts = (row: Row, templates: readonly string[]): IntakeFacts => ({
  applicationActive: row.application_active,
  enterpriseActive: row.enterprise_active,
  signatureStatus: row.signature_status,
  templateMatched: !row.template_required || matchesOne(row.text, templates),
  blacklisted: row.blacklisted,
  operator: row.operator,
});

/**
 * Holds the price of those that the limits let pass, and counts them. A message that cannot be paid
 * counts towards no limit: whoever was kept out by it alone is looked at again. Those that passed before
 * pass again, and what they hold is not held twice.
 */
async function holdWithinLimits(tx: Session, rows: readonly Row[]): Promise<Map<string, Refusal>> {
  const messages = rows.map((row) => ({
    ...row,
    applicationId: row.application_id,
    recipient: row.number_hash,
  }));
  const limited = messages.filter((it) => it.limited);
  const limits = await lockLimits(tx, limited);
  const refused = new Map<string, Refusal>();
  for (;;) {
    const payable = messages.filter((it) => !refused.has(it.id));
    const over = overLimits(payable, limits);
    const within = payable.filter((it) => !over.has(it.id));
    const poor = await reserve(
      tx,
      within.map((it) => ({ messageId: it.id, accountId: it.account_id, units: it.price_units })),
    );
    for (const id of poor) refused.set(id, "insufficient_balance");
    if (poor.size > 0 && over.size > 0) continue;
    await countTowardsLimits(
      tx,
      within.filter((it) => !poor.has(it.id)),
      limits,
    );
    return new Map([...refused, ...over]);
  }
}

async function keepWhatWasFound(tx: Session, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.run(KEEP, [
    rows.map((row) => row.id),
    rows.map((row) => row.operator),
    rows.map((row) => row.signature_id),
  ]);
}

interface Row extends FactsRow {
  text: string;
}

interface FactsRow {
  id: string;
  application_id: string;
  account_id: string;
  number_hash: string;
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
  template_required: boolean;
  blacklisted: boolean;
  limited: boolean;
}

const SEALED = statement<{ id: string; text_sealed: Buffer; number_sealed: Buffer }>(
  "reservation.sealed",
  `SELECT id, text_sealed, number_sealed FROM messages WHERE id = ANY($1::text[])`,
);

/** A text with a signature of its own is sent under that one, any other under the default (§1). */
const FACTS = statement<FactsRow>(
  "reservation.facts",
  `SELECT m.id, m.application_id, m.account_id, m.number_hash, m.price_units, m.status, m.current_attempt_id,
          m.expires_at <= clock_timestamp() AS past_limit,
          EXISTS (SELECT 1 FROM ledger_transfers l WHERE l.key = 'reserve:' || m.id COLLATE "default") AS reserved,
          p.active AS application_active, e.active AS enterprise_active,
          ${OPERATOR} AS operator,
          s.id AS signature_id, s.status AS signature_status,
          p.template_required,
          ${BLACKLISTED} AS blacklisted,
          ${LIMITED} AS limited
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(id, signature, prefixes)
     JOIN messages m ON m.id = t.id
     JOIN applications p ON p.id = m.application_id
     JOIN enterprises e ON e.id = p.enterprise_id
     LEFT JOIN signatures s ON s.enterprise_id = m.enterprise_id
          AND CASE WHEN t.signature IS NULL THEN s.id = p.default_signature_id ELSE s.text = t.signature END
    ORDER BY m.id`,
);

const KEEP = statement<Record<string, never>>(
  "reservation.keep",
  `UPDATE messages m SET operator = t.operator, signature_id = t.signature_id
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(id, operator, signature_id)
    WHERE m.id = t.id`,
);
