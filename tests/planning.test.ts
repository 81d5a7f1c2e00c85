/** Planning reads today's rules again: an attempt may have waited long since they were checked (B1, D6). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planBatch } from "../activities/plan-route.ts";
import type { Database } from "../db/client.ts";
import { type AttemptId, messageIdOf } from "../domain/ids.ts";
import {
  ask,
  messageOf,
  numberOf,
  openFacts,
  openSender,
  PRICE,
  queuedAttempt,
  receiptFor,
  reservedMessage,
  response,
  type Sender,
  settled,
  successorOf,
  told,
  transfersOf,
  written,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const plan = async (attempt: AttemptId) => (await planBatch(database, () => 0)([attempt]))[0];

/** Its first attempt was undelivered, so it has been charged; the successor waits to be planned. */
async function successor(sender: Sender): Promise<AttemptId> {
  const attempt = await queuedAttempt(database, { sender });
  await written(database, attempt);
  await told(database, response(attempt));
  await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));
  expect((await settled(database, attempt))?.kind).toBe("retrying");
  return successorOf(attempt);
}

const disable = (table: string, id: string, active: boolean): Promise<unknown> =>
  ask(database, `UPDATE ${table} SET active = $2 WHERE id = $1`, [id, active]);

interface Bar {
  reason: string;
  set: (it: { attempt: AttemptId; sender: Sender }) => Promise<unknown>;
  lift: () => Promise<unknown>;
}

const bars: Bar[] = [
  {
    reason: "application_disabled",
    set: ({ sender }) => disable("applications", sender.applicationId, false),
    lift: () => Promise.resolve(),
  },
  {
    reason: "enterprise_disabled",
    set: () => disable("enterprises", "ent_demo", false),
    lift: () => disable("enterprises", "ent_demo", true),
  },
  {
    reason: "recipient_blacklisted",
    set: async ({ attempt }) =>
      ask(database, `INSERT INTO blacklist (number_hash, number_sealed) VALUES ($1, '')`, [
        database.vault.hash(await numberOf(database, attempt)),
      ]),
    lift: () => Promise.resolve(),
  },
];

describe("an attempt that is planned while", () => {
  it.each(bars)(
    "$reason stands against it is not sent: a first one is refused (A3)",
    async ({ reason, set, lift }) => {
      const sender = await openSender(database, 10n * PRICE);
      const attempt = await reservedMessage(database, { sender });
      await set({ attempt, sender });
      try {
        expect(await plan(attempt)).toEqual({ kind: "ended", status: "refused" });
      } finally {
        await lift();
      }
      expect(await messageOf(database, attempt)).toMatchObject({ status: "refused", reason });
      expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
    },
  );

  it.each(bars)(
    "$reason stands against it is not sent: a successor ends as its predecessor did (D6)",
    async ({ set, lift }) => {
      const sender = await openSender(database, 10n * PRICE);
      const attempt = await successor(sender);
      await set({ attempt, sender });
      try {
        expect(await plan(attempt)).toEqual({ kind: "ended", status: "undelivered" });
      } finally {
        await lift();
      }
      expect(await messageOf(database, attempt)).toMatchObject({
        status: "undelivered",
        reason: "receipt:UNDELIV",
      });
      expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge", "refund"]);
    },
  );

  it("its group's window for retries is closed is not sent, unless a person allowed it (D6, D7)", async () => {
    const [late, allowed, first] = [
      await successor(await openSender(database, 10n * PRICE)),
      await successor(await openSender(database, 10n * PRICE)),
      await reservedMessage(database),
    ];
    await ask(database, `UPDATE attempts SET may_repeat_channels = true WHERE id = $1`, [allowed]);
    await ask(
      database,
      `UPDATE messages SET created_at = created_at - interval '2 hours' WHERE id = ANY($1)`,
      [[late, allowed, first].map(messageIdOf)],
    );

    expect(await plan(late)).toEqual({ kind: "ended", status: "undelivered" });
    expect(await plan(allowed)).toMatchObject({ kind: "planned" });
    expect(await plan(first)).toMatchObject({ kind: "planned" });
  });

  it("its signature is no longer approved has no route, and no successor is begun for it (D6)", async () => {
    const signature = (status: string): Promise<unknown> =>
      ask(database, `UPDATE signatures SET status = $1 WHERE id = 'sig_demo'`, [status]);
    const failed = await queuedAttempt(database);
    await written(database, failed);
    await told(database, response(failed, { answer: "rejected" }));
    const waiting = await reservedMessage(database);
    await signature("rejected");
    try {
      expect(await settled(database, failed)).toEqual({ kind: "final", status: "failed" });
      expect(await plan(waiting)).toEqual({ kind: "ended", status: "failed" });
    } finally {
      await signature("approved");
    }
    expect((await messageOf(database, waiting)).reason).toBe("no_route");
  });
});
