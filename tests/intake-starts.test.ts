/** Starting due attempts: one that Temporal will not have holds up nobody (A2). */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { attemptWorkflowId, messageIdOf } from "../domain/ids.ts";
import { readConfig } from "../workers/config.ts";
import { createIntake } from "../workers/intake.ts";
import { createMetrics } from "../workers/metrics.ts";
import { connectTemporal, type Temporal } from "../workers/temporal.ts";
import { acceptedMessage, ask, countOf, openFacts } from "./facts.ts";
import { DATA_KEYS, freshDatabase, servers, uniqueName, until } from "./servers.ts";

const errors: string[] = [];
const log = {
  info: () => undefined,
  warn: () => undefined,
  error: (_: object, what: string) => void errors.push(what),
};

let database: Database;
let temporal: Temporal;
let config: ReturnType<typeof readConfig>;
beforeAll(async () => {
  const url = await freshDatabase();
  database = await openFacts(url);
  config = readConfig({
    DATABASE_URL: url,
    REDIS_URL: servers.redisUrl(),
    TEMPORAL_ADDRESS: servers.temporalAddress(),
    WAYBILL_TASK_QUEUE: uniqueName("attempts"),
    WAYBILL_DATA_KEYS: DATA_KEYS,
  });
  temporal = await connectTemporal(config, log);
});
afterAll(async () => {
  await temporal.connection.close();
  await database.close();
});

it("lets attempts that Temporal refuses come again later and later, and starts the one behind them", async () => {
  const healthy = await acceptedMessage(database);
  // An id of more than a thousand characters is no workflow id; twice as many as one claim holds.
  await ask(
    database,
    `INSERT INTO inbox (attempt_id, message_id, due_at)
     SELECT 'att_' || repeat('x', 2000) || n, $1, now() - interval '1 hour' FROM generate_series(1, $2::int) n`,
    [messageIdOf(healthy), 2 * config.temporal.intake.claim],
  );
  await ask(database, `UPDATE inbox SET due_at = now() WHERE attempt_id = $1`, [healthy]);
  const intake = createIntake({ database, temporal, metrics: createMetrics(), log }, config.temporal);

  await intake.start();
  try {
    const handle = temporal.client.workflow.getHandle(attemptWorkflowId(healthy));
    await until("the healthy one is started", () => handle.describe().catch(() => undefined));
    await handle.terminate("the test is over");
  } finally {
    await intake.stop();
  }
  expect(errors).toContain("Temporal would not start an attempt");
  expect(
    await countOf(database, "inbox WHERE start_count = 0 OR due_at < now() + interval '2 seconds'"),
  ).toBe(0);
});
