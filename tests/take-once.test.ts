/** A part is written only by whoever committed its take row first (C3). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import { settle } from "../db/settlement.ts";
import {
  giveBackTakes,
  overdueWrites,
  partStates,
  type PartWrite,
  take,
  withdrawWhole,
  writeKey,
} from "../db/takes.ts";
import { type AttemptId, submitIdOf } from "../domain/ids.ts";
import {
  ask,
  countOf,
  holder,
  messageOf,
  openFacts,
  passLimit,
  queuedAttempt,
  receiptFor,
  response,
  segmentsOf,
  settled,
  silence,
  successorOf,
  told,
  untilWaiting,
  write,
  written,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const takes = async (by: string, ...writes: PartWrite[]): Promise<string[]> =>
  [...(await take(database, holder(by), writes))].sort();

const taker = async (attempt: AttemptId, part = 1, writeNumber = 1) => {
  const rows = await ask<{ kind: string; owner: string }>(
    database,
    `SELECT kind, owner FROM takes WHERE submit_id = $1 AND part = $2 AND write_number = $3`,
    [submitIdOf(attempt), part, writeNumber],
  );
  return rows[0];
};

describe("who may write a part", () => {
  it("is one of two owners that want it at once", async () => {
    const attempts = await Promise.all(
      Array.from({ length: 6 }, () => queuedAttempt(database, { segments: 2 })),
    );
    const writes = attempts.flatMap((attempt) => [write(attempt, 1), write(attempt, 2)]);

    const won = await Promise.all([
      takes("gateway-a", ...writes),
      takes("gateway-b", ...[...writes].reverse()),
      takes("gateway-c", ...writes),
    ]);

    expect(won.flat().sort()).toEqual(writes.map(writeKey).sort());
    for (const [index, owner] of ["gateway-a", "gateway-b", "gateway-c"].entries()) {
      expect(await countOf(database, "takes WHERE owner = $1", [owner])).toBe(won[index]?.length);
    }
  });

  it("is nobody a second time, the owner itself included", async () => {
    const attempt = await queuedAttempt(database);

    expect(await takes("gateway-a", write(attempt))).toEqual([writeKey(write(attempt))]);
    expect(await takes("gateway-a", write(attempt))).toEqual([]);
    expect(await takes("gateway-b", write(attempt))).toEqual([]);
  });

  it("is nobody when the attempt is decided", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1]);
    await passLimit(database, attempt);
    await settled(database, attempt);

    expect(await takes("gateway-a", write(attempt, 2))).toEqual([]);
    expect(await takes("gateway-a", write(attempt, 1, 2))).toEqual([]);
  });

  it("is nobody when another attempt took its place", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt, { answer: "rejected" }));
    expect((await settled(database, attempt))?.kind).toBe("retrying");

    expect(await takes("gateway-a", write(attempt, 1, 2))).toEqual([]);
  });

  it("is nobody before the attempt's command is committed", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt, { answer: "rejected" }));
    await settled(database, attempt);

    expect(await takes("gateway-a", write(successorOf(attempt)))).toEqual([]);
  });

  it("is nobody when the message is past its limit, also before that is decided (D7)", async () => {
    const attempt = await queuedAttempt(database);
    await passLimit(database, attempt);

    expect(await takes("gateway-a", write(attempt))).toEqual([]);
    expect((await partStates(database, submitIdOf(attempt))).wanted).toBe(false);
  });

  it("is nobody under the submit id of one attempt and the name of another", async () => {
    const [one, other] = [await queuedAttempt(database), await queuedAttempt(database)];

    expect(await takes("gateway-a", { ...write(one), attemptId: other })).toEqual([]);
  });

  it("does not depend on its mates: one that may not be written leaves the others theirs", async () => {
    const [live, dead] = [await queuedAttempt(database), await queuedAttempt(database)];
    await passLimit(database, dead);

    expect(await takes("gateway-a", write(dead), write(live))).toEqual([writeKey(write(live))]);
  });
});

describe("a decision that withdraws what was not written", () => {
  it("shuts out every later take, and calls the part never written", async () => {
    const attempt = await queuedAttempt(database, { segments: 2 });
    await written(database, attempt, [1]);
    await passLimit(database, attempt);

    await settled(database, attempt);

    expect(await taker(attempt, 2)).toEqual({ kind: "withdrawn", owner: "settlement" });
    expect(await taker(attempt, 1, 2)).toBeUndefined();
    expect(await segmentsOf(database, attempt)).toMatchObject([
      { result: null },
      { result: "never_written" },
    ]);
  });

  it("withdraws the next write of a part that was throttled last", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt, { answer: "throttled" }));
    await passLimit(database, attempt);

    await settled(database, attempt);

    expect(await taker(attempt, 1, 2)).toMatchObject({ kind: "withdrawn" });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: "never_written" }]);
  });

  it("beats a take that comes while it is not committed yet", async () => {
    const attempt = await queuedAttempt(database);
    await passLimit(database, attempt);

    const { late } = await database.transaction(async (tx) => {
      await settle(tx, [attempt]);
      const late = takeAsIfInTime(attempt);
      await untilWaiting(database, 1);
      return { late };
    });

    expect(await late).toBe(0);
    expect(await taker(attempt)).toMatchObject({ kind: "withdrawn" });
  });

  it("loses to a take that came first, which it leaves in place", async () => {
    const attempt = await queuedAttempt(database);

    const { decision } = await database.transaction(async (tx) => {
      await take(tx, holder(), [write(attempt)]);
      await passLimit(database, attempt);
      const decision = settled(database, attempt);
      await untilWaiting(database, 1);
      return { decision };
    });
    await decision;

    expect(await taker(attempt)).toMatchObject({ kind: "write" });
    expect(await segmentsOf(database, attempt)).toMatchObject([{ result: null }]);
    // Nobody knows whether the supplier got it, and the customer is told so.
    expect(await messageOf(database, attempt)).toMatchObject({ status: "expired", uncertain: true });
  });

  it.each(["cancel", "review"] as const)(
    "withdraws nothing where a %s does not happen because one part was taken",
    async (by) => {
      const attempt = await queuedAttempt(database, { segments: 3 });
      await written(database, attempt, [2]);

      expect(await database.transaction((tx) => withdrawWhole(tx, by, attempt))).toBe(false);

      expect(await segmentsOf(database, attempt)).toMatchObject([
        { result: null },
        { result: null },
        { result: null },
      ]);
      expect(await takes("gateway-b", write(attempt, 1), write(attempt, 3))).toHaveLength(2);
    },
  );

  it("and a take of the same part do not wait for each other (D11)", async () => {
    const attempt = await queuedAttempt(database);

    await database.transaction(async (tx) => {
      await lockAttemptsAndMessages(tx, [attempt]);
      expect(await takes("gateway-a", write(attempt))).toHaveLength(1);
    });
  });

  it("and a take of several parts meet in one order (D11)", async () => {
    const [first = "att_", second = "att_"] = [
      await queuedAttempt(database),
      await queuedAttempt(database),
    ].sort();

    const late = await database.transaction(async (tx) => {
      await withdraw(tx, first);
      const taken = takes("gateway-a", write(second), write(first));
      await untilWaiting(database, 1);
      await withdraw(tx, second);
      return { taken };
    });

    expect(await late.taken).toEqual([]);
  });

  const withdraw = (tx: Parameters<typeof ask>[0], attempt: string): Promise<unknown> =>
    ask(
      tx,
      `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner)
       SELECT submit_id, 1, 1, 'withdrawn', id, 'sup_1', 'settlement' FROM attempts WHERE id = $1`,
      [attempt],
    );

  /** What a gateway inserts that looked while the message was still within its limit. */
  async function takeAsIfInTime(attempt: AttemptId): Promise<number> {
    const rows = await ask(
      database,
      `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, owner, supplier_id, slot, epoch)
       VALUES ($1, 1, 1, 'write', $2, 'gateway-a', 'sup_1', 1, 1) ON CONFLICT DO NOTHING RETURNING part`,
      [submitIdOf(attempt), attempt],
    );
    return rows.length;
  }
});

