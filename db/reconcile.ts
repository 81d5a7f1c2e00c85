/** The database's side of a reconcile (C6): facts by submit id, and rows that disagree among themselves. */
import type { CommandFacts, Difference } from "../domain/reconcile.ts";
import { statement, type Session } from "./client.ts";
import { modeOf } from "./publication.ts";

export const channelIds = async (session: Session): Promise<string[]> =>
  (await session.run(CHANNELS)).map(({ id }) => id);

/** What is known of these submit ids; what is not in the answer has no outbox row. */
export async function commandFacts(
  session: Session,
  submitIds: readonly string[],
): Promise<Map<string, CommandFacts>> {
  const rows = await session.run(FACTS, [submitIds]);
  return new Map(
    rows.map((row) => [
      row.submit_id,
      {
        status: row.status,
        channelId: row.channel_id,
        entryId: row.stream_entry_id,
        payload: row.payload,
        finished: row.finished,
      },
    ]),
  );
}

/** Differences that outbox and takes show without the stream; at most `limit` of each kind. */
export async function differencesInRows(session: Session, limit: number): Promise<Difference[]> {
  const found = await Promise.all(
    [OVERDUE, WRITTEN, SHADOW, UNANSWERED, ORPHANED].map((what) => session.run(what, [limit])),
  );
  return found.flat().map((row) => ({
    kind: row.kind,
    submitId: row.submit_id,
    channelId: row.channel_id,
    entryId: row.entry_id,
  }));
}

const CHANNELS = statement<{ id: string }>("reconcile.channels", "SELECT id FROM channels ORDER BY id");

const FACTS = statement<{
  submit_id: string;
  status: CommandFacts["status"];
  channel_id: string;
  stream_entry_id: string | null;
  payload: string;
  finished: boolean;
}>(
  "reconcile.facts",
  `SELECT o.submit_id, o.status, o.channel_id, o.stream_entry_id, o.payload,
          a.state = 'decided' OR NOT EXISTS (
            SELECT 1 FROM segments s WHERE s.attempt_id = a.id AND s.result IS NULL) AS finished
     FROM submit_outbox o JOIN attempts a ON a.id = o.attempt_id
    WHERE o.submit_id = ANY($1::text[])`,
);

interface DifferenceRow {
  kind: Difference["kind"];
  submit_id: string;
  channel_id: string | null;
  entry_id: string | null;
}

const difference = (kind: Difference["kind"], rest: string) =>
  statement<DifferenceRow>(`reconcile.${kind}`, `SELECT '${kind}' AS kind, ${rest} LIMIT $1`);

const OF_OUTBOX = `o.submit_id, o.channel_id, o.stream_entry_id AS entry_id
  FROM submit_outbox o WHERE o.status IN ('pending', 'publishing')`;

/** While publication is paused, or in shadow, rows wait on purpose (C5). */
const OVERDUE = difference(
  "due_but_not_published",
  `${OF_OUTBOX} AND o.next_attempt_at < clock_timestamp() - interval '1 minute'
     AND ${modeOf("o.application_id")} = 'live' ORDER BY o.next_attempt_at`,
);

const WRITTEN = difference(
  "unpublished_but_written",
  `${OF_OUTBOX} AND NOT EXISTS (
      SELECT 1 FROM segments s
        LEFT JOIN LATERAL (SELECT t.kind, t.answer FROM takes t
                            WHERE t.submit_id = o.submit_id AND t.part = s.part
                            ORDER BY t.write_number DESC LIMIT 1) last ON true
       WHERE s.attempt_id = o.attempt_id
         AND (last.kind IS DISTINCT FROM 'write' OR last.answer = 'throttled'))`,
);

const SHADOW = difference(
  "shadow_payload_differs",
  `o.submit_id, o.channel_id, o.shadow_entry_id AS entry_id FROM submit_outbox o
    WHERE o.status IN ('pending', 'publishing') AND o.shadow_entry_id IS NOT NULL
      AND o.shadow_payload_hash IS DISTINCT FROM sha256(convert_to(o.payload, 'UTF8'))`,
);

/** The sweeper calls such a write unknown soon after its response timeout (I). */
const UNANSWERED = difference(
  "written_but_never_answered",
  `k.submit_id, a.channel_id, NULL AS entry_id
     FROM takes k JOIN suppliers s ON s.id = k.supplier_id JOIN attempts a ON a.id = k.attempt_id
    WHERE k.kind = 'write' AND k.answered_at IS NULL
      AND k.taken_at < clock_timestamp() - interval '1 minute'
                       - coalesce((s.profile->>'responseTimeoutMs')::int, 10000) * interval '1 millisecond'
    ORDER BY k.taken_at`,
);

const ORPHANED = difference(
  "take_without_outbox_row",
  `k.submit_id, a.channel_id, NULL AS entry_id FROM takes k JOIN attempts a ON a.id = k.attempt_id
    WHERE k.kind = 'write' AND k.answered_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM submit_outbox o WHERE o.submit_id = k.submit_id)
    ORDER BY k.taken_at`,
);
