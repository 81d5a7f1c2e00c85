/**
 * Money: every transfer once, no account below its floor, and books that balance at any moment (D5, A5).
 *
 * What each guard is for, found by taking it away and seeing a test fail: without the account's lock in
 * `reserve`, six of one balance for five overdraw it; without the look for what is held, a second run
 * counts twice against the balance; without ON CONFLICT, or with a key of its own for the release, money
 * moves twice or the second run throws; in another order of locks, two batches wait for each other;
 * without the mark on the billing record, charges − refunds and the records differ.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database, Session } from "../db/client.ts";
import { books, charge, giveBack, reserve, topUp } from "../db/ledger.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import { type AttemptId, messageIdOf } from "../domain/ids.ts";
import {
  acceptedMessage,
  ask,
  countOf,
  messageOf,
  only,
  openFacts,
  openSender,
  PRICE,
  reservedMessage,
  type Sender,
  transfersOf,
  untilWaiting,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const balanceOf = async (sender: Sender): Promise<{ balance: bigint; held: bigint }> =>
  only(database, `SELECT balance_units AS balance, held_units AS held FROM accounts WHERE id = $1`, [
    sender.accountId,
  ]);

interface Item {
  attempt: AttemptId;
  sender: Sender;
}

const STEPS = ["reserve", "charge", "giveBack"] as const;
type Step = (typeof STEPS)[number];

/** As every caller does it: under the messages' locks, in a transaction of its own. */
const take = (step: Step, items: readonly Item[]): Promise<unknown> =>
  database.transaction(async (tx) => {
    await lockAttemptsAndMessages(
      tx,
      items.map((it) => it.attempt),
    );
    return moves[step](tx, items);
  });

const moves: Record<Step, (tx: Session, items: readonly Item[]) => Promise<unknown>> = {
  reserve: (tx, items) =>
    reserve(
      tx,
      items.map((it) => ({
        messageId: messageIdOf(it.attempt),
        accountId: it.sender.accountId,
        units: PRICE,
      })),
    ),
  charge: (tx, items) =>
    charge(
      tx,
      items.map((it) => ({ messageId: messageIdOf(it.attempt), attemptId: it.attempt })),
    ),
  giveBack: (tx, items) =>
    giveBack(
      tx,
      items.map((it) => messageIdOf(it.attempt)),
    ),
};

/** All ways in which one message's money may have gone. */
const LAWFUL = [
  [],
  ["reserve"],
  ["reserve", "charge"],
  ["reserve", "release"],
  ["reserve", "charge", "refund"],
].map((it) => it.join());

describe("any interleaving over several accounts and connections", () => {
  const ACCOUNTS = 3;
  const MESSAGES = 8;
  /** A step, and the messages of one batch; each batch runs twice. */
  const anyBatch = fc.record({
    step: fc.constantFrom(...STEPS),
    which: fc.uniqueArray(fc.integer({ min: 0, max: MESSAGES - 1 }), { minLength: 1, maxLength: 5 }),
  });
  const anyLanes = fc.array(fc.array(anyBatch, { minLength: 1, maxLength: 6 }), {
    minLength: 2,
    maxLength: 4,
  });

  it("keeps the books balanced at every step, moves nothing twice, and never deadlocks", async () => {
    const senders = await Promise.all(
      Array.from({ length: ACCOUNTS }, () => openSender(database, 2n * PRICE)),
    );

    await fc.assert(
      fc.asyncProperty(anyLanes, async (lanes) => {
        const items = await Promise.all(
          Array.from({ length: MESSAGES }, async (_, index): Promise<Item> => {
            const sender = senders[index % ACCOUNTS] ?? { accountId: "", applicationId: "" };
            return { attempt: await acceptedMessage(database, { sender }), sender };
          }),
        );
        await Promise.all(
          lanes.map(async (lane) => {
            for (const { step, which } of [...lane, ...lane]) {
              const batch = which.flatMap((index) => items[index] ?? []);
              await take(step, batch);
              await expectBalanced();
            }
          }),
        );
        for (const { attempt } of items)
          expect(LAWFUL).toContain((await transfersOf(database, attempt)).join());
        await take("giveBack", items);
      }),
      { numRuns: 25 },
    );

    for (const sender of senders) expect(await balanceOf(sender)).toEqual({ balance: 2n * PRICE, held: 0n });
  }, 120_000);

  async function expectBalanced(): Promise<void> {
    expect(await books(database)).toMatchObject({ balanced: true, differences: [] });
    expect(await countOf(database, "accounts WHERE balance_units < floor_units OR held_units < 0")).toBe(0);
  }
});

