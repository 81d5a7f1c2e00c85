/**
 * Committing an attempt: the attempt, its segments, the message's state and the command in the
 * outbox, in one short transaction whose statement checks again that all still holds (B2, B3).
 */
import { COMMAND_VERSION, type SubmitCommand } from "../domain/command.ts";
import { messageIdOf, submitIdOf, type AttemptId } from "../domain/ids.ts";
import { isFinal, type MessageStatus } from "../domain/message.ts";
import type { Considered } from "../domain/route.ts";
import { splitText } from "../domain/segment.ts";
import type { PersistAnswer } from "../domain/steps.ts";
import { type Session, statement } from "./client.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { sealedCommand } from "./sealed-command.ts";
import type { Vault } from "./vault.ts";

export interface Planned {
  attemptId: string;
  channelId: string;
  considered: Considered[];
}

/** Call it inside one transaction. What fails the re-check is planned again alone; its mates commit. */
export async function persistAttempts(
  tx: Session,
  planned: readonly Planned[],
): Promise<Map<string, PersistAnswer>> {
  const byAttempt = new Map(planned.map((it) => [it.attemptId, it]));
  const attemptIds = [...byAttempt.keys()];
  await lockAttemptsAndMessages(tx, attemptIds);
  const rows = await tx.run(READ, [
    attemptIds,
    attemptIds.map(messageIdOf),
    attemptIds.map((id) => byAttempt.get(id)?.channelId),
  ]);
  const answers = new Map<string, PersistAnswer>();
  const fresh: Row[] = [];
  for (const row of rows) {
    const before = whatStands(row);
    if (before === undefined) fresh.push(row);
    else answers.set(row.attempt_id, before);
  }
  const committed = await commit(tx, fresh, byAttempt);
  for (const row of fresh) {
    answers.set(
      row.attempt_id,
      committed.has(row.attempt_id)
        ? { kind: "queued", existing: false, limitInMs: row.limit_in_ms }
        : { kind: "replan" },
    );
  }
  // Those that were committed now have closed theirs in the same statement.
  const stood = rows.flatMap(({ attempt_id: id }) =>
    committed.has(id) || answers.get(id)?.kind === "replan" ? [] : [id],
  );
  if (stood.length > 0) await tx.run(CLOSE_INBOX, [stood]);
  return answers;
}

/** Those of the attempts on which nothing is decided yet. */
export async function undecidedOf(session: Session, attemptIds: readonly string[]): Promise<string[]> {
  return (await session.run(UNDECIDED, [attemptIds])).map((row) => row.id);
}

/** A run that was committed before is found here: the existing attempt is used (I). */
function whatStands(row: Row): PersistAnswer | undefined {
  if (isFinal(row.status)) return { kind: "ended", status: row.status };
  if (row.current_attempt_id !== row.attempt_id) return { kind: "superseded" };
  if (row.state === "queued") return { kind: "queued", existing: true, limitInMs: row.limit_in_ms };
  return undefined;
}

async function commit(
  tx: Session,
  rows: readonly Row[],
  planned: ReadonlyMap<string, Planned>,
): Promise<Set<string>> {
  if (rows.length === 0) return new Set();
  const references = await nextReferences(
    tx,
    rows.filter((row) => row.segment_count > 1),
  );
  const records = rows.map((row) => ({
    attempt_id: row.attempt_id,
    message_id: row.message_id,
    submit_id: submitIdOf(row.attempt_id as AttemptId),
    number: row.number,
    channel_id: row.channel_id,
    route: planned.get(row.attempt_id)?.considered ?? [],
    payload: sealedCommand(tx.vault, commandFor(tx.vault, row, references.get(row.attempt_id) ?? 0)),
  }));
  const committed = await tx.run(COMMIT, [JSON.stringify(records), COMMAND_VERSION]);
  return new Set(committed.map((row) => row.id));
}

function commandFor(vault: Vault, row: Row, reference: number): SubmitCommand {
  const { message_id: id } = row;
  const split = splitText(vault.openText("messages.text", id, row.text_sealed), reference);
  return {
    submitId: submitIdOf(row.attempt_id as AttemptId),
    attemptId: row.attempt_id,
    messageId: row.message_id,
    channelId: row.channel_id,
    supplierId: row.supplier_id,
    to: vault.openText("messages.number", id, row.number_sealed),
    srcId: row.src_id,
    msgFmt: split.msgFmt,
    parts: split.parts.map((part) => Buffer.from(part).toString("hex")),
  };
}

/**
 * The next concatenation reference of each attempt, counted in PostgreSQL by sender and recipient, so
 * that neither one batch nor two processes give one to two long messages (cmpp §8, 5).
 */
async function nextReferences(tx: Session, rows: readonly Row[]): Promise<Map<string, number>> {
  const references = new Map<string, number>();
  if (rows.length === 0) return references;
  const answered = await tx.run(NEXT_REFERENCES, [
    rows.map((row) => row.src_id),
    rows.map((row) => row.number_hash),
  ]);
  const last = new Map(answered.map((it) => [referenceKey(it), it.last]));
  // The counter stands at the last one of this batch, so they are handed out backwards.
  for (const row of rows) {
    const key = referenceKey(row);
    const reference = last.get(key) ?? 0;
    references.set(row.attempt_id, reference);
    last.set(key, (reference + 255) % 256);
  }
  return references;
}

const referenceKey = (it: { src_id: string; number_hash: string }): string =>
  `${it.src_id}/${it.number_hash}`;

