/**
 * Slices of time in the partitioned tables: which there are, making new ones, and dropping old ones whole.
 * A slice is dropped only when nothing in it is open any more, and never keeps the send path waiting: its
 * locks are given up after a fraction of a second, and asked for again.
 */
import type { Span } from "../domain/slices.ts";
import { audit, type Author } from "./audit.ts";
import { type Database, type Session, sqlState, statement } from "./client.ts";

/** Tables whose rows go together: all facts about a message, or what suppliers said. */
export type SliceContent = "messages" | "supplier_events";

export interface Slice extends Span {
  content: SliceContent;
  /** First and last day as the names of its partitions have them. */
  name: string;
  bytes: number;
}

/** Oldest first, and the database's own time. */
export async function readSlices(session: Session): Promise<{ slices: Slice[]; nowMs: number }> {
  const rows = await session.run(SLICES);
  const slices = rows.flatMap(({ content, name, starts_ms, ends_ms, bytes }) =>
    content === null || name === null || starts_ms === null || ends_ms === null || bytes === null
      ? []
      : [{ content, name, startsMs: starts_ms, endsMs: ends_ms, bytes }],
  );
  return { slices, nowMs: rows[0]?.now_ms ?? Date.now() };
}

/** Busy: somebody held on to a table; nothing was changed, and it can be tried again. */
export type Tried<Result> = Result | "busy";

/** Gives every table its partition for a stretch of time. */
export function addSlice(database: Database, { startsMs, endsMs }: Span): Promise<Tried<"added">> {
  return unlessBusy<"added">(database, async (tx) => {
    await tx.run(PATIENCE, [DDL_MS]);
    await tx.run(ADD, [startsMs, endsMs]);
    return "added";
  });
}

/** What is open in a slice and keeps it; counting ends at {@link COUNTED_AT_MOST} each. */
export interface OpenWork {
  messages: number;
  attempts: number;
  notifications: number;
  events: number;
}

export const COUNTED_AT_MOST = 1_000;

/** Undefined where somebody else has dropped the slice meanwhile. */
export async function openWork(session: Session, { content, name }: Slice): Promise<OpenWork | undefined> {
  try {
    const [row] = await session.run(statement<OpenWork>("", OPEN[content](name)));
    return row;
  } catch (error) {
    if (sqlState(error) === NO_SUCH_TABLE) return undefined;
    throw error;
  }
}

const NO_SUCH_TABLE = "42P01";

export const anythingOpen = (work: OpenWork): boolean => Object.values(work).some((count) => count > 0);

/** Drops a slice, all of its tables or none, unless something in it is open after all. */
export function dropSlice(
  database: Database,
  author: Author,
  slice: Slice,
): Promise<Tried<"dropped" | "waits" | "gone">> {
  return unlessBusy<"dropped" | "waits" | "gone">(database, async (tx) => {
    await tx.run(PATIENCE, [LOCK_MS]);
    const parents = (await tx.run(PARENTS, [slice.content])).map((row) => row.parent);
    // Only the parents, as one statement: whoever comes now waits before it has locked anything.
    await tx.run(statement("", `LOCK TABLE ${parents.map((it) => `ONLY ${it}`).join(", ")}`));
    await tx.run(PATIENCE, [DDL_MS]);
    const { slices } = await readSlices(tx);
    if (!slices.some((it) => it.content === slice.content && it.name === slice.name)) return "gone";
    const open = await openWork(tx, slice);
    if (open === undefined || anythingOpen(open)) return "waits";
    await tx.run(statement("", `DROP TABLE ${parents.map((it) => `${it}_${slice.name}`).join(", ")}`));
    const effect = `dropped: ${slice.bytes} bytes`;
    await audit(tx, author, { action: "drop_slice", subject: `${slice.content} ${slice.name}`, effect });
    return "dropped";
  });
}

/** Rows for which there is no slice, counted to {@link COUNTED_AT_MOST} a table. */
export async function rowsWithoutSlice(session: Session): Promise<number> {
  const parents = (await session.run(PARENTS, [null])).map((row) => row.parent);
  const counts = parents.map(
    (it) => `(SELECT count(*) FROM (SELECT FROM ${it}_default LIMIT ${COUNTED_AT_MOST}) t)`,
  );
  const [row] = await session.run(
    statement<{ count: number }>("", `SELECT (${counts.join(" + ")})::int AS count`),
  );
  return row?.count ?? 0;
}

