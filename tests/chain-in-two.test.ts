/** Every background role twice: nothing is decided, sent, charged or told twice, and nothing collides. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { statement } from "../db/client.ts";
import { type Chain, startChain } from "./chain.ts";

const LONG = "长短信".repeat(50);
/** Prefixes of two operators, so that each number is used once. */
const PREFIXES = [
  130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 150, 151, 152, 153, 155, 156, 157, 158, 159,
];

let chain: Chain;
beforeAll(async () => {
  chain = await startChain({ copies: 2, receiptDelayMs: 20 });
});
afterAll(() => chain.stop());

it("a burst of long messages whose segments all end at once (D6, D10, D13)", async () => {
  const fates = ["0000", "0001", "0109"] as const;
  const sent = await Promise.all(
    PREFIXES.flatMap((prefix) =>
      fates.map(async (fate) => {
        const to = `${prefix}9999${fate}`;
        return { fate, to, id: await chain.send(to, LONG) };
      }),
    ),
  );
  const expected = {
    "0000": { status: "delivered", attempts: 1, submits: 3 },
    "0001": { status: "undelivered", attempts: 3, submits: 9 },
    "0109": { status: "failed", attempts: 3, submits: 9 },
  };
  for (const { fate, to, id } of sent) {
    const story = await chain.untilFinal(id);
    expect(
      { status: story.status, attempts: story.attempts.length, submits: (await chain.witnessed(to)).length },
      `${to} ${id}`,
    ).toEqual(expected[fate]);
    await chain.untilWebhook(id);
  }
  expect(new Set(chain.webhooks.map((hook) => hook.headers["webhook-id"])).size).toBe(sent.length);
  expect((await chain.books()).differences).toEqual([]);
});

it("rolls nothing back: no unique key was violated and nothing deadlocked (D13)", async () => {
  const [row] = await chain.database.run(TROUBLE);
  expect(row).toEqual({ rollbacks: 0n, deadlocks: 0n });
});

const TROUBLE = statement<{ rollbacks: bigint; deadlocks: bigint }>(
  "test.trouble",
  `SELECT xact_rollback AS rollbacks, deadlocks FROM pg_stat_database WHERE datname = current_database()`,
);
