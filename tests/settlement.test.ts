/** The one decision of an attempt, committed with money and notification, or not at all (D4–D11). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database, Session } from "../db/client.ts";
import { books } from "../db/ledger.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import { endWithoutRoute } from "../db/planning.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { settle } from "../db/settlement.ts";
import { type AttemptId, messageIdOf } from "../domain/ids.ts";
import {
  acceptedMessage,
  ask,
  attemptOf,
  countOf,
  holder,
  messageOf,
  openFacts,
  openSender,
  passLimit,
  persist,
  PRICE,
  queuedAttempt,
  receiptFor,
  response,
  segmentsOf,
  settled,
  silence,
  successorOf,
  told,
  transfersOf,
  written,
  untilWaiting,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(async () => {
  expect(await books(database)).toMatchObject({ balanced: true, differences: [] });
  await database.close();
});

const HOOK = "http://127.0.0.1:1/hook";

async function notificationsOf(attempt: AttemptId): Promise<{ id: string; body: string }[]> {
  const rows = await ask<{ id: string; body_sealed: Buffer }>(
    database,
    `SELECT id, body_sealed FROM notifications WHERE message_id = $1`,
    [messageIdOf(attempt)],
  );
  return rows.map(({ id, body_sealed: sealed }) => ({
    id,
    body: database.vault.openText("notifications.body", id, sealed),
  }));
}

/** Queued, written, and answered with these parts' fates. */
async function accepted(wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId> {
  const attempt = await queuedAttempt(database, wishes);
  const parts = Array.from({ length: wishes.segments ?? 1 }, (_, index) => index + 1);
  await written(database, attempt, parts);
  await told(database, ...parts.map((part) => response(attempt, { part })));
  return attempt;
}

async function rejected(wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId> {
  const attempt = await queuedAttempt(database, wishes);
  await written(database, attempt);
  await told(database, response(attempt, { answer: "rejected" }));
  return attempt;
}

describe("a final state", () => {
  it("commits state, money and one notification together (D10, E1)", async () => {
    const attempt = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, attempt));

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });

    expect(await messageOf(database, attempt)).toMatchObject({ status: "delivered", reason: null });
    expect(await attemptOf(database, attempt)).toMatchObject({
      state: "decided",
      outcome: "delivered",
      due_at: null,
    });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge"]);
    const [notification, ...more] = await notificationsOf(attempt);
    expect(more).toEqual([]);
    expect(JSON.parse(notification?.body ?? "")).toMatchObject({
      type: "message.delivered",
      id: notification?.id,
    });
  });

  it("commits nothing when anything in it fails, also for its mate in the batch (D10)", async () => {
    const attempt = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, attempt));
    const before = await everything(attempt);

    const mate = await accepted({ webhookUrl: HOOK });
    await passLimit(database, mate);

    for (const [table, when] of [
      ["notifications", "true"],
      ["ledger_transfers", "NEW.kind = 'refund'"],
    ] as const) {
      await expect(
        spoiled(table, when, () => database.transaction((tx) => settle(tx, [attempt, mate]))),
      ).rejects.toThrow("spoiled");
      expect(await everything(attempt)).toEqual(before);
    }
    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });
  });

  it("comes without a retry where the supplier's profile calls its refusal hopeless (D6)", async () => {
    const [retried, final] = [await rejected(), await rejected()];
    expect(await settled(database, retried)).toMatchObject({ kind: "retrying" });
    const profile = (change: string) =>
      ask(database, `UPDATE suppliers SET profile = ${change} WHERE id = 'sup_1'`);
    await profile(`profile || '{"hopelessResults": [9], "hopelessStats": ["undeliv"]}'`);
    expect(await settled(database, final)).toEqual({ kind: "final", status: "failed" });
    const undelivered = await accepted();
    await told(database, await receiptFor(database, undelivered, { stat: "UNDELIV" }));
    expect(await settled(database, undelivered)).toEqual({ kind: "final", status: "undelivered" });
    await profile(`profile - '{hopelessResults,hopelessStats}'::text[]`);
  });

  it("changes nothing the second time (D10, I)", async () => {
    const attempt = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, attempt));
    await settled(database, attempt);
    const before = await everything(attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });

    expect(await everything(attempt)).toEqual(before);
  });

  it("is reached once by several who settle at once", async () => {
    const attempt = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));
    await ask(database, `UPDATE channel_groups SET max_attempts = 1`);

    const answers = await allAtOnce(attempt, 4);
    await ask(database, `UPDATE channel_groups SET max_attempts = 3`);

    expect(answers).toEqual(Array.from({ length: 4 }, () => ({ kind: "final", status: "undelivered" })));
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge", "refund"]);
    expect(await notificationsOf(attempt)).toHaveLength(1);
  });

  it("of an attempt that nobody knows is not answered", async () => {
    expect((await database.transaction((tx) => settle(tx, ["att_0_1"]))).size).toBe(0);
  });

  /** Does the work while no such row can be inserted into this table. */
  async function spoiled(table: string, when: string, work: () => Promise<unknown>): Promise<void> {
    await ask(
      database,
      `CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql
         AS $$ BEGIN IF ${when} THEN RAISE EXCEPTION 'spoiled'; END IF; RETURN NEW; END $$`,
    );
    await ask(
      database,
      `CREATE TRIGGER spoil BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION spoil()`,
    );
    try {
      await work();
    } finally {
      await ask(database, `DROP TRIGGER spoil ON ${table}`);
    }
  }

  async function everything(attempt: AttemptId) {
    return {
      message: await messageOf(database, attempt),
      attempt: await attemptOf(database, attempt),
      segments: await segmentsOf(database, attempt),
      transfers: await transfersOf(database, attempt),
      notifications: await notificationsOf(attempt),
    };
  }
});