/** An alert stays until a person clears it (K); one of a kind and subject at a time. */
export async function raiseAlert(
  session: Session,
  kind: string,
  subject: string,
  detail: string,
): Promise<void> {
  await session.run(ALERT, [kind, subject, detail]);
}

/** All locks together must be had within that time, or the send path stands still for longer. */
const LOCK_MS = 400;
const DDL_MS = 2_000;

/** Gave up waiting for a lock; cut off while waiting for one; chosen to end a deadlock. */
const BUSY = new Set(["55P03", "57014", "40P01"]);

async function unlessBusy<Result>(
  database: Database,
  work: (tx: Session) => Promise<Result>,
): Promise<Tried<Result>> {
  try {
    return await database.transaction(async (tx) => {
      const [lock] = await tx.run(ONLY_ONE);
      return lock?.mine === true ? work(tx) : "busy";
    });
  } catch (error) {
    if (BUSY.has(sqlState(error) ?? "")) return "busy";
    throw error;
  }
}

/** Two at once would only stand in each other's way. */
const ONLY_ONE = statement<{ mine: boolean }>(
  "slices.only_one",
  "SELECT pg_try_advisory_xact_lock(7080002) AS mine",
);

const PATIENCE = statement<Record<string, never>>(
  "slices.patience",
  `SELECT set_config('statement_timeout', $1::int::text, true), set_config('lock_timeout', '${LOCK_MS}', true)`,
);

const PARENTS = statement<{ parent: string }>(
  "slices.parents",
  `SELECT parent FROM sliced_tables
    WHERE $1::text IS NULL OR CASE WHEN parent = 'supplier_events' THEN parent ELSE 'messages' END = $1
    ORDER BY parent`,
);

const SLICES = statement<{
  content: SliceContent | null;
  name: string | null;
  starts_ms: number | null;
  ends_ms: number | null;
  bytes: number | null;
  now_ms: number;
}>(
  "slices.read",
  `WITH part AS (
     SELECT CASE WHEN t.parent = 'supplier_events' THEN t.parent ELSE 'messages' END AS content,
            regexp_match(c.relname, '_(\\d{8})_(\\d{8})$') AS days, pg_total_relation_size(c.oid) AS bytes
       FROM sliced_tables t
       JOIN pg_inherits i ON i.inhparent = t.parent::regclass
       JOIN pg_class c ON c.oid = i.inhrelid)
   SELECT s.*, (extract(epoch FROM now()) * 1000)::float8 AS now_ms
     FROM (SELECT 1) always
     LEFT JOIN (
       SELECT content, days[1] || '_' || days[2] AS name,
              (extract(epoch FROM to_date(days[1], 'YYYYMMDD')) * 1000)::float8 AS starts_ms,
              (extract(epoch FROM to_date(days[2], 'YYYYMMDD')) * 1000)::float8 AS ends_ms,
              sum(bytes)::float8 AS bytes
         FROM part WHERE days IS NOT NULL GROUP BY content, days) s ON true
    ORDER BY s.starts_ms, s.content`,
);

const ADD = statement<Record<string, never>>(
  "slices.add",
  "SELECT add_slice(to_timestamp($1::float8 / 1000), to_timestamp($2::float8 / 1000))::text",
);

const counted = (rows: string): string =>
  `(SELECT count(*) FROM (SELECT FROM ${rows} LIMIT ${COUNTED_AT_MOST}) counted)::int`;

/** A name comes from the catalogue and is digits. Receipts that match nothing keep no slice: they age out (D14). */
const OPEN: Record<SliceContent, (name: string) => string> = {
  messages: (name) =>
    `SELECT ${counted(`messages_${name} WHERE final_at IS NULL`)} AS messages,
            ${counted(`attempts_${name} WHERE decided_at IS NULL`)} AS attempts,
            ${counted(`notifications_${name} WHERE status = 'pending'`)} AS notifications, 0 AS events`,
  supplier_events: (name) =>
    `SELECT 0 AS messages, 0 AS attempts, 0 AS notifications,
            ${counted(`supplier_events_${name} WHERE folded_at IS NULL AND kind <> 'receipt'`)} AS events`,
};

const ALERT = statement<Record<string, never>>(
  "slices.alert",
  "INSERT INTO alerts (kind, subject, detail) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
);