describe("a balance for five", () => {
  it("holds five of six that reserve at once, whatever they see (A5)", async () => {
    const sender = await openSender(database, 5n * PRICE);
    const items = await itemsOf(sender, 6);

    const refused = await Promise.all(items.map((it) => take("reserve", [it]) as Promise<Set<string>>));

    expect(refused.filter((it) => it.size === 1)).toHaveLength(1);
    expect(await balanceOf(sender)).toEqual({ balance: 0n, held: 5n * PRICE });
  });

  it("holds five of six in one batch", async () => {
    const sender = await openSender(database, 5n * PRICE);
    const items = await itemsOf(sender, 6);

    expect((await take("reserve", items)) as Set<string>).toEqual(
      new Set([messageIdOf(items[5]?.attempt ?? "")]),
    );
  });

  it("holds no more when the same six are asked for again (A4)", async () => {
    const sender = await openSender(database, 5n * PRICE);
    const items = await itemsOf(sender, 5);
    await take("reserve", items);

    expect(await take("reserve", items)).toEqual(new Set());
    expect(await balanceOf(sender)).toEqual({ balance: 0n, held: 5n * PRICE });
  });

  it("goes down to its floor and no further, also where that is below zero", async () => {
    const sender = await openSender(database, PRICE);
    await ask(database, `UPDATE accounts SET floor_units = -325 WHERE id = $1`, [sender.accountId]);
    const items = await itemsOf(sender, 3);

    const refused = (await take("reserve", items)) as Set<string>;

    expect(refused.size).toBe(1);
    expect((await balanceOf(sender)).balance).toBe(-PRICE);
  });
});

describe("accounts", () => {
  it.each(["reserve", "giveBack"] as const)(
    "are locked in the order of their ids by %s (D11)",
    async (step) => {
      const senders = [await openSender(database, 5n * PRICE), await openSender(database, 5n * PRICE)];
      const [first, second] = senders.map((it) => it.accountId).sort();
      // Moved to the end of the table, so that the order in which rows lie there is another one.
      await ask(database, `UPDATE accounts SET currency = currency WHERE id = $1`, [first]);
      const items = await Promise.all(senders.map((it) => itemsOf(it, 1, step === "giveBack")));

      const { batch } = await database.transaction(async (tx) => {
        await ask(tx, `SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE`, [second]);
        const batch = take(step, items.reverse().flat());
        await untilWaiting(database, 1);
        const free = await ask(
          database,
          `SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED`,
          [first],
        );
        expect(free).toEqual([]);
        return { batch };
      });
      await batch;
    },
  );
});

describe("one message's reservation (D5)", () => {
  it("closes once: charge and release shut each other out, whichever comes first", async () => {
    const sender = await openSender(database, 20n * PRICE);
    for (let round = 0; round < 8; round++) {
      const [item] = await itemsOf(sender, 1, true);
      if (item === undefined) throw new Error("no item");

      await Promise.all([take("charge", [item]), take("giveBack", [item]), take("charge", [item])]);

      expect(["reserve,charge,refund", "reserve,charge", "reserve,release"]).toContain(
        (await transfersOf(database, item.attempt)).join(),
      );
    }
    expect((await books(database)).differences).toEqual([]);
  });

  it("is charged with one billing record, and refunded with a mark on it", async () => {
    const sender = await openSender(database, 3n * PRICE);
    const attempt = await reservedMessage(database, { sender, segments: 3 });
    const item = { attempt, sender };

    for (let run = 0; run < 2; run++) await take("charge", [item]);
    expect(await recordOf(attempt)).toEqual({ unit_count: 3, amount_units: 3n * PRICE, refunded: false });

    for (let run = 0; run < 2; run++) await take("giveBack", [item]);
    expect(await recordOf(attempt)).toEqual({ unit_count: 3, amount_units: 3n * PRICE, refunded: true });
    expect(await balanceOf(sender)).toEqual({ balance: 3n * PRICE, held: 0n });
  });

  it("that never was is neither charged nor given back", async () => {
    const sender = await openSender(database, PRICE);
    const [item] = await itemsOf(sender, 1);
    if (item === undefined) throw new Error("no item");

    expect(await take("charge", [item])).toEqual(new Set());
    await take("giveBack", [item]);

    expect(await transfersOf(database, item.attempt)).toEqual([]);
    expect((await messageOf(database, item.attempt)).status).toBe("accepted");
  });

  const recordOf = (attempt: AttemptId) =>
    only(
      database,
      `SELECT unit_count, amount_units, refunded_at IS NOT NULL AS refunded FROM billing_records WHERE message_id = $1`,
      [messageIdOf(attempt)],
    );
});

describe("the books", () => {
  it("tell of every difference that somebody made behind the ledger's back", async () => {
    const sender = await openSender(database, 10n * PRICE);
    await reservedMessage(database, { sender });
    await ask(
      database,
      `UPDATE accounts SET balance_units = balance_units + 1, held_units = held_units + 2 WHERE id = $1`,
      [sender.accountId],
    );

    const { balanced, differences } = await books(database);

    expect(balanced).toBe(false);
    expect(differences.map((it) => [it.accountId, it.what])).toEqual([
      [sender.accountId, "balance"],
      [sender.accountId, "held"],
      [sender.accountId, "open_reservations"],
    ]);
    await ask(
      database,
      `UPDATE accounts SET balance_units = balance_units - 1, held_units = held_units - 2 WHERE id = $1`,
      [sender.accountId],
    );
  });

  it("take money in once a key", async () => {
    const sender = await openSender(database, 0n);
    const key = `top_up:${sender.accountId}:1`;

    const moved = await Promise.all(
      [1, 2, 3].map(() => database.transaction((tx) => topUp(tx, sender.accountId, key, 1_000n))),
    );

    expect(moved.filter(Boolean)).toHaveLength(1);
    expect((await balanceOf(sender)).balance).toBe(1_000n);
  });
});

async function itemsOf(sender: Sender, count: number, reserved = false): Promise<Item[]> {
  return Promise.all(
    Array.from({ length: count }, async () => ({
      attempt: await (reserved ? reservedMessage : acceptedMessage)(database, { sender }),
      sender,
    })),
  );
}
