/** Looking for a few messages among many: each search reads what it shows, and little more. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { listMessages, selectMessages, type MessageFilter } from "../db/queries.ts";
import { messageIdOf } from "../domain/ids.ts";
import type { MessageStatus } from "../domain/message.ts";
import { acceptedMessage, ask, openFacts, pagesRead } from "./facts.ts";

const MANY = 20_000;
const APPLICATION = "app_demo";
let database: Database;
/** The oldest of all. */
const old: Partial<Record<MessageStatus, string>> = {};

beforeAll(async () => {
  database = await openFacts();
  for (const [status, ended] of [
    ["failed", true],
    ["sent", false],
  ] as const) {
    const id = messageIdOf(await acceptedMessage(database));
    old[status] = id;
    await ask(
      database,
      `UPDATE messages SET status = $2, reason = $3, final_at = CASE WHEN $4 THEN now() END,
              created_at = now() - interval '1 hour' WHERE id = $1`,
      [id, status, ended ? "supplier_rejected" : null, ended],
    );
  }
  const model = messageIdOf(await acceptedMessage(database));
  await ask(
    database,
    `INSERT INTO messages
     SELECT another.* FROM messages m, generate_series(1, ${MANY}) n,
            LATERAL jsonb_populate_record(m, jsonb_build_object('id', left(m.id, 24) || lpad(n::text, 6, '0'),
                      'status', 'delivered', 'final_at', now())) another
      WHERE m.id = $1`,
    [model],
  );
  await ask(database, `ANALYZE messages`);
});
afterAll(() => database.close());

it.each(["failed", "sent"] as const)(
  "finds the one that is %s behind 20,000 that were delivered",
  async (status) => {
    const found = await listMessages(database, APPLICATION, { status }, 50);
    expect(found.map(({ id }) => id)).toEqual([old[status]]);
    expect(await pagesOf({ status })).toBeLessThan(100);
  },
);

it("shows the newest of those that were delivered without reading the others", async () => {
  expect(await selectMessages(database, APPLICATION, { status: "delivered" }, 50)).toHaveLength(50);
  expect(await pagesOf({ status: "delivered" })).toBeLessThan(1_000);
});

it("goes on behind the 10,000th row as cheaply as it began", async () => {
  const [row] = await ask<{ id: string; at: string }>(
    database,
    `SELECT id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at FROM messages
      WHERE application_id = $1 ORDER BY created_at DESC, id DESC OFFSET 10000 LIMIT 1`,
    [APPLICATION],
  );
  expect(row).toBeDefined();
  expect(await pagesOf({ before: row })).toBeLessThan(1_000);
});

function pagesOf(filter: MessageFilter): Promise<number> {
  const { sql, params } = selectMessages(database, APPLICATION, filter, 50).toSQL();
  return pagesRead(database, sql, params);
}
