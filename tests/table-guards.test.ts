/** What no statement may do, whoever writes it: the last line of defence is the tables' own (docs/guards.md). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { type AttemptId, messageIdOf, submitIdOf } from "../domain/ids.ts";
import {
  holder,
  openFacts,
  queuedAttempt,
  receiptFor,
  refusal,
  response,
  settled,
  told,
  written,
} from "./facts.ts";

let database: Database;
let attempt: AttemptId;

/** Delivered, charged, billed and told. */
beforeAll(async () => {
  database = await openFacts();
  attempt = await queuedAttempt(database, { webhookUrl: "http://127.0.0.1:1/hook" });
  await written(database, attempt, [1], holder());
  await told(database, response(attempt));
  await told(database, await receiptFor(database, attempt));
  await settled(database, attempt);
});
afterAll(() => database.close());

const CHECK = "23514";
const UNIQUE = "23505";

describe("the tables refuse", () => {
  it.each([
    [
      "a balance below its floor (A5)",
      CHECK,
      `UPDATE accounts SET balance_units = floor_units - 1 WHERE id = 'acc_demo'`,
    ],
    ["less than nothing held (D5)", CHECK, `UPDATE accounts SET held_units = -1 WHERE id = 'acc_demo'`],
    [
      "a second transfer under one key (D5)",
      UNIQUE,
      `INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
       SELECT key, kind, message_id, account_id, debit_pot, credit_pot, units FROM ledger_transfers
        WHERE kind = 'charge' AND message_id = $1`,
    ],
    [
      "a transfer of nothing (D5)",
      CHECK,
      `INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
       VALUES ('x1', 'reserve', $1, 'acc_demo', 'balance', 'held', 0)`,
    ],
    [
      "a transfer between pots that do not belong together (D5)",
      CHECK,
      `INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
       VALUES ('x2', 'refund', $1, 'acc_demo', 'held', 'earned', 1)`,
    ],
    [
      "a second billing record of a message (D5)",
      UNIQUE,
      `INSERT INTO billing_records (message_id, account_id, attempt_id, unit_price_units, unit_count, amount_units)
       SELECT message_id, account_id, attempt_id, unit_price_units, unit_count, amount_units FROM billing_records
        WHERE message_id = $1`,
    ],
    [
      "a bill that is not units times price (D5)",
      CHECK,
      `UPDATE billing_records SET amount_units = amount_units + 1 WHERE message_id = $1`,
    ],
    [
      "a price that is not segments times unit price (A5)",
      CHECK,
      `UPDATE messages SET price_units = price_units + 1 WHERE id = $1`,
    ],
    ["a final state without its time (D10)", CHECK, `UPDATE messages SET final_at = NULL WHERE id = $1`],
    [
      "a decided attempt without its outcome (D10)",
      CHECK,
      `UPDATE attempts SET outcome = NULL WHERE message_id = $1`,
    ],
    [
      "a second take of one write of a part (C3)",
      UNIQUE,
      `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner)
       SELECT t.submit_id, part, write_number, 'withdrawn', attempt_id, t.supplier_id, 'another'
         FROM takes t JOIN attempts a ON a.id = t.attempt_id WHERE a.message_id = $1`,
    ],
  ])("%s", async (_what, state, statement) => {
    const values = statement.includes("$1") ? [messageIdOf(attempt)] : [];
    expect(await refusal(database, statement, values)).toBe(state);
  });

  it("a second undecided attempt of a message, and a second successor of an attempt (D6)", async () => {
    const live = await queuedAttempt(database);
    const insert = (id: string, retryOf: string | null, decided: boolean): Promise<string | undefined> =>
      refusal(
        database,
        `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
                               channel_id, segment_count, outcome, decided_at)
         VALUES ($1, $2, 'ent_demo', 'app_demo', $3::int, $4, $5, $6, 'chn_demo_2', 1, $7, $8)`,
        [
          id,
          messageIdOf(live),
          Number(id.slice(id.lastIndexOf("_") + 1)),
          retryOf,
          submitIdOf(id as AttemptId),
          decided ? "decided" : "queued",
          decided ? "failed" : null,
          decided ? new Date() : null,
        ],
      );
    const id = (number: number): string => `${live.slice(0, live.lastIndexOf("_"))}_${number}`;

    expect(await insert(id(2), live, false)).toBe(UNIQUE);
    // A successor is the next attempt of its message, so there is one id that it can have.
    expect(await insert(id(3), live, true)).toBe(CHECK);
  });
});