describe("a retry", () => {
  it("commits decision, successor, current attempt and inbox row in one; nobody is told (D6, D9)", async () => {
    const attempt = await rejected({ webhookUrl: HOOK });
    const successor = successorOf(attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "retrying", successorId: successor });

    expect(await attemptOf(database, attempt)).toMatchObject({
      state: "decided",
      outcome: "failed",
      reason: "submit:9",
    });
    expect(await attemptOf(database, successor)).toMatchObject({ state: "planned", retry_of: attempt });
    expect(await messageOf(database, attempt)).toMatchObject({
      current_attempt_id: successor,
      final_at: null,
    });
    expect(await countOf(database, "inbox WHERE attempt_id = $1", [successor])).toBe(1);
    expect(await notificationsOf(attempt)).toEqual([]);
    expect(await transfersOf(database, attempt)).toEqual(["reserve"]);
  });

  it("has one successor when several settle at once (D6)", async () => {
    const attempt = await rejected();

    const answers = await allAtOnce(attempt, 4);

    expect(answers).toEqual(
      Array.from({ length: 4 }, () => ({ kind: "retrying", successorId: successorOf(attempt) })),
    );
    expect(await countOf(database, "attempts WHERE message_id = $1", [messageIdOf(attempt)])).toBe(2);
  });

  it("reserves nothing again, and a message that was charged is not charged again (A5, D5)", async () => {
    const attempt = await accepted();
    await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));
    const successor = await retried(attempt, 2);
    await told(database, response(successor, { supplierId: "sup_2" }));
    await told(database, await receiptFor(database, successor, { supplierId: "sup_2" }));

    expect(await settled(database, successor)).toEqual({ kind: "final", status: "delivered" });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge"]);
  });

  it("leaves a message that was sent as sent (D6)", async () => {
    const attempt = await accepted();
    await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));

    await retried(attempt, 2);

    expect((await messageOf(database, attempt)).status).toBe("sent");
  });

  it("refunds once when the last attempt fails after the first was charged (D5)", async () => {
    const first = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, first, { stat: "UNDELIV" }));
    const second = await retried(first, 2);
    await told(database, response(second, { answer: "rejected", supplierId: "sup_2" }));
    const third = await retried(second, 3, false);
    await told(database, response(third, { answer: "rejected", supplierId: "sup_3" }));

    expect(await settled(database, third)).toEqual({ kind: "final", status: "failed" });
    expect(await transfersOf(database, first)).toEqual(["reserve", "charge", "refund"]);
    expect(await notificationsOf(first)).toHaveLength(1);
  });

  it.each([
    [
      "the window for retries is closed (D7)",
      "UPDATE channel_groups SET retry_window_seconds = 0",
      "UPDATE channel_groups SET retry_window_seconds = 3600",
    ],
    [
      "the application is disabled",
      "UPDATE applications SET active = false",
      "UPDATE applications SET active = true",
    ],
    [
      "every other channel is disabled",
      "UPDATE channels SET active = false WHERE id <> 'chn_demo_1'",
      "UPDATE channels SET active = true",
    ],
    [
      "no other filing is active",
      "UPDATE filings SET active = false WHERE channel_id <> 'chn_demo_1'",
      "UPDATE filings SET active = true",
    ],
  ])(
    "does not happen today when %s: the message ends and what it held goes back (D6)",
    async (_, now, back) => {
      const attempt = await rejected();
      await ask(database, now);
      try {
        expect(await settled(database, attempt)).toEqual({ kind: "final", status: "failed" });
      } finally {
        await ask(database, back);
      }
      expect(await messageOf(database, attempt)).toMatchObject({ reason: "submit:9" });
      expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
    },
  );

  it("also waits for a channel that is merely not connected (B4)", async () => {
    const attempt = await rejected();
    await ask(database, `UPDATE connections SET connected = false WHERE supplier_id <> 'sup_1'`);
    expect((await settled(database, attempt))?.kind).toBe("retrying");
    await ask(database, `UPDATE connections SET connected = true`);
  });

  it.each([
    ["is unknown (D6)", (attempt: AttemptId) => told(database, silence(attempt, 2))],
    ["awaits its receipt", (attempt: AttemptId) => told(database, response(attempt, { part: 2 }))],
    ["awaits its answer", () => Promise.resolve()],
  ])("waits while a mate of the rejected part %s", async (_, happens) => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);
    await told(database, response(attempt, { answer: "rejected" }));
    await happens(attempt);

    expect((await settled(database, attempt))?.kind).toBe("waiting");
    expect(await countOf(database, "attempts WHERE message_id = $1", [messageIdOf(attempt)])).toBe(1);
  });

  it("never follows where one part was delivered, and nothing is charged (D5, D6)", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);
    await told(database, response(attempt), response(attempt, { part: 2, answer: "rejected" }));
    await told(database, await receiptFor(database, attempt));

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "failed" });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
  });

  it("that finds no route ends the message with its predecessor's reason, and refunds (D6)", async () => {
    const attempt = await accepted({ webhookUrl: HOOK });
    await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));
    await settled(database, attempt);
    const successor = successorOf(attempt);

    await database.transaction((tx) =>
      endWithoutRoute(tx, successor, { status: "failed", reason: "no_route" }),
    );

    expect(await messageOf(database, attempt)).toMatchObject({
      status: "undelivered",
      reason: "receipt:UNDELIV",
    });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge", "refund"]);
    expect(await notificationsOf(attempt)).toHaveLength(1);
  });

  /** Settles into a successor, and queues and writes it on that channel. */
  async function retried(attempt: AttemptId, channel: number, checked = true): Promise<AttemptId> {
    const answer = await settled(database, attempt);
    if (checked) expect(answer?.kind).toBe("retrying");
    const successor = successorOf(attempt);
    await database.transaction((tx) => reserveForAttempts(tx, [successor]));
    await persist(database, successor, channel);
    await written(database, successor, [1], holder("gateway-a", `sup_${channel}`));
    return successor;
  }
});

