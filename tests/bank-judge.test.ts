/** The bank check of the fault runs: silent over sound books, and against each way of doctoring them (C5). */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { charge } from "../db/ledger.ts";
import { messageIdOf } from "../domain/ids.ts";
import { bankDifferences, driftOf } from "../fault-tests/judges/bank.ts";
import { ask, openFacts, reservedMessage } from "./facts.ts";
import { freshDatabase } from "./servers.ts";

let database: Database;
let judge: pg.Client;
/** One message that was delivered and paid for, and one whose price is held. */
let paid: string;
let held: string;

beforeAll(async () => {
  const url = await freshDatabase();
  database = await openFacts(url);
  judge = new pg.Client({ connectionString: url });
  await judge.connect();
  const attempt = await reservedMessage(database);
  paid = messageIdOf(attempt);
  await database.transaction((tx) => charge(tx, [{ messageId: paid, attemptId: attempt }]));
  await ask(database, `UPDATE messages SET status = 'delivered', final_at = now() WHERE id = $1`, [paid]);
  held = messageIdOf(await reservedMessage(database));
});
afterAll(async () => {
  await judge.end();
  await database.close();
});

/** What the judge says while these statements stand; they are taken back afterwards. */
async function saidWhile(...doctored: string[]): Promise<string[]> {
  await judge.query("BEGIN");
  try {
    for (const statement of doctored) {
      await judge.query(statement.replaceAll("$paid", `'${paid}'`).replaceAll("$held", `'${held}'`));
    }
    return (await bankDifferences(judge)).map(({ what }) => what);
  } finally {
    await judge.query("ROLLBACK");
  }
}

const UNCHECKED = `ALTER TABLE accounts DROP CONSTRAINT accounts_balance_above_floor`;

const insert = (key: string, kind: string, of: string, legs: string, units = "units"): string =>
  `INSERT INTO ledger_transfers (key, kind, account_id, message_id, debit_pot, credit_pot, units)
   SELECT '${key}', '${kind}', account_id, message_id, ${legs}, ${units}
     FROM ledger_transfers WHERE message_id = ${of} AND kind = 'reserve'`;

it("has nothing against books that are sound, in the middle of a message's life too", async () => {
  expect(await saidWhile()).toEqual([]);
});

describe("the bank judge objects to", () => {
  it.each([
    ["the balance is not the sum of its entries", [`UPDATE accounts SET balance_units = balance_units - 1`]],
    ["what is held is not the sum of its entries", [`UPDATE accounts SET held_units = held_units + 1`]],
    ["money came from nowhere or is gone", [`UPDATE accounts SET balance_units = balance_units + 7`]],
    ["the balance is below its floor", [UNCHECKED, `UPDATE accounts SET floor_units = balance_units + 1`]],
    [
      "one account pays what another reserved",
      [
        `INSERT INTO accounts (id, enterprise_id, currency) VALUES ('acc_other', 'ent_demo', 'CNY')`,
        `UPDATE ledger_transfers SET account_id = 'acc_other' WHERE message_id = $paid AND kind = 'charge'`,
      ],
    ],
    ["reserved more than once", [insert("again", "reserve", "$held", `'balance', 'held'`)]],
    [
      "taken or released without a reservation",
      [`DELETE FROM ledger_transfers WHERE message_id = $paid AND kind = 'reserve'`],
    ],
    ["taken or released more than once", [insert("again", "release", "$paid", `'held', 'balance'`)]],
    [
      "taken or released in another amount than reserved",
      [`UPDATE ledger_transfers SET units = units + 1 WHERE message_id = $paid AND kind = 'charge'`],
    ],
    [
      "refunded more than once",
      ["one", "two"].map((key) => insert(key, "refund", "$paid", `'earned', 'balance'`)),
    ],
    [
      "refunded in another amount than charged",
      [insert("one", "refund", "$paid", `'earned', 'balance'`, "units + 1")],
    ],
    [
      "charged and not billed, or billed in another amount",
      [`DELETE FROM billing_records WHERE message_id = $paid`],
    ],
    ["billed and not charged", [`DELETE FROM ledger_transfers WHERE message_id = $paid AND kind = 'charge'`]],
    ["the bill and the refund disagree", [`UPDATE billing_records SET refunded_at = now()`]],
    [
      "delivered, and its price was not kept",
      [`UPDATE messages SET status = 'delivered', final_at = now() WHERE id = $held`],
    ],
    [
      "ended without delivery, and money was kept",
      [`UPDATE messages SET status = 'failed' WHERE id = $paid`],
    ],
    ["given back before its end", [insert("close", "release", "$held", `'held', 'balance'`)]],
  ])("%s", async (what, doctored) => {
    expect(await saidWhile(...doctored)).toContain(what);
  });
});

it("counts a difference of no amount as one, so that no drift adds up to none", () => {
  const nothing = { what: "", subject: "" };
  expect(driftOf([])).toBe(0);
  expect(
    driftOf([
      { ...nothing, units: 0n },
      { ...nothing, units: 325n },
    ]),
  ).toBe(326);
});
