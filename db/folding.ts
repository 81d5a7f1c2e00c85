/**
 * Folding stored supplier events into the segments that they speak of: matched, applied under the
 * attempt's lock, and charged, in one transaction a batch (D1–D5, D8, D14). Nothing is decided here;
 * an attempt for which a decision is due is marked, and whoever called tells its workflow.
 */
import { fold, type FoldedSegment, NO_MSG_ID, type SupplierFact } from "../domain/fold.ts";
import type { MessageStatus, ReceiptMode, SegmentReceipt } from "../domain/message.ts";
import { acceptedWhole, isUncertain, judge } from "../domain/outcome.ts";
import { type Answer, receiptOf } from "../domain/supplier-codes.ts";
import { type Session, statement } from "./client.ts";
import { charge } from "./ledger.ts";
import { lockAttemptsAndMessages } from "./locks.ts";

/** What came of some events. */
export interface FoldedEvents {
  /** Events looked at, folded or not. */
  eventCount: number;
  folded: number;
  unmatched: number;
  charged: number;
  /** Attempts whose workflow has to be told that a decision is due. */
  due: DueDecision[];
}

export interface DueDecision {
  attemptId: string;
  /** Since its command was committed, in milliseconds: a young one may still linger. */
  ageMs: number;
}

export interface FoldedBatch extends FoldedEvents {
  /** A supplier had as much due as its share of the batch, or more: look again at once. */
  full: boolean;
}

/** Call it inside one transaction. Locks events, then attempts, messages and accounts (D11). */
export async function foldEvents(tx: Session, limit: number): Promise<FoldedBatch> {
  const events = await tx.run(CLAIM, [limit]);
  return { ...(await foldClaimed(tx, events)), full: isFull(events) };
}

/** The same for one event, if it is still to be folded and nobody else has it. */
export const foldOne = async (tx: Session, id: bigint): Promise<FoldedEvents> =>
  foldClaimed(tx, await tx.run(CLAIM_ONE, [id]));

/** Events that are due, oldest first, held by nobody: for folding them one by one. */
export const dueEvents = async (session: Session, limit: number): Promise<bigint[]> =>
  (await session.run(DUE, [limit])).map((row) => row.id);

/**
 * An event that cannot be folded makes room for the others: it is tried again later and later, and somebody
 * is told (D2, K). `error` is a code, never a message.
 */
export async function setAside(session: Session, id: bigint, error: string): Promise<void> {
  await session.run(SET_ASIDE, [[id], error]);
}

async function foldClaimed(tx: Session, events: readonly EventRow[]): Promise<FoldedEvents> {
  const targets = await match(tx, events);
  const attemptIds = [...new Set([...targets.values()].map((target) => target.attemptId))];
  await lockAttemptsAndMessages(tx, attemptIds);
  // A statement of its own, after the locks: only then does it see what others committed meanwhile.
  const attempts = await readAttempts(tx, attemptIds);
  const verdicts = applyAll(events, targets, attempts);
  await keep(tx, attempts, verdicts);
  const due = await markDue(tx, attempts);
  const changed = [...attempts.values()].filter((it) => it.changed.size > 0);
  await tx.run(WAKE_RECEIPTS, [
    changed.map((it) => it.row.supplier_id),
    changed.map((it) => it.row.number_hash),
  ]);
  const charged = await charge(tx, chargeable(attempts));
  const unmatched = verdicts.filter((it) => it.fate === "unmatched").length;
  return {
    eventCount: events.length,
    folded: events.length - unmatched,
    unmatched,
    charged: charged.size,
    due,
  };
}

function isFull(events: readonly { supplier_id: string; share: number }[]): boolean {
  const counts = new Map<string, number>();
  for (const { supplier_id } of events) counts.set(supplier_id, (counts.get(supplier_id) ?? 0) + 1);
  return [...counts.values()].some((count) => count >= (events[0]?.share ?? 0));
}

interface Target {
  attemptId: string;
  part: number;
}

