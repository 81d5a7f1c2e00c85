/** Supplier events on their way into segments: matched, applied, charged, never guessed (D2–D5, D8, D14). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { storedKeyOf } from "../db/events.ts";
import { foldEvents } from "../db/folding.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import type { AttemptId } from "../domain/ids.ts";
import {
  ask,
  attemptOf,
  freshNumber,
  holder,
  idOf,
  messageOf,
  msgIdOf,
  NO_MSG_ID,
  numberOf,
  only,
  openFacts,
  passLimit,
  queuedAttempt,
  receipt,
  receiptFor,
  response,
  segmentsOf,
  settled,
  silence,
  store,
  told,
  transfersOf,
  written,
  untilWaiting,
} from "./facts.ts";
import { vault } from "./servers.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
/** What one test leaves unmatched is no concern of the next. */
afterEach(() =>
  ask(database, `UPDATE supplier_events SET folded_at = now(), fate = 'foreign' WHERE folded_at IS NULL`),
);
afterAll(() => database.close());

const fateOf = async (key: string) =>
  only<{ fate: string | null; attempt_id: string | null; part: number | null; copy_count: number }>(
    database,
    `SELECT e.fate, e.attempt_id, e.part, k.copy_count
       FROM supplier_event_keys k JOIN supplier_events e ON e.id = k.event_id WHERE k.event_key = $1`,
    [storedKeyOf(vault, { kind: key.startsWith("receipt") ? "receipt" : "response", key })],
  );