describe("giving a take back", () => {
  it("is its owner's alone, and lets the part be taken again", async () => {
    const attempt = await queuedAttempt(database);
    await takes("gateway-a", write(attempt));

    await giveBackTakes(database, "gateway-b", [write(attempt)]);
    expect(await takes("gateway-b", write(attempt))).toEqual([]);

    await giveBackTakes(database, "gateway-a", [write(attempt)]);
    expect(await takes("gateway-b", write(attempt))).toHaveLength(1);
  });

  it("is refused once the write has an answer, unknown included", async () => {
    for (const event of [response, silence]) {
      const attempt = await queuedAttempt(database);
      await takes("gateway-a", write(attempt));
      await told(database, event(attempt));

      await giveBackTakes(database, "gateway-a", [write(attempt)]);

      expect(await taker(attempt)).toMatchObject({ kind: "write" });
    }
  });

  it("cannot give back what a decision withdrew", async () => {
    const attempt = await queuedAttempt(database);
    await passLimit(database, attempt);
    await settled(database, attempt);

    await giveBackTakes(database, "settlement", [write(attempt)]);

    expect(await taker(attempt)).toMatchObject({ kind: "withdrawn" });
  });
});

describe("writing again", () => {
  it("follows a throttle answer, with the next number, once", async () => {
    const attempt = await queuedAttempt(database);
    await takes("gateway-a", write(attempt));
    await told(database, response(attempt, { answer: "throttled" }));

    const won = await Promise.all([
      takes("gateway-a", write(attempt, 1, 2)),
      takes("gateway-b", write(attempt, 1, 2)),
    ]);

    expect(won.flat()).toEqual([writeKey(write(attempt, 1, 2))]);
  });

  it.each([
    ["nothing is known of the write before", () => Promise.resolve()],
    ["the write before is unknown", (attempt: AttemptId) => told(database, silence(attempt))],
    [
      "the write before is unknown, and the supplier said slower after all",
      async (attempt: AttemptId) => {
        await told(database, silence(attempt));
        await told(database, response(attempt, { answer: "throttled" }));
      },
    ],
    ["the write before was accepted", (attempt: AttemptId) => told(database, response(attempt))],
    [
      "the write before was rejected",
      (attempt: AttemptId) => told(database, response(attempt, { answer: "rejected" })),
    ],
  ])("is refused where %s", async (_, happens) => {
    const attempt = await queuedAttempt(database);
    await takes("gateway-a", write(attempt));
    await happens(attempt);

    expect(await takes("gateway-b", write(attempt, 1, 2))).toEqual([]);
  });

  it("is refused where a number would be left out", async () => {
    const attempt = await queuedAttempt(database);

    expect(await takes("gateway-a", write(attempt, 1, 2))).toEqual([]);
  });
});