/**
 * Answers carry the part they belong to. Receipts are matched by supplier account and Msg_Id, never by
 * connection (D14): with segments that know the id, or with an answer in this same batch.
 */
async function match(tx: Session, events: readonly EventRow[]): Promise<Map<bigint, Target>> {
  const targets = new Map<bigint, Target>();
  const learnedHere = new Map<string, Target>();
  for (const event of events) {
    if (event.attempt_id === null || event.part === null) continue;
    const target = { attemptId: event.attempt_id, part: event.part };
    targets.set(event.id, target);
    if (event.answer === "accepted" && event.msg_id !== NO_MSG_ID) {
      learnedHere.set(`${event.supplier_id}/${event.msg_id}`, target);
    }
  }
  const receipts = events.filter(
    (event) => event.kind === "receipt" && !targets.has(event.id) && event.msg_id !== NO_MSG_ID,
  );
  for (const row of await lookUp(tx, receipts)) {
    targets.set(row.event_id, { attemptId: row.attempt_id, part: row.part });
  }
  for (const event of receipts) {
    const target = learnedHere.get(`${event.supplier_id}/${event.msg_id}`);
    if (target !== undefined && !targets.has(event.id)) targets.set(event.id, target);
  }
  return targets;
}

async function lookUp(tx: Session, receipts: readonly EventRow[]): Promise<MatchRow[]> {
  if (receipts.length === 0) return [];
  const known = await tx.run(MATCH, [receipts.map((event) => event.id)]);
  const found = new Set(known.map((row) => row.event_id));
  const open = receipts.filter((event) => !found.has(event.id)).map((event) => event.id);
  return open.length === 0 ? known : [...known, ...oncePerAttempt(await tx.run(ADOPT, [open]))];
}

/** Each adoption changes what the next one may see, so a second receipt of an attempt waits its turn. */
function oncePerAttempt(adopted: readonly MatchRow[]): MatchRow[] {
  return [...new Map([...adopted].reverse().map((row) => [row.attempt_id, row])).values()];
}

interface Attempt {
  row: AttemptRow;
  segments: Map<number, FoldedSegment>;
  changed: Set<number>;
}

async function readAttempts(tx: Session, attemptIds: string[]): Promise<Map<string, Attempt>> {
  const attempts = new Map<string, Attempt>();
  if (attemptIds.length === 0) return attempts;
  for (const row of await tx.run(ATTEMPTS, [attemptIds])) {
    attempts.set(row.id, { row, segments: new Map(), changed: new Set() });
  }
  for (const row of await tx.run(SEGMENTS, [attemptIds])) {
    attempts.get(row.attempt_id)?.segments.set(row.part, {
      part: row.part,
      result: row.result,
      resultCode: row.result_code,
      msgId: row.msg_id,
      receipt: row.receipt,
      receiptStat: row.receipt_stat,
    });
  }
  return attempts;
}

interface Verdict {
  event: EventRow;
  fate: "applied" | "late" | "unmatched";
  target: Target | undefined;
  anomaly: string | undefined;
}

/** Answers before receipts: a receipt may need the Msg_Id that an answer in this batch brings. */
function applyAll(
  events: readonly EventRow[],
  targets: ReadonlyMap<bigint, Target>,
  attempts: ReadonlyMap<string, Attempt>,
): Verdict[] {
  const ordered = [...events].sort((a, b) => Number(a.kind === "receipt") - Number(b.kind === "receipt"));
  return ordered.map((event) => apply(event, targets.get(event.id), attempts));
}