describe("answers and receipts", () => {
  it("charges when the supplier has accepted the whole message, and not before (D5)", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);

    await told(database, response(attempt));
    expect(await transfersOf(database, attempt)).toEqual(["reserve"]);
    expect((await messageOf(database, attempt)).status).toBe("queued");

    await told(database, response(attempt, { part: 2 }));
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge"]);
    expect((await messageOf(database, attempt)).status).toBe("sent");
  });

  it("takes a state by the supplier's own table where it has one (D4)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));
    const receipt = {
      ...(await receiptFor(database, attempt)),
      stat: "OK:0000",
      meaning: "delivered" as const,
    };

    const batch = await told(database, receipt);

    expect(batch.due.map((it) => it.attemptId)).toEqual([attempt]);
  });

  it("charges nothing for an attempt of which a part was rejected (D5)", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);

    await told(database, response(attempt), response(attempt, { part: 2, answer: "rejected" }));
    await told(database, await receiptFor(database, attempt));

    expect(await transfersOf(database, attempt)).toEqual(["reserve"]);
  });

  it("says that a decision is due only when every part has its receipt (D4)", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);
    await told(database, response(attempt), response(attempt, { part: 2 }));

    const first = await told(database, await receiptFor(database, attempt));
    const second = await told(database, await receiptFor(database, attempt, { part: 2 }));

    expect(first.due).toEqual([]);
    expect(second.due.map((it) => it.attemptId)).toEqual([attempt]);
  });

  it("raises the revision of facts with every change, and not with a copy (D2, D10)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));
    const { facts_revision: before } = await attemptOf(database, attempt);

    await told(database, response(attempt));
    expect((await attemptOf(database, attempt)).facts_revision).toBe(before);

    await told(database, await receiptFor(database, attempt));
    expect((await attemptOf(database, attempt)).facts_revision).toBe(before + 1);
  });

  it("parks a receipt that comes before its answer, and matches it with the answer (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    const early = await receiptFor(database, attempt);

    expect(await told(database, early)).toMatchObject({ folded: 0, unmatched: 1, due: [] });

    await store(database, response(attempt));
    const answered = await database.transaction((tx) => foldEvents(tx, 100));
    const matched = await database.transaction((tx) => foldEvents(tx, 100));
    expect(answered).toMatchObject({ folded: 1, unmatched: 0 });
    expect(matched).toMatchObject({ folded: 1, due: [{ attemptId: attempt }] });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "accepted", receipt: "delivered" }]);
  });

  it("folds an answer and its receipt out of one batch, in whatever order they came (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);

    const batch = await told(database, await receiptFor(database, attempt), response(attempt));

    expect(batch).toMatchObject({ folded: 2, unmatched: 0, due: [{ attemptId: attempt }] });
  });

  it("stores an answer whose code fills all four bytes, beside its mates (D2)", async () => {
    const [odd, plain] = [await queuedAttempt(database), await queuedAttempt(database)];
    await written(database, odd);
    await written(database, plain);

    await told(database, { ...response(odd), answer: "rejected", resultCode: 0xffff_ffff }, response(plain));

    expect((await segmentsOf(database, odd))[0]).toMatchObject({ result: "rejected" });
    expect((await segmentsOf(database, plain))[0]).toMatchObject({ result: "accepted" });
  });

  it("counts copies, inside a batch and across batches, and folds them once (D2)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    const twice = await receiptFor(database, attempt);
    await told(database, response(attempt));

    await told(database, twice, twice, twice);
    await told(database, twice, twice);

    expect((await fateOf(twice.key)).copy_count).toBe(4);
    expect((await attemptOf(database, attempt)).facts_revision).toBe(2);
  });

  it("matches a receipt that arrives on another connection of the supplier (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));

    const elsewhere = await receiptFor(database, attempt, { slot: 2 });

    expect(await told(database, elsewhere)).toMatchObject({ folded: 1, due: [{ attemptId: attempt }] });
  });

  it("tells two parts that were given one Msg_Id apart by their number (cmpp §9)", async () => {
    const [older, newer] = [await queuedAttempt(database), await queuedAttempt(database)];
    const msgId = msgIdOf("reused");
    for (const attempt of [older, newer]) {
      await written(database, attempt);
      await told(database, response(attempt, { msgId }));
    }

    await told(database, receipt(msgId, await numberOf(database, older)));

    expect(await segmentsOf(database, older)).toMatchObject([{ receipt: "delivered" }]);
    expect(await segmentsOf(database, newer)).toMatchObject([{ receipt: null }]);
  });

  it("leaves what nobody knows unmatched, and never guesses (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));
    const number = await numberOf(database, attempt);
    const foreign = [
      receipt(msgIdOf("foreign"), number),
      receipt(idOf(attempt), freshNumber()),
      receipt(idOf(attempt), number, { supplierId: "sup_2" }),
    ];

    const batch = await told(database, ...foreign);

    expect(batch).toMatchObject({ folded: 0, due: [] });
    for (const it of foreign) expect((await fateOf(it.key)).fate).toBeNull();
    expect(await segmentsOf(database, attempt)).toMatchObject([{ receipt: null }]);
  });

  it("does not take the Msg_Id alone for a match when answer and receipt share a batch (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    const foreign = receipt(idOf(attempt), freshNumber());

    await told(database, foreign, response(attempt));

    expect((await fateOf(foreign.key)).fate).toBeNull();
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "accepted", receipt: null }]);
  });

  it("matches nothing by a Msg_Id of zeros (D14)", async () => {
    const rejected = await queuedAttempt(database);
    await written(database, rejected);
    const zeros = receipt(NO_MSG_ID, await numberOf(database, rejected));

    await told(database, response(rejected, { answer: "rejected" }), zeros);

    expect((await fateOf(zeros.key)).fate).toBeNull();
    expect(await segmentsOf(database, rejected)).toMatchObject([{ result: "rejected", receipt: null }]);

    const unanswered = await queuedAttempt(database);
    await written(database, unanswered);
    await told(database, silence(unanswered));
    await told(database, receipt(NO_MSG_ID, await numberOf(database, unanswered)));

    expect(await segmentsOf(database, unanswered)).toMatchObject([{ result: "unknown", msg_id: null }]);
  });

  it("forgets a silence that was noticed after the answer had come (I)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);

    await told(database, response(attempt, { answer: "throttled" }));
    await told(database, silence(attempt));

    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: null }]);
    expect((await messageOf(database, attempt)).uncertain).toBe(false);
  });

  it("lets an answer that comes late correct an outcome that was called unknown (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, silence(attempt));
    expect((await messageOf(database, attempt)).uncertain).toBe(true);

    await told(database, response(attempt));

    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "accepted" }]);
    expect((await messageOf(database, attempt)).uncertain).toBe(false);
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge"]);
  });
});

