/** Gathers the evidence: plain SQL over one connection of our own, plain HTTP to the suppliers' witness logs. */
import type pg from "pg";
import type {
  AttemptRow,
  Backlog,
  Facts,
  MessageRow,
  NotificationRow,
  Receipt,
  SegmentRow,
  Sighting,
  Submit,
  TakeRow,
  TransferRow,
} from "./evidence.ts";

export interface WitnessLog {
  name: string;
  logUrl: string;
}

export async function readWitnesses(
  logs: readonly WitnessLog[],
): Promise<{ submits: Submit[]; receipts: Receipt[] }> {
  const submits: Submit[] = [];
  const receipts: Receipt[] = [];
  for (const { name, logUrl } of logs) {
    for (const it of await readLog<Omit<Submit, "supplier">>(`${logUrl}/submits`)) {
      submits.push({ ...it, supplier: name });
    }
    for (const it of await readLog<Omit<Receipt, "supplier">>(`${logUrl}/receipts`)) {
      receipts.push({ ...it, supplier: name });
    }
  }
  return { submits, receipts };
}

async function readLog<Line>(url: string): Promise<Line[]> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(60_000) });
  if (!answer.ok) throw new Error(`a witness log answered ${answer.status}`);
  return (await answer.json()) as Line[];
}

/** All rows at one moment. */
export async function readFacts(database: pg.Client): Promise<Facts> {
  await database.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  try {
    return {
      messages: await readMessages(database),
      attempts: await rows<AttemptRow>(
        database,
        `SELECT a.id, a.message_id AS "messageId", a.number, a.retry_of AS "retryOf", a.submit_id AS "submitId",
                a.state, a.outcome, s.name AS "supplierName"
           FROM attempts a LEFT JOIN suppliers s ON s.id = a.supplier_id`,
      ),
      segments: await rows<SegmentRow>(
        database,
        `SELECT attempt_id AS "attemptId", part, result, receipt FROM segments`,
      ),
      takes: await rows<TakeRow>(
        database,
        `SELECT attempt_id AS "attemptId", part, write_number AS "writeNumber", kind, answer FROM takes`,
      ),
      transfers: await readTransfers(database),
      notifications: await rows<NotificationRow>(
        database,
        `SELECT id, message_id AS "messageId", status FROM notifications WHERE message_id IS NOT NULL`,
      ),
      allowedByPerson: (
        await rows<{ subject: string }>(
          database,
          `SELECT subject FROM audit_log WHERE action LIKE '%allow_new_attempt%'`,
        )
      ).map((it) => it.subject),
    };
  } finally {
    await database.query("COMMIT");
  }
}

async function readMessages(database: pg.Client): Promise<MessageRow[]> {
  const found = await rows<Omit<MessageRow, "priceUnits"> & { priceUnits: string }>(
    database,
    `SELECT id, reference, status, reason, uncertain, price_units::text AS "priceUnits",
            final_at IS NOT NULL AS "isFinal", expires_at > now() AS "withinLimit",
            current_attempt_id AS "currentAttemptId"
       FROM messages`,
  );
  return found.map((it) => ({ ...it, priceUnits: BigInt(it.priceUnits) }));
}

async function readTransfers(database: pg.Client): Promise<TransferRow[]> {
  const found = await rows<Omit<TransferRow, "units"> & { units: string }>(
    database,
    `SELECT key, kind, account_id AS "accountId", message_id AS "messageId", units::text AS units
       FROM ledger_transfers ORDER BY id`,
  );
  return found.map((it) => ({ ...it, units: BigInt(it.units) }));
}

/** Messages that were not final when last looked at, as they are now. */
export const readSightings = (database: pg.Client, since: Date): Promise<Sighting[]> =>
  rows<Sighting>(
    database,
    `SELECT id AS "messageId", status FROM messages WHERE final_at IS NULL OR final_at >= $1`,
    [since],
  );

/** Reviews that no fault of a few seconds may open; an outcome that stays unknown is listed by rule (D12). */
export const readReviews = (database: pg.Client): Promise<{ attemptId: string; reason: string }[]> =>
  rows(database, `SELECT attempt_id AS "attemptId", reason FROM reviews WHERE reason <> 'outcome_unknown'`);

/** How much is left to do of each kind of work (C9). */
export async function readBacklog(database: pg.Client): Promise<Backlog> {
  const [found] = await rows<Record<string, string>>(
    database,
    `SELECT (SELECT count(*) FROM messages WHERE final_at IS NULL) AS "messages not final",
            (SELECT count(*) FROM inbox) AS "inbox rows",
            (SELECT count(*) FROM attempts WHERE decided_at IS NULL) AS "attempts not decided",
            (SELECT count(*) FROM submit_outbox o JOIN attempts a ON a.id = o.attempt_id
              WHERE o.status IN ('pending', 'publishing') AND a.decided_at IS NULL) AS "commands not published",
            (SELECT count(*) FROM submit_outbox WHERE status = 'dead') AS "dead commands",
            (SELECT count(*) FROM takes k JOIN attempts a ON a.id = k.attempt_id
              WHERE k.kind = 'write' AND k.answered_at IS NULL) AS "writes without an outcome",
            (SELECT count(*) FROM supplier_events WHERE folded_at IS NULL AND kind <> 'receipt') AS "answers not folded",
            (SELECT count(*) FROM notifications WHERE status = 'pending') AS "notifications not delivered",
            (SELECT count(*) FROM untold) AS "workflows not told"`,
  );
  return Object.fromEntries(Object.entries(found ?? {}).map(([what, count]) => [what, Number(count)]));
}

/** Connections that the product holds, and those of them that sit in a transaction and do nothing (C11). */
export async function readConnections(
  database: pg.Client,
): Promise<{ open: number; idleInTransaction: number }> {
  const [found] = await rows<{ open: string; idle: string }>(
    database,
    `SELECT count(*) AS open,
            count(*) FILTER (WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '5 seconds') AS idle
       FROM pg_stat_activity WHERE application_name LIKE 'waybill-%'`,
  );
  return { open: Number(found?.open ?? 0), idleInTransaction: Number(found?.idle ?? 0) };
}

async function rows<Row extends object>(
  database: pg.Client,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return (await database.query<Row>(text, values)).rows;
}
