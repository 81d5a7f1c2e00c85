/** What one supplier says without end delays no other's, and is not work for ever (D1, D2, D14). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import type { SupplierEvent } from "../db/events.ts";
import { foldEvents } from "../db/folding.ts";
import { createEventRecorder } from "../gateway-bridge/events.ts";
import {
  ask,
  countOf,
  openFacts,
  queuedAttempt,
  receiptFor,
  response,
  segmentsOf,
  store,
  told,
  written,
} from "./facts.ts";

let database: Database;
beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const nothing = (): void => undefined;
const receipt = (supplierId: string, n: number): SupplierEvent => ({
  key: `flood:${supplierId}:${n}`,
  kind: "receipt",
  supplierId,
  slot: 0,
  epoch: 1n,
  msgId: n.toString(16).padStart(16, "f"),
  stat: "DELIVRD",
  number: `139${String(n).padStart(8, "0")}`,
  srcId: "10690001",
});

describe("the receipts of one supplier", () => {
  it("are stored in turn with another's, whose receipt does not wait for them", async () => {
    const recorder = createEventRecorder({
      database,
      streams: { wake: nothing },
      log: { info: nothing, warn: nothing, error: nothing },
    });
    let waiting = 0;
    const all = Array.from({ length: 8_000 }, async (_, n) => {
      waiting++;
      await recorder.record(receipt("sup_1", n));
      waiting--;
    });
    await recorder.record(receipt("sup_2", 1));
    expect(waiting).toBeGreaterThan(7_500);
    await Promise.all(all);
    expect(await countOf(database, "supplier_events WHERE supplier_id = 'sup_1'")).toBe(8_000);
    await ask(database, `DELETE FROM supplier_events`);
  });

  it("are folded in turn with another's, which is not behind a hundred times as many (D1)", async () => {
    const attempt = await queuedAttempt(database, { channel: 2 });
    await written(database, attempt);
    await told(database, response(attempt, { supplierId: "sup_2" }));
    // Of nothing that we know, and due before the one.
    await ask(
      database,
      `INSERT INTO supplier_events (event_key, kind, supplier_id, msg_id, stat, number_hash, src_id, due_at)
       SELECT 'flood:' || supplier || n, 'receipt', supplier, to_char(n, 'fm0000000000000000'), 'DELIVRD',
              '139' || to_char(n, 'fm00000000'), '10690001', now() - interval '1 minute'
         FROM generate_series(1, 3000) n, unnest(array['sup_1', 'sup_3']) supplier`,
    );
    await store(database, await receiptFor(database, attempt, { supplierId: "sup_2" }));

    const batch = await database.transaction((tx) => foldEvents(tx, 32));

    expect(batch).toMatchObject({ folded: 1, full: true });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ receipt: "delivered" }]);
    expect(batch.eventCount).toBeLessThanOrEqual(34);
    await ask(database, `DELETE FROM supplier_events WHERE event_key LIKE 'flood:%'`);
  });

  it("are looked into ever more seldom while they belong to nothing, and kept (D14)", async () => {
    await ask(
      database,
      `INSERT INTO supplier_events (event_key, kind, supplier_id, msg_id, stat, number_hash, src_id, received_at, try_count)
       SELECT 'old:' || hours, 'receipt', 'sup_1', to_char(hours, 'fm9000000000000000'), 'DELIVRD', '13912345678',
              '10690001', now() - hours * interval '1 hour', 20
         FROM unnest(array[0, 1, 24, 2400]) hours`,
    );
    await told(database);
    const waits = await ask<{ minutes: number }>(
      database,
      `SELECT round(extract(epoch FROM due_at - now()) / 60)::int AS minutes
         FROM supplier_events WHERE event_key LIKE 'old:%' ORDER BY received_at DESC`,
    );
    expect(waits.map((it) => it.minutes)).toEqual([5, 15, 360, 1_440]);
  });
});