function apply(event: EventRow, target: Target | undefined, attempts: ReadonlyMap<string, Attempt>): Verdict {
  const attempt = target === undefined ? undefined : attempts.get(target.attemptId);
  const segment = target === undefined ? undefined : attempt?.segments.get(target.part);
  const fact = factOf(event);
  if (attempt === undefined || segment === undefined || target === undefined || fact === undefined) {
    return { event, fate: "unmatched", target: undefined, anomaly: undefined };
  }
  // Matched before the lock: the part may have learned an id of its own since.
  const elsewhere = segment.msgId !== null && segment.msgId !== event.msg_id;
  if (event.kind === "receipt" && (elsewhere || event.number_hash !== attempt.row.number_hash)) {
    return { event, fate: "unmatched", target: undefined, anomaly: undefined };
  }
  if (attempt.row.decided) return late(event, target, attempt, segment);
  const { segment: folded, contradiction } = fold(segment, fact);
  if (folded !== segment) {
    attempt.segments.set(target.part, folded);
    attempt.changed.add(target.part);
  }
  return { event, fate: "applied", target, anomaly: contradiction };
}

/** After the decision it stands; the fact is kept, and flagged where it says otherwise (D8). */
function late(event: EventRow, target: Target, attempt: Attempt, segment: FoldedSegment): Verdict {
  if (
    event.kind === "response" &&
    event.answer === "accepted" &&
    segment.msgId === null &&
    event.msg_id !== NO_MSG_ID
  ) {
    // Learnt all the same, so that a later receipt is known to be ours.
    attempt.segments.set(target.part, { ...segment, msgId: event.msg_id });
    attempt.changed.add(target.part);
  }
  const receipt = event.kind === "receipt" ? meaningOf(event) : undefined;
  const says = receipt === "delivered" || receipt === "failed" ? receipt : undefined;
  const stands = attempt.row.outcome === "delivered" ? "delivered" : "failed";
  return {
    event,
    fate: "late",
    target,
    anomaly: says !== undefined && says !== stands ? "late_receipt_contradicts" : undefined,
  };
}

const meaningOf = (event: EventRow): SegmentReceipt => event.meaning ?? receiptOf(event.stat ?? "");

function factOf(event: EventRow): SupplierFact | undefined {
  switch (event.kind) {
    case "response":
      return event.answer === null
        ? undefined
        : {
            kind: "response",
            answer: event.answer,
            resultCode: event.result_code ?? 0,
            msgId: event.msg_id ?? "",
            writeNumber: event.write_number ?? 1,
          };
    case "no_response":
      return { kind: "no_response" };
    case "receipt":
      return {
        kind: "receipt",
        stat: event.stat ?? "",
        meaning: meaningOf(event),
        msgId: event.msg_id ?? "",
      };
    case "inbound":
      return undefined;
  }
}

async function keep(
  tx: Session,
  attempts: ReadonlyMap<string, Attempt>,
  verdicts: readonly Verdict[],
): Promise<void> {
  const changed = [...attempts].flatMap(([id, attempt]) =>
    [...attempt.changed].flatMap((part) => {
      const it = attempt.segments.get(part);
      return it === undefined ? [] : [{ attempt_id: id, ...it }];
    }),
  );
  if (changed.length > 0) await tx.run(KEEP_SEGMENTS, [JSON.stringify(changed)]);
  const done = verdicts.filter((it) => it.fate !== "unmatched");
  if (done.length > 0) {
    await tx.run(HANDLED, [
      done.map((it) => it.event.id),
      done.map((it) => it.fate),
      done.map((it) => it.target?.attemptId ?? null),
      done.map((it) => it.target?.part ?? null),
    ]);
  }
  const waiting = verdicts.filter((it) => it.fate === "unmatched");
  if (waiting.length > 0) await tx.run(WAIT, [waiting.map((it) => it.event.id)]);
  const odd = verdicts.filter((it) => it.anomaly !== undefined);
  if (odd.length > 0) {
    await tx.run(ANOMALIES, [
      odd.map((it) => it.anomaly),
      odd.map((it) => it.target?.attemptId),
      odd.map((it) => it.event.id),
    ]);
  }
}