describe("how the parts of a command stand", () => {
  it("tells open, throttled and closed apart by the last write of each", async () => {
    const attempt = await queuedAttempt(database, { segments: 5 });
    await written(database, attempt, [1, 2, 3, 4]);
    await told(
      database,
      response(attempt, { part: 2, answer: "throttled" }),
      response(attempt, { part: 3 }),
      silence(attempt, 4),
    );

    expect(await partStates(database, submitIdOf(attempt))).toEqual({
      wanted: true,
      parts: [
        { part: 1, writeNumber: 1, state: "open" },
        { part: 2, writeNumber: 1, state: "throttled" },
        { part: 3, writeNumber: 1, state: "closed" },
        { part: 4, writeNumber: 1, state: "closed" },
      ],
    });
  });

  it("says of a decided attempt that nobody wants it, and closes what was withdrawn", async () => {
    const attempt = await queuedAttempt(database);
    await passLimit(database, attempt);
    await settled(database, attempt);

    expect(await partStates(database, submitIdOf(attempt))).toEqual({
      wanted: false,
      parts: [{ part: 1, writeNumber: 1, state: "closed" }],
    });
  });

  it("wants nothing of a command that nobody stored", async () => {
    expect(await partStates(database, "sub_unknown")).toEqual({ wanted: false, parts: [] });
  });

  it("lists writes that stay unanswered beyond the supplier's timeout, and no other (I)", async () => {
    const [silent, answered, fresh] = [
      await queuedAttempt(database),
      await queuedAttempt(database),
      await queuedAttempt(database),
    ];
    for (const attempt of [silent, answered, fresh]) await written(database, attempt);
    await told(database, response(answered), await receiptFor(database, answered));
    await ask(
      database,
      `UPDATE takes SET taken_at = now() - interval '14 seconds' WHERE attempt_id = ANY($1)`,
      [[silent, answered]],
    );

    const overdue = await overdueWrites(database, 3_000, 100);

    expect(overdue.map((it) => it.attemptId)).toContain(silent);
    expect(overdue.map((it) => it.attemptId)).not.toContain(answered);
    expect(overdue.map((it) => it.attemptId)).not.toContain(fresh);
  });
});
