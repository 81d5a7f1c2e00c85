/** Commands between their commit and the stream, and every queue's claim (A2, C1–C7, D10, J2). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Database, Session } from "../db/client.ts";
import { claimDueAttempts, overdueDecisions, returnDueAttempts } from "../db/due-attempts.ts";
import { foldEvents } from "../db/folding.ts";
import {
  claimLeftBehind,
  claimOwnCommands,
  commandStates,
  markDead,
  markPublished,
  markUnpublished,
  MAX_PUBLISH_TRIES,
  publishAgain,
  publishedButNotTaken,
} from "../db/outbox.ts";
import { publishesAnything, startPublication } from "../db/publication.ts";
import { type AttemptId, messageIdOf, submitIdOf } from "../domain/ids.ts";
import {
  acceptedMessage,
  ask,
  only,
  openFacts,
  openSender,
  pagesRead,
  passLimit,
  queuedAttempt,
  receiptFor,
  response,
  settled,
  store,
  told,
  written,
} from "./facts.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
beforeEach(async () => {
  await ask(database, `TRUNCATE submit_outbox, inbox, supplier_events`);
  await ask(database, `DELETE FROM publication`);
  await ask(database, `INSERT INTO publication (mode) VALUES ('live')`);
  await ask(database, `DELETE FROM application_publication`);
});
afterAll(() => database.close());

const claimOwn = async (token: string, ...attempts: AttemptId[]): Promise<string[]> =>
  (await claimOwnCommands(database, token, attempts)).map((it) => it.attemptId);

const claimLeft = async (token: string, limit = 32): Promise<string[]> =>
  (await claimLeftBehind(database, token, limit)).map((it) => it.attemptId);

const publish = (token: string, attempt: AttemptId, entryId = "1-1"): Promise<void> =>
  markPublished(database, token, [{ submitId: submitIdOf(attempt), entryId }]);

const rowOf = (attempt: AttemptId) =>
  only<{ status: string; attempt_count: number; stream_entry_id: string | null; last_error: string | null }>(
    database,
    `SELECT status, attempt_count, stream_entry_id, last_error FROM submit_outbox WHERE submit_id = $1`,
    [submitIdOf(attempt)],
  );

const makeDue = (...attempts: AttemptId[]): Promise<unknown> =>
  ask(
    database,
    `UPDATE submit_outbox SET next_attempt_at = now() - interval '1 second',
            lease_expires_at = CASE WHEN lease_owner IS NOT NULL THEN now() - interval '1 second' END
      WHERE submit_id = ANY($1)`,
    [attempts.map(submitIdOf)],
  );

describe("a claim", () => {
  it("is marked published under its own token only (C1)", async () => {
    const attempt = await queuedAttempt(database);
    expect(await claimOwn("stale", attempt)).toEqual([attempt]);
    expect(await claimOwn("fresh", attempt)).toEqual([attempt]);

    await publish("stale", attempt, "0-1");
    expect(await rowOf(attempt)).toMatchObject({ status: "publishing", stream_entry_id: null });

    await publish("fresh", attempt);
    expect(await rowOf(attempt)).toMatchObject({ status: "published", stream_entry_id: "1-1" });
  });

  it("that is stale can neither give the row back nor count a try", async () => {
    const attempt = await queuedAttempt(database);
    await claimOwn("stale", attempt);
    await claimOwn("fresh", attempt);

    await markUnpublished(database, "stale", [submitIdOf(attempt)], "stream_refused");

    expect(await rowOf(attempt)).toMatchObject({ status: "publishing", last_error: null });
  });

  it("of either kind moves the row's turn to the end of its lease, so that no scan meets it before", async () => {
    const attempt = await queuedAttempt(database);
    for (const claim of [() => claimOwn("own", attempt), () => claimLeft("sweeper")]) {
      await makeDue(attempt);
      expect(await claim()).toEqual([attempt]);
      expect(
        await only(
          database,
          `SELECT next_attempt_at >= lease_expires_at - interval '10 milliseconds' AS later FROM submit_outbox`,
        ),
      ).toEqual({ later: true });
    }
  });

  it("by the attempt's own publish takes over at once; the sweeper waits for the lease (C4)", async () => {
    const attempt = await queuedAttempt(database);
    await claimOwn("first", attempt);

    expect(await claimLeft("sweeper")).toEqual([]);
    expect(await claimOwn("again", attempt)).toEqual([attempt]);

    await makeDue(attempt);
    expect(await claimLeft("sweeper")).toEqual([attempt]);
    expect(await claimLeft("another")).toEqual([]);
  });

  it("gets what was committed and never published, after its five seconds (C4)", async () => {
    const [due, fresh] = [await queuedAttempt(database), await queuedAttempt(database)];
    await makeDue(due);

    expect(await claimLeft("sweeper")).toEqual([due]);
    expect((await rowOf(fresh)).status).toBe("pending");
  });

  it("gets no more than its limit, oldest first", async () => {
    const attempts = [
      await queuedAttempt(database),
      await queuedAttempt(database),
      await queuedAttempt(database),
    ];
    await makeDue(...attempts);

    const claims = [await claimLeft("a", 1), await claimLeft("b", 1), await claimLeft("c", 1)];

    expect(claims.map((it) => it.length)).toEqual([1, 1, 1]);
    expect(claims.flat().sort()).toEqual([...attempts].sort());
  });

  it("goes to one of several that ask at once", async () => {
    const attempts = await Promise.all(Array.from({ length: 10 }, () => queuedAttempt(database)));
    await makeDue(...attempts);

    const claims = await Promise.all(["a", "b", "c"].map((token) => claimLeft(token, 10)));

    expect(claims.flat().sort()).toEqual([...attempts].sort());
  });

  it.each(["paused", "shadow"] as const)(
    "gets nothing while publication is %s, and counts no try (C5)",
    async (mode) => {
      const attempt = await queuedAttempt(database);
      await makeDue(attempt);
      await ask(database, `UPDATE publication SET mode = $1`, [mode]);

      expect(await publishesAnything(database)).toBe(false);
      expect(await claimOwn("own", attempt)).toEqual([]);
      expect(await claimLeft("sweeper")).toEqual([]);
      expect(await rowOf(attempt)).toMatchObject({ status: "pending", attempt_count: 0 });

      await ask(database, `UPDATE publication SET mode = 'live'`);
      expect(await claimLeft("sweeper")).toEqual([attempt]);
    },
  );

  it("finds nothing that is published or dead", async () => {
    const [published, dead] = [await queuedAttempt(database), await queuedAttempt(database)];
    await claimOwn("own", published);
    await publish("own", published);
    await markDead(database, submitIdOf(dead), "malformed_payload");

    expect(await claimOwn("again", published, dead)).toEqual([]);
    expect(await commandStates(database, [published, dead])).toEqual(
      new Map([
        [published, { status: "published", mode: "live" }],
        [dead, { status: "dead", mode: "live" }],
      ]),
    );
  });
});

describe("a command that does not get to the stream", () => {
  it("is dead after the last try that the stream refused, and not before (C7)", async () => {
    const attempt = await queuedAttempt(database);
    for (let tries = 1; tries <= MAX_PUBLISH_TRIES; tries++) {
      expect((await rowOf(attempt)).status).toBe("pending");
      await claimOwn(`try-${tries}`, attempt);
      await markUnpublished(database, `try-${tries}`, [submitIdOf(attempt)], "stream_refused");
    }
    expect(await rowOf(attempt)).toMatchObject({ status: "dead", last_error: "stream_refused" });
    await makeDue(attempt);
    expect(await claimLeft("sweeper")).toEqual([]);
  });

  it("counts no try while the stream does not answer (D12)", async () => {
    const attempt = await queuedAttempt(database);
    for (let tries = 1; tries <= MAX_PUBLISH_TRIES + 1; tries++) {
      await claimOwn(`try-${tries}`, attempt);
      await markUnpublished(database, `try-${tries}`, [submitIdOf(attempt)], "stream_unavailable");
    }
    expect(await rowOf(attempt)).toMatchObject({ status: "pending", attempt_count: 0 });
  });
});

describe("published, and not taken (C4)", () => {
  async function published(wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId> {
    const attempt = await queuedAttempt(database, wishes);
    await claimOwn("own", attempt);
    await publish("own", attempt, `${attempt.slice(-8)}-0`);
    await ask(
      database,
      `UPDATE submit_outbox SET published_at = now() - interval '6 seconds' WHERE submit_id = $1`,
      [submitIdOf(attempt)],
    );
    return attempt;
  }

  const listed = async (limit = 100): Promise<string[]> => {
    const found: string[] = [];
    for (let after = ""; ;) {
      const page = await publishedButNotTaken(database, after, limit);
      found.push(...page.map((it) => it.submitId));
      if (page.length < limit) return found;
      after = page.at(-1)?.submitId ?? "";
    }
  };

  it("is what has a part that was never taken, or was throttled last", async () => {
    const untaken = await published({ segments: 2 });
    await written(database, untaken, [1]);
    const throttled = await published();
    await written(database, throttled);
    await told(database, response(throttled, { answer: "throttled" }));

    expect(await listed()).toEqual([untaken, throttled].map(submitIdOf).sort());
  });

  it("is nothing that was taken whole, answered, or decided", async () => {
    const taken = await published();
    await written(database, taken);
    const answered = await published();
    await written(database, answered);
    await told(database, response(answered));
    const decided = await published();
    await passLimit(database, decided);
    await settled(database, decided);

    expect(await listed()).toEqual([]);
  });

  it("is listed page by page, each once", async () => {
    const attempts = await Promise.all(Array.from({ length: 7 }, () => published({ segments: 2 })));

    expect(await listed(2)).toEqual(attempts.map(submitIdOf).sort());
  });

  it("goes back to pending once, under the entry that was lost", async () => {
    const attempt = await published();
    const [it] = await publishedButNotTaken(database, "", 10);
    if (it === undefined) throw new Error("not listed");

    expect(await publishAgain(database, [{ ...it, entryId: "9-9" }])).toBe(0);
    expect(await publishAgain(database, [it])).toBe(1);
    expect(await publishAgain(database, [it])).toBe(0);
    expect(await claimLeft("sweeper")).toEqual([attempt]);
  });
});

describe("what the flags of a start say of publication (H)", () => {
  const start = (mode: "live" | "paused", ...live: string[]) =>
    startPublication(database, { mode, applications: new Map(live.map((id) => [id, "live"])) });
  const stored = () =>
    ask(database, `SELECT application_id, mode, changed_by FROM application_publication ORDER BY 1`);

  it("lets one application go live before the others, and holds until the flags say otherwise", async () => {
    const other = await openSender(database, 1_000_000n);
    const attempts = [await queuedAttempt(database), await queuedAttempt(database, { sender: other })];
    await makeDue(...attempts);

    await start("paused", other.applicationId);
    expect(await claimOwn("own", ...attempts)).toEqual([attempts[1]]);
    await makeDue(...attempts);
    expect(await claimLeft("sweeper")).toEqual([attempts[1]]);
    expect(await publishesAnything(database)).toBe(true);
    expect(await commandStates(database, attempts)).toEqual(
      new Map([
        [attempts[0], { status: "pending", mode: "paused" }],
        [attempts[1], { status: "publishing", mode: "live" }],
      ]),
    );

    await start("paused");
    expect(await stored()).toEqual([]);
    expect(await publishesAnything(database)).toBe(false);
  });

  it("gives way to what an operator stored for that application", async () => {
    await start("paused", "app_demo");
    await ask(database, `UPDATE application_publication SET mode = 'shadow', changed_by = 'tok_operator'`);

    await start("paused", "app_demo");
    expect(await stored()).toMatchObject([{ mode: "shadow" }]);
    await start("paused");
    expect(await stored()).toMatchObject([{ mode: "shadow" }]);
  });

  it("changes nothing where it names an application that does not exist, and says which", async () => {
    await expect(start("paused", "app_demo", "app_typo")).rejects.toThrow(/name no application: app_typo$/);
    expect(await stored()).toEqual([]);
    expect(await publishesAnything(database)).toBe(true);
  });
});

describe("ten thousand rows that must be skipped do not hide the one behind them (A2, J2)", () => {
  const MANY = 10_000;

  it("among commands under a live claim", async () => {
    const hidden = await queuedAttempt(database);
    await copies(
      `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload,
                                  schema_version, status, lease_owner, lease_expires_at, next_attempt_at)
       SELECT 'sub_x' || n, message_id, application_id, 'att_x' || n, channel_id, '{}', 1, 'publishing', 'other',
              now() + interval '5 minutes', now() + interval '5 minutes'
         FROM submit_outbox, generate_series(1, ${MANY}) n`,
    );
    await makeDue(hidden);

    await expectFoundAtOnce((session) => claimLeftBehind(session, "sweeper", 32), hidden);
  });

  it("among commands that another sweeper has locked", async () => {
    const hidden = await queuedAttempt(database);
    await copies(
      `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload,
                                  schema_version, next_attempt_at)
       SELECT 'sub_x' || n, message_id, application_id, 'att_x' || n, channel_id, '{}', 1, now() - interval '1 hour'
         FROM submit_outbox, generate_series(1, 500) n`,
    );
    await makeDue(hidden);

    await database.transaction(async (tx) => {
      await ask(tx, `SELECT id FROM submit_outbox WHERE submit_id LIKE 'sub_x%' FOR UPDATE`);
      expect(await claimLeft("sweeper")).toEqual([hidden]);
    });
  });

  it("among commands of an application that is held back (C5)", async () => {
    const hidden = await queuedAttempt(database);
    const { applicationId } = await openSender(database, 0n);
    await ask(database, `INSERT INTO application_publication (application_id, mode) VALUES ($1, 'paused')`, [
      applicationId,
    ]);
    await copies(
      `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload,
                                  schema_version, next_attempt_at)
       SELECT 'sub_x' || n, message_id, '${applicationId}', 'att_x' || n, channel_id, '{}', 1, now() - interval '1 hour'
         FROM submit_outbox, generate_series(1, ${MANY}) n`,
    );
    await makeDue(hidden);

    await expectFoundAtOnce((session) => claimLeftBehind(session, "sweeper", 32), hidden);
  });

  it("among events that nobody can match yet", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);
    await told(database, response(attempt));
    await copies(
      `INSERT INTO supplier_events (event_key, kind, supplier_id, msg_id, stat, number_hash, src_id, due_at, try_count)
       SELECT 'x' || n, 'receipt', 'sup_1', to_char(n, 'fm0000000000000000'), 'DELIVRD', '139' || to_char(n, 'fm00000000'),
              '10690001',
              now() + interval '5 minutes', 20
         FROM generate_series(1, ${MANY}) n`,
    );
    await store(database, await receiptFor(database, attempt));

    const batch = await watched(async (session) => foldEvents(session, 32));

    expect(batch.answer).toMatchObject({ folded: 1, due: [{ attemptId: attempt }] });
    expect(Math.max(...batch.blocks)).toBeLessThan(BOUND);
  });

  it("among messages that intake has to wait for", async () => {
    const hidden = await acceptedMessage(database);
    await copies(
      `INSERT INTO inbox (attempt_id, message_id, due_at, start_count)
       SELECT 'x' || n, message_id, now() + interval '5 minutes', 9 FROM inbox, generate_series(1, ${MANY}) n`,
    );

    await expectFoundAtOnce((session) => claimDueAttempts(session, 32), hidden);
  });

  it("among attempts whose decision is due only since now, or made", async () => {
    const hidden = await queuedAttempt(database);
    await copies(
      `WITH message AS (
         INSERT INTO messages (id, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed,
                               encoding, segment_count, unit_price_units, price_units, currency, current_attempt_id, expires_at)
         SELECT 'msg_x' || n, enterprise_id, application_id, account_id, number_hash, number_sealed, text_sealed,
                encoding, segment_count, unit_price_units, price_units, currency, 'att_x' || n || '_1', expires_at
           FROM messages, generate_series(1, ${MANY}) n WHERE id = '${messageIdOf(hidden)}' RETURNING id)
       INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, submit_id, state, channel_id,
                             segment_count, due_at)
       SELECT 'att_' || substr(m.id, 5) || '_1', m.id, a.enterprise_id, a.application_id, 1,
              'sub_' || substr(m.id, 5) || '_1', 'queued', a.channel_id, 1,
              now() + interval '5 minutes'
         FROM message m, attempts a WHERE a.id = '${hidden}'`,
    );
    await ask(database, `UPDATE attempts SET due_at = now() - interval '1 minute' WHERE id = $1`, [hidden]);

    const found = await watched((session) => overdueDecisions(session, 5_000, 32));

    expect(found.answer.attemptIds).toEqual([hidden]);
    expect(Math.max(...found.blocks)).toBeLessThan(BOUND);
  });

  it("reads decisions that are overdue in pages, so that none hides behind those that stay", async () => {
    const attempts: string[] = [];
    for (let i = 0; i < 3; i++) attempts.push(await queuedAttempt(database));
    await ask(database, `UPDATE attempts SET due_at = now() - interval '2 hours' WHERE id = ANY($1)`, [
      attempts,
    ]);

    const first = await overdueDecisions(database, 5_000, 2);
    const second = await overdueDecisions(database, 5_000, 2, first.next);

    expect(first.attemptIds).toHaveLength(2);
    expect([...first.attemptIds, ...second.attemptIds]).toEqual(expect.arrayContaining(attempts));
  });

  /** Blocks that one statement may touch: rows that are not due must not be read one by one. */
  const BOUND = 150;

  async function copies(insert: string): Promise<void> {
    await ask(database, insert);
    await ask(database, `ANALYZE`);
  }

  async function expectFoundAtOnce(
    claim: (session: Session) => Promise<{ attemptId: string }[]>,
    attempt: AttemptId,
  ): Promise<void> {
    const { answer, blocks } = await watched(claim);
    expect(answer.map((it) => it.attemptId)).toEqual([attempt]);
    expect(Math.max(...blocks)).toBeLessThan(BOUND);
  }

  /** The answer, and how many blocks each statement behind it touches when it is run once more. */
  async function watched<Answer>(
    work: (session: Session) => Promise<Answer>,
  ): Promise<{ answer: Answer; blocks: number[] }> {
    const run: { text: string; values: readonly unknown[] }[] = [];
    const answer = await database.transaction((tx) =>
      work({
        vault: tx.vault,
        run(what, values = []) {
          run.push({ text: what.text, values });
          return tx.run(what, values);
        },
      }),
    );
    const blocks: number[] = [];
    for (const { text, values } of run) blocks.push(await pagesRead(database, text, values));
    return { answer, blocks };
  }
});