describe("the message's own limit (D7)", () => {
  it("ends one whose outcome is unknown as expired, and releases what it held", async () => {
    const attempt = await queuedAttempt(database, { webhookUrl: HOOK });
    await written(database, attempt);
    await told(database, silence(attempt));
    expect((await settled(database, attempt))?.kind).toBe("waiting");
    await passLimit(database, attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "expired" });

    expect(await messageOf(database, attempt)).toMatchObject({
      uncertain: true,
      reason: "time_limit_passed",
    });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
    expect(await notificationsOf(attempt)).toHaveLength(1);
  });

  it("refunds one that was charged and never reported on", async () => {
    const attempt = await accepted();
    await passLimit(database, attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "expired" });

    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge", "refund"]);
    expect(
      await countOf(database, "billing_records WHERE message_id = $1 AND refunded_at IS NOT NULL", [
        messageIdOf(attempt),
      ]),
    ).toBe(1);
  });

  it("does not undo facts that are there already: they are judged first", async () => {
    const attempt = await accepted();
    await told(database, await receiptFor(database, attempt));
    await passLimit(database, attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });
  });

  it("starts no retry", async () => {
    const attempt = await rejected();
    await passLimit(database, attempt);

    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "failed" });
  });

  it("answers how long it is until then", async () => {
    const attempt = await queuedAttempt(database, { validitySeconds: 60 });
    const answer = await settled(database, attempt);
    expect(answer).toMatchObject({ kind: "waiting" });
    if (answer?.kind === "waiting") expect(answer.limitInMs).toBeLessThanOrEqual(60_000);
  });

  it("passes a message before it held anything, without a trace in the books", async () => {
    const attempt = await acceptedMessage(database);
    await passLimit(database, attempt);

    const answers = await database.transaction((tx) => reserveForAttempts(tx, [attempt]));

    expect(answers.get(attempt)).toEqual({ kind: "ended", status: "expired" });
    expect(await transfersOf(database, attempt)).toEqual([]);
  });
});

