/**
 * Take once: a part may be written only by whoever committed its take row, before the first byte
 * (C3). The gateway inserts `write`, a decision inserts `withdrawn`; the first insert wins.
 */
import { type Session, statement } from "./client.ts";

export interface PartWrite {
  submitId: string;
  attemptId: string;
  part: number;
  /** 1 for the first; each throttle answer allows one more. */
  writeNumber: number;
}

export interface Holder {
  owner: string;
  supplierId: string;
  slot: number;
  epoch: bigint;
}

/** Under one key for a write of a part. */
export const writeKey = (it: { submitId: string; part: number; writeNumber: number }): string =>
  `${it.submitId}/${it.part}/${it.writeNumber}`;

/**
 * Takes the writes that may happen: the attempt is current and undecided, the message neither final nor
 * past its limit, and the write is the part's first or follows a throttle answer. In the order of their
 * keys, so that two who want the same do not wait for each other. Answers the keys of those taken; the
 * rest must not be written.
 */
export async function take(
  session: Session,
  holder: Holder,
  writes: readonly PartWrite[],
): Promise<Set<string>> {
  const rows = await session.run(TAKE, [
    writes.map((it) => it.submitId),
    writes.map((it) => it.part),
    writes.map((it) => it.writeNumber),
    writes.map((it) => it.attemptId),
    holder.owner,
    holder.supplierId,
    holder.slot,
    holder.epoch,
  ]);
  return new Set(
    rows.map((row) => writeKey({ submitId: row.submit_id, part: row.part, writeNumber: row.write_number })),
  );
}

/** Gives back takes of which no byte was written: by their owner alone (C3). */
export async function giveBackTakes(
  session: Session,
  owner: string,
  writes: readonly PartWrite[],
): Promise<void> {
  await session.run(GIVE_BACK, [
    writes.map((it) => it.submitId),
    writes.map((it) => it.part),
    writes.map((it) => it.writeNumber),
    owner,
  ]);
}

/**
 * Shuts the gateways out: inserts the next write of every part of these attempts that may still be written,
 * which is never written then. The first insert wins (C3): a part whose write was taken is left as it is.
 */
export async function withdraw(tx: Session, attemptIds: readonly string[]): Promise<void> {
  await tx.run(WITHDRAW, [attemptIds, "settlement"]);
}

/**
 * The same for decisions that do not happen where they lose a part: false then, and whatever could be
 * withdrawn is written as if nobody had asked (C3).
 */
export async function withdrawWhole(
  tx: Session,
  by: "cancel" | "review",
  attemptId: string,
): Promise<boolean> {
  const parts = await tx.run(WITHDRAW, [[attemptId], by]);
  if (parts.every((it) => it.withdrawn)) return true;
  const ours = parts.filter((it) => it.withdrawn);
  await tx.run(PUT_BACK, [
    ours.map((it) => it.submit_id),
    ours.map((it) => it.part),
    ours.map((it) => it.write_number),
  ]);
  return false;
}

/** How the last write of each part stands. */
export interface PartState {
  part: number;
  writeNumber: number;
  /** open: written, and nothing is known yet. */
  state: "throttled" | "open" | "closed";
}

/** States of the parts that have a take; whether the attempt still wants to be written at all. */
export async function partStates(
  session: Session,
  submitId: string,
): Promise<{ wanted: boolean; parts: PartState[] }> {
  const rows = await session.run(STATES, [submitId]);
  return {
    wanted: rows[0]?.wanted ?? false,
    parts: rows.flatMap((row) =>
      row.part === null || row.write_number === null
        ? []
        : [{ part: row.part, writeNumber: row.write_number, state: row.state }],
    ),
  };
}

/** A write that nobody has answered for longer than any response may take (I). */
export interface OverdueWrite extends PartWrite {
  supplierId: string;
  slot: number;
  epoch: bigint;
}

/** Writes without an outcome that are older than `olderThanMs`: their owner died, or lost its answer. */
export async function overdueWrites(
  session: Session,
  olderThanMs: number,
  limit: number,
): Promise<OverdueWrite[]> {
  const rows = await session.run(OVERDUE, [olderThanMs, limit]);
  return rows.map((row) => ({
    submitId: row.submit_id,
    attemptId: row.attempt_id,
    part: row.part,
    writeNumber: row.write_number,
    supplierId: row.supplier_id,
    slot: row.slot,
    epoch: row.epoch,
  }));
}