/** Raises the revision of what changed, moves messages to `sent`, and says where a decision is due. */
async function markDue(tx: Session, attempts: ReadonlyMap<string, Attempt>): Promise<DueDecision[]> {
  const undecided = [...attempts.values()].filter((it) => !it.row.decided);
  const states = undecided.map((it) => {
    const segments = [...it.segments.values()];
    return {
      attempt_id: it.row.id,
      message_id: it.row.message_id,
      age_ms: it.row.age_ms,
      changed: it.changed.size > 0,
      due: judge(segments, it.row.receipt_mode).kind !== "waiting",
      sent: acceptedWhole(segments),
      uncertain: isUncertain(segments),
    };
  });
  if (states.length === 0) return [];
  await tx.run(MARK, [JSON.stringify(states)]);
  await tx.run(MARK_MESSAGES, [JSON.stringify(states)]);
  return states.filter((it) => it.due).map((it) => ({ attemptId: it.attempt_id, ageMs: it.age_ms }));
}

const chargeable = (attempts: ReadonlyMap<string, Attempt>) =>
  [...attempts.values()]
    .filter((it) => !it.row.decided && it.changed.size > 0 && acceptedWhole([...it.segments.values()]))
    .map((it) => ({ messageId: it.row.message_id, attemptId: it.row.id }));

interface EventRow {
  id: bigint;
  kind: "response" | "no_response" | "receipt" | "inbound";
  supplier_id: string;
  attempt_id: string | null;
  part: number | null;
  write_number: number | null;
  answer: Answer | null;
  result_code: number | null;
  msg_id: string | null;
  stat: string | null;
  meaning: SegmentReceipt | null;
  number_hash: string | null;
}

interface MatchRow {
  event_id: bigint;
  attempt_id: string;
  part: number;
}

interface AttemptRow {
  id: string;
  message_id: string;
  supplier_id: string;
  number_hash: string;
  decided: boolean;
  outcome: string | null;
  receipt_mode: ReceiptMode;
  status: MessageStatus;
  age_ms: number;
}

const EVENT_COLUMNS = `id, kind, supplier_id, attempt_id, part, write_number, answer, result_code, msg_id, stat,
          meaning, number_hash`;

/**
 * As many of each supplier that has something due, so that a hundred thousand receipts of one do not
 * delay another's; one more than an even share where it does not come out even.
 */
const CLAIM = statement<EventRow & { share: number }>(
  "folding.claim",
  `WITH busy AS MATERIALIZED (
     SELECT s.id FROM suppliers s
      WHERE EXISTS (SELECT 1 FROM supplier_events e WHERE e.supplier_id = s.id
                       AND e.folded_at IS NULL AND e.due_at <= statement_timestamp())),
   share AS MATERIALIZED (SELECT ceil($1::numeric / greatest(1, count(*)))::int AS size FROM busy)
   SELECT e.*, share.size AS share
     FROM share, busy
    CROSS JOIN LATERAL (
          SELECT ${EVENT_COLUMNS}
            FROM supplier_events
           WHERE supplier_id = busy.id AND folded_at IS NULL AND due_at <= statement_timestamp()
           ORDER BY due_at, id LIMIT (SELECT size FROM share)
             FOR UPDATE SKIP LOCKED) e`,
);

const CLAIM_ONE = statement<EventRow>(
  "folding.claim_one",
  `SELECT ${EVENT_COLUMNS} FROM supplier_events WHERE id = $1 AND folded_at IS NULL FOR UPDATE SKIP LOCKED`,
);

const DUE = statement<{ id: bigint }>(
  "folding.due",
  `SELECT e.id FROM suppliers s CROSS JOIN LATERAL (
            SELECT id, due_at FROM supplier_events
             WHERE supplier_id = s.id AND folded_at IS NULL AND due_at <= statement_timestamp()
             ORDER BY due_at, id LIMIT $1) e
    ORDER BY e.due_at, e.id LIMIT $1`,
);

/** The number must agree: suppliers use a Msg_Id again after a year (cmpp §9). */
const MATCH = statement<MatchRow>(
  "folding.match",
  `SELECT DISTINCT ON (e.id) e.id AS event_id, s.attempt_id, s.part
     FROM supplier_events e
     JOIN segments s ON s.supplier_id = e.supplier_id AND s.msg_id = e.msg_id AND s.number_hash = e.number_hash
    WHERE e.id = ANY($1::bigint[])
    ORDER BY e.id, s.attempt_id DESC`,
);

