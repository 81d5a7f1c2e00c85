/**
 * PostgreSQL analyzes partitions by itself, and never the table that they are partitions of. Without its
 * statistics a join of two such tables is planned as if every row had many partners.
 */
import { type Session, openSingleConnection, statement } from "./client.ts";

/** Analyzes the partitioned tables that have doubled, or halved, since it was done last; answers which. */
export async function analyzeGrown(session: Session, url: string): Promise<string[]> {
  const grown = (await session.run(GROWN)).map((row) => row.parent);
  if (grown.length === 0) return [];
  // A connection of its own: a sample of every partition may take longer than a statement has elsewhere.
  const client = await openSingleConnection(url, "analyze");
  try {
    await client.query("SET statement_timeout = 0");
    for (const parent of grown) await client.query(`ANALYZE ${client.escapeIdentifier(parent)}`);
  } finally {
    await client.end();
  }
  return grown;
}

/** Small tables are read as quickly by any plan. */
const GROWN = statement<{ parent: string }>(
  "table_statistics.grown",
  `SELECT t.parent FROM sliced_tables t
     JOIN pg_class p ON p.oid = t.parent::regclass
     JOIN LATERAL (
       SELECT coalesce(sum(s.n_live_tup), 0) AS rows FROM pg_inherits i JOIN pg_stat_user_tables s ON s.relid = i.inhrelid
        WHERE i.inhparent = p.oid) now ON true
    WHERE now.rows > 2 * greatest(p.reltuples, 500) OR now.rows * 2 < p.reltuples - 1000
    ORDER BY t.parent`,
);
