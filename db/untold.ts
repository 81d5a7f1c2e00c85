/** Workflows that have to look at something which was committed without them, until they have (D, C3). */
import { type Session, statement } from "./client.ts";

export async function addUntold(session: Session, attemptIds: readonly string[]): Promise<void> {
  if (attemptIds.length > 0) await session.run(ADD, [attemptIds]);
}

/** Taken from the front; whoever tells one removes it. The next look at one that stays is later. */
export async function nextUntold(session: Session, limit: number): Promise<string[]> {
  return (await session.run(NEXT, [limit])).map((row) => row.attempt_id);
}

export async function removeUntold(session: Session, attemptIds: readonly string[]): Promise<void> {
  if (attemptIds.length > 0) await session.run(REMOVE, [attemptIds]);
}

const ADD = statement<Record<string, never>>(
  "untold.add",
  `INSERT INTO untold (attempt_id) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING`,
);

const NEXT = statement<{ attempt_id: string }>(
  "untold.next",
  `UPDATE untold SET since = clock_timestamp()
    WHERE attempt_id IN (SELECT attempt_id FROM untold ORDER BY since LIMIT $1 FOR UPDATE SKIP LOCKED)
   RETURNING attempt_id`,
);

const REMOVE = statement<Record<string, never>>(
  "untold.remove",
  `DELETE FROM untold WHERE attempt_id = ANY($1::text[])`,
);