interface Row {
  attempt_id: string;
  message_id: string;
  number: number;
  state: string | null;
  status: MessageStatus;
  current_attempt_id: string;
  number_hash: string;
  number_sealed: Buffer;
  text_sealed: Buffer;
  segment_count: number;
  limit_in_ms: number;
  channel_id: string;
  supplier_id: string;
  src_id: string;
}

const READ = statement<Row>(
  "attempts.read",
  `SELECT t.attempt_id, m.id AS message_id, coalesce(a.number, 1) AS number, a.state, m.status, m.current_attempt_id,
          m.number_hash, m.number_sealed, m.text_sealed, m.segment_count,
          (extract(epoch FROM m.expires_at - clock_timestamp()) * 1000)::float8 AS limit_in_ms,
          c.id AS channel_id, c.supplier_id, c.src_id || coalesce(p.extension, '') AS src_id
     FROM unnest($1::text[], $2::text[], $3::text[]) AS t(attempt_id, message_id, channel_id)
     JOIN messages m ON m.id = t.message_id
     JOIN applications p ON p.id = m.application_id
     JOIN channels c ON c.id = t.channel_id
     LEFT JOIN attempts a ON a.id = t.attempt_id`,
);

const NEXT_REFERENCES = statement<{ src_id: string; number_hash: string; last: number }>(
  "attempts.next_references",
  `INSERT INTO concat_references AS r (src_id, number_hash, last)
   SELECT src_id, number_hash, (count(*) - 1) % 256 FROM unnest($1::text[], $2::text[]) AS t(src_id, number_hash)
    GROUP BY 1, 2 ORDER BY 1, 2
   ON CONFLICT (src_id, number_hash) DO UPDATE SET last = (r.last + 1 + excluded.last) % 256
   RETURNING src_id, number_hash, last`,
);

/**
 * One statement: what it re-checks is what it commits under. A row that the re-check refuses is simply
 * not in the answer (B3). The attempt's own publish comes next; the sweeper looks after five seconds. A
 * successor has its row already; what is offered in its place must pass the checks of the table all the same.
 */
const COMMIT = statement<{ id: string }>(
  "attempts.commit",
  `WITH plan AS (
     SELECT * FROM jsonb_to_recordset($1::jsonb) AS t(attempt_id text, message_id text, submit_id text, number int,
                                                      channel_id text, route jsonb, payload text)),
   good AS (
     SELECT plan.*, m.enterprise_id, m.application_id, m.segment_count, m.number_hash,
            c.supplier_id, c.receipt_mode
       FROM plan
       JOIN messages m ON m.id = plan.message_id AND m.current_attempt_id = plan.attempt_id
            AND m.final_at IS NULL AND m.expires_at > clock_timestamp()
       JOIN applications p ON p.id = m.application_id AND p.active
       JOIN enterprises e ON e.id = p.enterprise_id AND e.active
       JOIN channels c ON c.id = plan.channel_id AND c.active
       JOIN suppliers s ON s.id = c.supplier_id AND s.active
       JOIN signatures g ON g.id = m.signature_id AND g.status = 'approved'
       JOIN filings f ON f.signature_id = g.id AND f.channel_id = c.id AND f.active
      WHERE EXISTS (SELECT 1 FROM connections n
                     WHERE n.supplier_id = c.supplier_id AND n.connected
                       AND n.heartbeat_at > clock_timestamp() - interval '10 seconds')),
   attempt AS (
     INSERT INTO attempts AS a (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
                                channel_id, supplier_id, receipt_mode, segment_count, route, queued_at)
     SELECT attempt_id, message_id, enterprise_id, application_id, number,
            CASE WHEN number > 1 THEN 'att_' || substr(message_id, 5) || '_' || (number - 1)::text END, submit_id,
            'queued', channel_id, supplier_id, receipt_mode, segment_count, route, clock_timestamp()
       FROM good
     ON CONFLICT (id) DO UPDATE
        SET state = 'queued', channel_id = excluded.channel_id, supplier_id = excluded.supplier_id,
            receipt_mode = excluded.receipt_mode, route = excluded.route, queued_at = excluded.queued_at
      WHERE a.state = 'planned'
     RETURNING id, message_id),
   part AS (
     INSERT INTO segments (attempt_id, part, supplier_id, number_hash)
     SELECT good.attempt_id, n, good.supplier_id, good.number_hash
       FROM good JOIN attempt ON attempt.id = good.attempt_id, generate_series(1, good.segment_count) AS n),
   command AS (
     INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload,
                                schema_version, next_attempt_at)
     SELECT good.submit_id, good.message_id, good.application_id, good.attempt_id, good.channel_id, good.payload,
            $2, clock_timestamp() + interval '5 seconds'
       FROM good JOIN attempt ON attempt.id = good.attempt_id),
   message AS (
     UPDATE messages m
        SET status = CASE WHEN m.status = 'accepted' THEN 'queued' ELSE m.status END,
            queued_at = coalesce(m.queued_at, clock_timestamp())
       FROM attempt WHERE m.id = attempt.message_id),
   taken_up AS (DELETE FROM inbox WHERE attempt_id IN (SELECT id COLLATE "default" FROM attempt))
   SELECT id FROM attempt`,
);

const UNDECIDED = statement<{ id: string }>(
  "attempts.undecided",
  `SELECT id FROM attempts WHERE id = ANY($1::text[]) AND decided_at IS NULL`,
);

const CLOSE_INBOX = statement<Record<string, never>>(
  "attempts.close_inbox",
  `DELETE FROM inbox WHERE attempt_id = ANY($1::text[])`,
);