describe("two that fold at once", () => {
  it("tells once at least when each folds the last receipt of another part (D10)", async () => {
    for (let round = 0; round < 5; round++) {
      const attempt = await queuedAttempt(database, { segments: 2 });
      await written(database, attempt, [1, 2]);
      await told(database, response(attempt), response(attempt, { part: 2 }));
      const batches = await bothHeldUp(attempt, [
        await receiptFor(database, attempt),
        await receiptFor(database, attempt, { part: 2 }),
      ]);

      expect(batches.flatMap((it) => it.due.map((due) => due.attemptId))).toContain(attempt);
      expect((await attemptOf(database, attempt)).due_at).not.toBeNull();
      expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });
    }
  });

  it("charges once when each folds the acceptance of another part (D5)", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1, 2]);

    const batches = await bothHeldUp(attempt, [response(attempt), response(attempt, { part: 2 })]);

    expect(batches.reduce((sum, it) => sum + it.charged, 0)).toBe(1);
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge"]);
  });

  /** Both have read before either may write: the attempt's lock is held until both wait for it. */
  async function bothHeldUp(attempt: AttemptId, events: Parameters<typeof store>[1][]) {
    await store(database, ...events);
    return database
      .transaction(async (tx) => {
        await lockAttemptsAndMessages(tx, [attempt]);
        const folders = events.map(() => database.transaction((own) => foldEvents(own, 1)));
        await untilWaiting(database, events.length);
        return folders;
      })
      .then((folders) => Promise.all(folders));
  }
});

describe("a receipt whose Msg_Id nobody told us (D14)", () => {
  const stranger = (name: string, to: string, wishes = {}) => receipt(msgIdOf(name), to, wishes);

  /** Written, and its answer never came. */
  async function unanswered(to: string, wishes: { segments?: number; channel?: number } = {}) {
    const attempt = await queuedAttempt(database, { to, ...wishes });
    const parts = Array.from({ length: wishes.segments ?? 1 }, (_, index) => index + 1);
    await written(database, attempt, parts, holder("gateway-a", `sup_${wishes.channel ?? 1}`));
    return attempt;
  }

  it("is taken by the part that never learned its own, and counts as acceptance (D5)", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    await told(database, silence(attempt));

    const batch = await told(database, stranger("adopt-1", to));

    expect(batch).toMatchObject({ folded: 1, charged: 1, due: [{ attemptId: attempt }] });
    expect(await segmentsOf(database, attempt)).toMatchObject([
      { result: "accepted", msg_id: msgIdOf("adopt-1"), receipt: "delivered" },
    ]);
  });

  it("is taken by a part whose answer brought an id of zeros", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    await told(database, response(attempt, { msgId: NO_MSG_ID }));

    await told(database, stranger("adopt-2", to));

    expect(await segmentsOf(database, attempt)).toMatchObject([{ msg_id: msgIdOf("adopt-2") }]);
  });

  it("goes to the parts of one attempt in their order, one a receipt", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to, { segments: 2 });
    await told(database, silence(attempt), silence(attempt, 2));

    await told(database, stranger("order-1", to), stranger("order-2", to, { stat: "UNDELIV" }));
    await told(database);

    expect(await segmentsOf(database, attempt)).toMatchObject([
      { part: 1, msg_id: msgIdOf("order-1"), receipt: "delivered" },
      { part: 2, msg_id: msgIdOf("order-2"), receipt: "failed" },
    ]);
  });

  it("waits while the part still awaits its answer", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to);

    expect(await told(database, stranger("await", to))).toMatchObject({ folded: 0, unmatched: 1 });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: null, msg_id: null }]);
  });

  it.each([
    ["awaits its answer", () => Promise.resolve()],
    ["is unknown too", (other: AttemptId) => told(database, silence(other))],
    [
      "is decided",
      async (other: AttemptId) => {
        await told(database, silence(other));
        await passLimit(database, other);
        expect(await settled(database, other)).toEqual({ kind: "final", status: "expired" });
      },
    ],
  ])("is never guessed where another message to that number %s", async (_, happens) => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    const other = await unanswered(to);
    await told(database, silence(attempt));
    await happens(other);
    const one = stranger(`two-${to}`, to);

    expect(await told(database, one)).toMatchObject({ folded: 0, unmatched: 1 });
    expect((await fateOf(one.key)).fate).toBeNull();
  });

  it("is tried again, and taken, when the other message has learned its id", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    const other = await unanswered(to);
    await told(database, silence(attempt), stranger("again", to));

    await told(database, response(other));
    await told(database);

    expect(await segmentsOf(database, attempt)).toMatchObject([{ msg_id: msgIdOf("again") }]);
  });

  it.each([
    ["another Src_Id", { srcId: "10690009" }],
    ["another account", { supplierId: "sup_2" }],
  ])("is not taken with %s", async (_, wishes) => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    await told(database, silence(attempt));

    expect(await told(database, stranger(`other-${to}`, to, wishes))).toMatchObject({ folded: 0 });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "unknown", msg_id: null }]);
  });

  it("is not taken where it came before the part was written", async () => {
    const to = freshNumber();
    const early = stranger("early", to);
    await store(database, early);
    const attempt = await unanswered(to);
    await told(database, silence(attempt));

    expect((await fateOf(early.key)).fate).toBeNull();
    await told(database);
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "unknown", msg_id: null }]);
  });

  it("is not taken where it came before the write that has no answer, a throttled one aside", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to);
    await told(database, response(attempt, { answer: "throttled" }));
    const early = stranger("between", to);
    await store(database, early);
    await ask(
      database,
      `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, owner, supplier_id, slot, epoch, taken_at)
       SELECT submit_id, part, 2, kind, attempt_id, owner, supplier_id, slot, epoch, clock_timestamp()
         FROM takes WHERE attempt_id = $1`,
      [attempt],
    );
    await told(database, silence(attempt, 1, 2));
    await told(database);

    expect((await fateOf(early.key)).fate).toBeNull();
  });

  it("stays with the part that an answer in the same batch names", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to, { segments: 2 });
    await told(database, silence(attempt));

    await told(database, response(attempt, { part: 2 }), receipt(idOf(attempt, 2), to));

    expect(await segmentsOf(database, attempt)).toMatchObject([
      { part: 1, result: "unknown", msg_id: null, receipt: null },
      { part: 2, result: "accepted", receipt: "delivered" },
    ]);
  });

  it("stays with the part that a stored answer names, also while that one is not folded", async () => {
    const to = freshNumber();
    const attempt = await unanswered(to, { segments: 2 });
    await told(database, silence(attempt));
    const own = receipt(idOf(attempt, 2), to);
    await store(database, response(attempt, { part: 2 }), own);
    await ask(database, `UPDATE supplier_events SET due_at = now() - interval '1 s' WHERE event_key = $1`, [
      storedKeyOf(vault, own),
    ]);

    await database.transaction((tx) => foldEvents(tx, 1));
    await told(database);

    expect(await segmentsOf(database, attempt)).toMatchObject([
      { part: 1, result: "unknown", msg_id: null },
      { part: 2, result: "accepted", receipt: "delivered" },
    ]);
  });
});