describe("attempts that a workflow has to take up (A2)", () => {
  it("come again after 5, 10, 20 … 300 seconds, until the row is closed", async () => {
    const attempt = await acceptedMessage(database);
    const waits: number[] = [];
    for (let start = 1; start <= 8; start++) {
      const [due] = await claimDueAttempts(database, 32);
      expect(due).toEqual({ attemptId: attempt, messageId: messageIdOf(attempt), startCount: start });
      const row = await only<{ wait: number }>(
        database,
        `SELECT extract(epoch FROM due_at - clock_timestamp())::float8 AS wait FROM inbox WHERE attempt_id = $1`,
        [attempt],
      );
      waits.push(Math.ceil(row.wait));
      await ask(database, `UPDATE inbox SET due_at = now()`);
    }
    expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  });

  it("are claimed by one of several, and no more than asked for", async () => {
    const attempts = await Promise.all(Array.from({ length: 10 }, () => acceptedMessage(database)));

    const claims = await Promise.all([1, 2, 3].map(() => claimDueAttempts(database, 3)));

    expect(claims.every((it) => it.length <= 3)).toBe(true);
    const claimed = claims.flat().map((it) => it.attemptId);
    expect(new Set(claimed).size).toBe(claimed.length);
    expect(attempts).toEqual(expect.arrayContaining(claimed));
  });

  it("are due again in a second where a process could not start them", async () => {
    const attempt = await acceptedMessage(database);
    await claimDueAttempts(database, 32);

    await returnDueAttempts(database, [attempt]);

    expect(await claimDueAttempts(database, 32)).toEqual([]);
    expect(
      await only(database, `SELECT start_count, due_at < now() + interval '2 seconds' AS soon FROM inbox`),
    ).toEqual({ start_count: 0, soon: true });
  });
});