describe("the step that reserves", () => {
  it("answers each attempt of one message for itself, in one batch", async () => {
    const attempt = await rejected();
    await settled(database, attempt);
    const successor = successorOf(attempt);

    for (const order of [
      [attempt, successor],
      [successor, attempt],
    ]) {
      const answers = await database.transaction((tx) => reserveForAttempts(tx, order));
      expect(answers.get(successor)).toEqual({ kind: "reserved" });
      expect(answers.get(attempt) ?? { kind: "superseded" }).toEqual({ kind: "superseded" });
    }
  });

  it("refuses what the balance does not suffice for, and holds nothing for it (A3)", async () => {
    const sender = await openSender(database, 2n * PRICE);
    const attempts = [1, 2, 3].map(() => acceptedMessage(database, { sender }));
    const answers = await database.transaction(async (tx) =>
      reserveForAttempts(tx, await Promise.all(attempts)),
    );

    expect([...answers.values()].map((it) => it.kind).sort()).toEqual(["ended", "reserved", "reserved"]);
    expect(
      await countOf(database, "messages WHERE application_id = $1 AND reason = 'insufficient_balance'", [
        sender.applicationId,
      ]),
    ).toBe(1);
  });
});

describe("batches over several accounts", () => {
  it("lock them in one order, also where one message takes and another gives back (D11)", async () => {
    const [a, b] = [await openSender(database, 10n * PRICE), await openSender(database, 10n * PRICE)];
    const ends = async (sender: typeof a, stat: "DELIVRD" | "late"): Promise<AttemptId> => {
      const attempt = await accepted({ sender });
      if (stat === "late") await passLimit(database, attempt);
      else await told(database, await receiptFor(database, attempt));
      return attempt;
    };
    const crosswise = [
      [await ends(a, "DELIVRD"), await ends(b, "late")],
      [await ends(b, "DELIVRD"), await ends(a, "late")],
    ];

    await meetAtTheAccounts(
      [a.accountId, b.accountId],
      crosswise.map((batch) => (tx) => settle(tx, batch)),
    );
  });

  it("lock none for a message that is refused before it held anything (A5)", async () => {
    const [a, b] = [await openSender(database, PRICE), await openSender(database, PRICE)];
    const refused = async (sender: typeof a): Promise<AttemptId> =>
      acceptedMessage(database, { sender, to: "19900000000" });
    await ask(database, `DELETE FROM number_prefixes WHERE prefix = '199'`);
    const crosswise = [
      [await acceptedMessage(database, { sender: a }), await refused(b)],
      [await acceptedMessage(database, { sender: b }), await refused(a)],
    ];

    await meetAtTheAccounts(
      [a.accountId, b.accountId],
      crosswise.map((batch) => (tx) => reserveForAttempts(tx, batch)),
    );
  });

  /**
   * Each account is held until both batches wait for one. Then both must come through at their first run:
   * PostgreSQL would have given one of two that lock crosswise up.
   */
  async function meetAtTheAccounts(accounts: string[], batches: ((tx: Session) => Promise<unknown>)[]) {
    let runs = 0;
    const { running } = await database.transaction(async (tx) => {
      await ask(tx, `SELECT id FROM accounts WHERE id = ANY($1) FOR NO KEY UPDATE`, [accounts]);
      const running = batches.map((batch) =>
        database.transaction((own) => {
          runs++;
          return batch(own);
        }),
      );
      await untilWaiting(database, batches.length);
      return { running };
    });
    await Promise.all(running);
    expect(runs).toBe(batches.length);
  }
});

/** So many settle the attempt, and all have begun before the first may go on. */
async function allAtOnce(attempt: AttemptId, count: number): Promise<unknown[]> {
  const underWay = await database.transaction(async (tx) => {
    await lockAttemptsAndMessages(tx, [attempt]);
    const running = Array.from({ length: count }, () => settled(database, attempt));
    await untilWaiting(database, count);
    return { running };
  });
  return Promise.all(underWay.running);
}