describe("facts that come after the decision (D7, D8)", () => {
  it("keep their place in the audit and move neither state nor money", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));
    await passLimit(database, attempt);
    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "expired" });
    const before = await everything(attempt);

    const late = await receiptFor(database, attempt);
    const batch = await told(database, late);

    expect(batch).toMatchObject({ folded: 1, charged: 0, due: [] });
    expect(await fateOf(late.key)).toMatchObject({ fate: "late", attempt_id: attempt });
    expect(await everything(attempt)).toEqual(before);
    expect(await anomaliesOf(attempt)).toEqual(["late_receipt_contradicts"]);
  });

  it("do not charge by an acceptance that comes after the limit", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await passLimit(database, attempt);
    await settled(database, attempt);

    await told(database, response(attempt), await receiptFor(database, attempt));

    expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
    expect((await messageOf(database, attempt)).status).toBe("expired");
  });

  it("teach no Msg_Id of zeros to a part that is decided (D14)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await passLimit(database, attempt);
    await settled(database, attempt);

    await told(database, response(attempt, { msgId: NO_MSG_ID }));

    expect(await segmentsOf(database, attempt)).toMatchObject([{ msg_id: null }]);
  });

  it("judge contradictory receipts together before the decision: delivered over failed (D8)", async () => {
    for (const stats of [
      ["UNDELIV", "DELIVRD"],
      ["DELIVRD", "UNDELIV"],
    ]) {
      const attempt = await queuedAttempt(database);
      await written(database, attempt);
      await told(database, response(attempt));
      for (const stat of stats) await told(database, await receiptFor(database, attempt, { stat }));

      expect(await settled(database, attempt)).toEqual({ kind: "final", status: "delivered" });
      expect(await anomaliesOf(attempt)).toEqual(["receipt_contradicted"]);
    }
  });

  async function everything(attempt: AttemptId) {
    return {
      message: await messageOf(database, attempt),
      attempt: await attemptOf(database, attempt),
      segments: await segmentsOf(database, attempt),
      transfers: await transfersOf(database, attempt),
    };
  }

  const anomaliesOf = async (attempt: AttemptId): Promise<string[]> =>
    (
      await ask<{ kind: string }>(database, `SELECT kind FROM anomalies WHERE attempt_id = $1 ORDER BY id`, [
        attempt,
      ])
    ).map((row) => row.kind);
});