const TAKE = statement<{ submit_id: string; part: number; write_number: number }>(
  "takes.take",
  `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, owner, supplier_id, slot, epoch)
   SELECT t.submit_id, t.part, t.write_number, 'write', t.attempt_id, $5, $6, $7, $8
     FROM unnest($1::text[], $2::smallint[], $3::smallint[], $4::text[]) AS t(submit_id, part, write_number, attempt_id)
     JOIN attempts a ON a.id = t.attempt_id AND a.submit_id = t.submit_id AND a.state = 'queued'
     JOIN messages m ON m.id = a.message_id AND m.current_attempt_id = a.id
          AND m.final_at IS NULL AND m.expires_at > clock_timestamp()
    WHERE t.write_number = 1
       OR EXISTS (SELECT 1 FROM takes k
                   WHERE k.submit_id = t.submit_id AND k.part = t.part AND k.write_number = t.write_number - 1
                     AND k.kind = 'write' AND k.answer = 'throttled')
    ORDER BY t.submit_id, t.part, t.write_number
   ON CONFLICT DO NOTHING
   RETURNING submit_id, part, write_number`,
);

const GIVE_BACK = statement<Record<string, never>>(
  "takes.give_back",
  `DELETE FROM takes k
    USING unnest($1::text[], $2::smallint[], $3::smallint[]) AS t(submit_id, part, write_number)
    WHERE k.submit_id = t.submit_id AND k.part = t.part AND k.write_number = t.write_number
      AND k.kind = 'write' AND k.owner = $4 AND k.answered_at IS NULL`,
);

/** In the order of their keys: a gateway that takes several of them must not wait for us crosswise (D11). */
const WITHDRAW = statement<{ submit_id: string; part: number; write_number: number; withdrawn: boolean }>(
  "takes.withdraw",
  `WITH open AS (
     SELECT a.id, a.submit_id, s.part, s.supplier_id, coalesce(last.write_number, 0) + 1 AS write_number,
            last.kind IS NULL OR last.answer = 'throttled' AS unwritten
       FROM attempts a
       JOIN segments s ON s.attempt_id = a.id AND s.result IS NULL
       LEFT JOIN LATERAL (
              SELECT t.write_number, t.kind, t.answer FROM takes t
               WHERE t.submit_id = a.submit_id AND t.part = s.part
               ORDER BY t.write_number DESC LIMIT 1) last ON true
      WHERE a.id = ANY($1::text[])),
   withdrawn AS (
     INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner)
     SELECT submit_id, part, write_number, 'withdrawn', id, supplier_id, $2 FROM open
      WHERE unwritten ORDER BY submit_id, part
     ON CONFLICT DO NOTHING
     RETURNING submit_id, part, attempt_id),
   marked AS (
     UPDATE segments s SET result = 'never_written', result_at = clock_timestamp()
       FROM withdrawn w WHERE s.attempt_id = w.attempt_id AND s.part = w.part)
   SELECT o.submit_id, o.part, o.write_number, w.part IS NOT NULL AS withdrawn
     FROM open o LEFT JOIN withdrawn w USING (submit_id, part)`,
);

const PUT_BACK = statement<Record<string, never>>(
  "takes.put_back",
  `WITH gone AS (
     DELETE FROM takes k
      USING unnest($1::text[], $2::smallint[], $3::smallint[]) AS t(submit_id, part, write_number)
      WHERE k.submit_id = t.submit_id AND k.part = t.part AND k.write_number = t.write_number
        AND k.kind = 'withdrawn'
     RETURNING k.attempt_id, k.part)
   UPDATE segments s SET result = NULL, result_at = NULL
     FROM gone WHERE s.attempt_id = gone.attempt_id AND s.part = gone.part`,
);

const STATES = statement<{
  wanted: boolean;
  part: number | null;
  write_number: number | null;
  state: PartState["state"];
}>(
  "takes.states",
  `SELECT a.state = 'queued' AND m.current_attempt_id = a.id AND m.final_at IS NULL
            AND m.expires_at > clock_timestamp() AS wanted,
          k.part, k.write_number,
          CASE WHEN k.answer = 'throttled' THEN 'throttled'
               WHEN k.kind = 'write' AND k.answer IS NULL THEN 'open' ELSE 'closed' END AS state
     FROM attempts a
     JOIN messages m ON m.id = a.message_id
     LEFT JOIN LATERAL (
            SELECT DISTINCT ON (t.part) t.part, t.write_number, t.kind, t.answer FROM takes t
             WHERE t.submit_id = a.submit_id ORDER BY t.part, t.write_number DESC) k ON true
    WHERE a.id = 'att_' || substr($1, 5)`,
);

const OVERDUE = statement<{
  submit_id: string;
  attempt_id: string;
  part: number;
  write_number: number;
  supplier_id: string;
  slot: number;
  epoch: bigint;
}>(
  "takes.overdue",
  `SELECT k.submit_id, k.attempt_id, k.part, k.write_number, k.supplier_id, k.slot, k.epoch
     FROM takes k JOIN suppliers s ON s.id = k.supplier_id
    WHERE k.kind = 'write' AND k.answered_at IS NULL
      AND k.taken_at < clock_timestamp() - ($1 + coalesce((s.profile->>'responseTimeoutMs')::int, 10000))
                                         * interval '1 millisecond'
    ORDER BY k.taken_at LIMIT $2`,
);