/**
 * D14's one exception. A receipt whose Msg_Id is bound to nothing is taken by the first part that never
 * learned its own (the response timeout passed or the id was all zero), if every part written to that
 * number on that account which is neither rejected nor has an id belongs to one attempt. An answer that
 * is stored and not folded binds its Msg_Id already.
 */
const ADOPT = statement<MatchRow>(
  "folding.adopt",
  `SELECT DISTINCT ON (e.id) e.id AS event_id, c.attempt_id, c.part
     FROM supplier_events e
     JOIN LATERAL (
            SELECT s.attempt_id, s.part, s.result, k.taken_at,
                   count(DISTINCT o.attempt_id) AS attempt_count
              FROM segments s
              JOIN attempts a ON a.id = s.attempt_id
              JOIN applications p ON p.id = a.application_id
              JOIN channels h ON h.id = a.channel_id
                   AND (e.src_id IS NULL OR e.src_id = h.src_id || coalesce(p.extension, ''))
              JOIN LATERAL (SELECT max(t.taken_at) AS taken_at FROM takes t
                             WHERE t.submit_id = a.submit_id AND t.part = s.part AND t.kind = 'write') k
                   ON k.taken_at < e.received_at
              JOIN segments o ON o.supplier_id = s.supplier_id AND o.number_hash = s.number_hash AND o.msg_id IS NULL
                   AND (o.result IS NULL OR o.result IN ('accepted', 'unknown'))
                   AND EXISTS (SELECT 1 FROM attempts b JOIN takes t ON t.submit_id = b.submit_id
                                WHERE b.id = o.attempt_id AND t.part = o.part AND t.kind = 'write')
             WHERE s.supplier_id = e.supplier_id AND s.number_hash = e.number_hash AND s.msg_id IS NULL
               AND s.result IN ('accepted', 'unknown')
             GROUP BY s.attempt_id, s.part, s.result, k.taken_at) c ON c.attempt_count = 1
    WHERE e.id = ANY($1::bigint[])
      AND NOT EXISTS (SELECT 1 FROM supplier_events r
                       WHERE r.folded_at IS NULL AND r.kind = 'response' AND r.supplier_id = e.supplier_id
                         AND r.msg_id = e.msg_id)
    ORDER BY e.id, c.part`,
);

const ATTEMPTS = statement<AttemptRow>(
  "folding.attempts",
  `SELECT a.id, a.message_id, a.supplier_id, m.number_hash, a.decided_at IS NOT NULL AS decided, a.outcome,
          coalesce(a.receipt_mode, 'per_segment') AS receipt_mode, m.status,
          (extract(epoch FROM clock_timestamp() - coalesce(a.queued_at, a.created_at)) * 1000)::float8 AS age_ms
     FROM attempts a JOIN messages m ON m.id = a.message_id
    WHERE a.id = ANY($1::text[])`,
);

const SEGMENTS = statement<{
  attempt_id: string;
  part: number;
  result: FoldedSegment["result"];
  result_code: number | null;
  msg_id: string | null;
  receipt: FoldedSegment["receipt"];
  receipt_stat: string | null;
}>(
  "folding.segments",
  `SELECT attempt_id, part, result, result_code, msg_id, receipt, receipt_stat
     FROM segments WHERE attempt_id = ANY($1::text[])`,
);

const KEEP_SEGMENTS = statement<Record<string, never>>(
  "folding.keep_segments",
  `UPDATE segments s
      SET result = t.result, result_code = t."resultCode", msg_id = t."msgId",
          result_at = CASE WHEN s.result IS DISTINCT FROM t.result THEN clock_timestamp() ELSE s.result_at END,
          receipt = t.receipt, receipt_stat = t."receiptStat",
          receipt_at = CASE WHEN s.receipt IS DISTINCT FROM t.receipt THEN clock_timestamp() ELSE s.receipt_at END
     FROM jsonb_to_recordset($1::jsonb)
          AS t(attempt_id text, part smallint, result text, "resultCode" int, "msgId" text, receipt text, "receiptStat" text)
    WHERE s.attempt_id = t.attempt_id AND s.part = t.part`,
);

const HANDLED = statement<Record<string, never>>(
  "folding.handled",
  `UPDATE supplier_events e
      SET folded_at = clock_timestamp(), fate = t.fate, attempt_id = t.attempt_id, part = t.part
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::smallint[]) AS t(id, fate, attempt_id, part)
    WHERE e.id = t.id`,
);

/**
 * Tried again later and later: up to five minutes apart while it is young, then after a quarter of its
 * age, up to a day. It is kept until a person looks (D14), and whatever its number learns wakes it at
 * once (WAKE_RECEIPTS): a flood of receipts for nothing must not be work for ever.
 */
const LATER = `UPDATE supplier_events
      SET try_count = try_count + 1,
          due_at = clock_timestamp() + least(
            0.2 * power(2, least(try_count, 20)) * interval '1 second',
            greatest(interval '5 minutes', (clock_timestamp() - received_at) / 4),
            interval '1 day')
    WHERE id = ANY($1::bigint[])`;

const WAIT = statement<Record<string, never>>("folding.wait", LATER);

const SET_ASIDE = statement<Record<string, never>>(
  "folding.set_aside",
  `WITH later AS (${LATER} RETURNING id)
   INSERT INTO alerts (kind, subject, detail) SELECT 'event_not_folded', 'event ' || id, $2 FROM later
   ON CONFLICT DO NOTHING`,
);

const ANOMALIES = statement<Record<string, never>>(
  "folding.anomalies",
  `INSERT INTO anomalies (kind, attempt_id, event_id)
   SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
   ON CONFLICT DO NOTHING`,
);

const MARK = statement<Record<string, never>>(
  "folding.mark",
  `UPDATE attempts a
      SET facts_revision = a.facts_revision + CASE WHEN t.changed THEN 1 ELSE 0 END,
          due_at = CASE WHEN t.due THEN coalesce(a.due_at, clock_timestamp()) END
     FROM jsonb_to_recordset($1::jsonb) AS t(attempt_id text, changed boolean, due boolean)
    WHERE a.id = t.attempt_id AND a.decided_at IS NULL`,
);

/** Only forwards: a message never goes back from sent (D6). */
const MARK_MESSAGES = statement<Record<string, never>>(
  "folding.mark_messages",
  `UPDATE messages m
      SET status = CASE WHEN t.sent AND m.status IN ('accepted', 'queued') THEN 'sent' ELSE m.status END,
          sent_at = CASE WHEN t.sent THEN coalesce(m.sent_at, clock_timestamp()) ELSE m.sent_at END,
          uncertain = t.uncertain
     FROM jsonb_to_recordset($1::jsonb) AS t(attempt_id text, message_id text, sent boolean, uncertain boolean)
    WHERE m.id = t.message_id AND m.current_attempt_id = t.attempt_id AND m.final_at IS NULL
      AND ((t.sent AND m.sent_at IS NULL) OR m.uncertain <> t.uncertain)`,
);

/**
 * A part learned something, so every receipt that waits for that number may have become clear: the one
 * with its Msg_Id, and one that could not be told apart before (D14). What a mate holds is its to see;
 * the first 64 are enough, for each that folds wakes the next ones.
 */
const WAKE_RECEIPTS = statement<Record<string, never>>(
  "folding.wake_receipts",
  `UPDATE supplier_events SET due_at = clock_timestamp()
    WHERE id IN (
            SELECT e.id FROM supplier_events e
              JOIN (SELECT DISTINCT * FROM unnest($1::text[], $2::text[])) AS t(supplier_id, number_hash)
                   ON e.supplier_id = t.supplier_id AND e.number_hash = t.number_hash
             WHERE e.folded_at IS NULL AND e.kind = 'receipt' AND e.due_at > statement_timestamp()
             ORDER BY e.id LIMIT 64
               FOR UPDATE OF e SKIP LOCKED)`,
);
