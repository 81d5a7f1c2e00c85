/** Committing attempts: one transaction, re-checked by the statement that commits (B2, B3). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { persistAttempts } from "../db/attempts.ts";
import type { Database } from "../db/client.ts";
import { lockAttemptsAndMessages } from "../db/locks.ts";
import { endWithoutRoute } from "../db/planning.ts";
import { type AttemptId, submitIdOf } from "../domain/ids.ts";
import { openCommand } from "../db/sealed-command.ts";
import {
  ask,
  attemptOf,
  connect,
  countOf,
  freshNumber,
  messageOf,
  only,
  openFacts,
  openSender,
  passLimit,
  planned,
  PRICE,
  queuedAttempt,
  reservedMessage,
  segmentsOf,
  settled,
  transfersOf,
  written,
  untilWaiting,
} from "./facts.ts";
import { vault } from "./servers.ts";

let database: Database;

beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const persistAll = async (...attempts: AttemptId[]) => {
  const answers = await database.transaction((tx) =>
    persistAttempts(
      tx,
      attempts.map((it) => planned(it, 1)),
    ),
  );
  return attempts.map((it) => answers.get(it));
};

async function commandOf(attempt: AttemptId) {
  const row = await only<{ payload: string; schema_version: number }>(
    database,
    `SELECT payload, schema_version FROM submit_outbox WHERE submit_id = $1`,
    [submitIdOf(attempt)],
  );
  const parsed = openCommand(database.vault, submitIdOf(attempt), row.schema_version, row.payload);
  if (!parsed.ok) throw new Error(parsed.why);
  return parsed.command;
}

describe("what is committed together (B2)", () => {
  it("writes attempt, segments, message state and one command, and closes the inbox row", async () => {
    const attempt = await reservedMessage(database, { segments: 3 });

    expect(await persistAll(attempt)).toMatchObject([{ kind: "queued", existing: false }]);

    expect(await attemptOf(database, attempt)).toMatchObject({ state: "queued", channel_id: "chn_demo_1" });
    expect(await segmentsOf(database, attempt)).toHaveLength(3);
    expect((await messageOf(database, attempt)).status).toBe("queued");
    expect((await commandOf(attempt)).parts).toHaveLength(3);
    expect(await countOf(database, "inbox WHERE attempt_id = $1", [attempt])).toBe(0);
  });

  it("answers a second run with the attempt that exists, on the channel of the first run (I)", async () => {
    const attempt = await reservedMessage(database);
    await persistAll(attempt);

    const again = await database.transaction((tx) => persistAttempts(tx, [planned(attempt, 2)]));

    expect(again.get(attempt)).toMatchObject({ kind: "queued", existing: true });
    expect((await attemptOf(database, attempt)).channel_id).toBe("chn_demo_1");
    expect(await countOf(database, "submit_outbox WHERE attempt_id = $1", [attempt])).toBe(1);
  });

  it("commits one attempt when two runs of it race (I)", async () => {
    const attempt = await reservedMessage(database);

    const { running } = await database.transaction(async (tx) => {
      await lockAttemptsAndMessages(tx, [attempt]);
      const running = [persistAll(attempt), persistAll(attempt)];
      await untilWaiting(database, running.length);
      return { running };
    });
    const answers = await Promise.all(running);

    expect(answers.map(([it]) => it?.kind)).toEqual(["queued", "queued"]);
    expect(answers.filter(([it]) => it?.kind === "queued" && it.existing)).toHaveLength(1);
    expect(await countOf(database, "submit_outbox WHERE attempt_id = $1", [attempt])).toBe(1);
  });
});

/** Each takes away one condition, and gives it back. */
const conditions: { what: string; now: string; back: string }[] = [
  {
    what: "the application is disabled",
    now: "UPDATE applications SET active = false WHERE id = 'app_demo'",
    back: "UPDATE applications SET active = true WHERE id = 'app_demo'",
  },
  {
    what: "the channel is disabled",
    now: "UPDATE channels SET active = false WHERE id = 'chn_demo_1'",
    back: "UPDATE channels SET active = true WHERE id = 'chn_demo_1'",
  },
  {
    what: "the supplier is disabled",
    now: "UPDATE suppliers SET active = false WHERE id = 'sup_1'",
    back: "UPDATE suppliers SET active = true WHERE id = 'sup_1'",
  },
  {
    what: "the filing is withdrawn",
    now: "UPDATE filings SET active = false WHERE channel_id = 'chn_demo_1'",
    back: "UPDATE filings SET active = true WHERE channel_id = 'chn_demo_1'",
  },
  {
    what: "the connection's heartbeat is stale",
    now: "UPDATE connections SET heartbeat_at = now() - interval '11 seconds' WHERE supplier_id = 'sup_1'",
    back: "UPDATE connections SET heartbeat_at = now() WHERE supplier_id = 'sup_1'",
  },
  {
    what: "the connection is down",
    now: "UPDATE connections SET connected = false WHERE supplier_id = 'sup_1'",
    back: "UPDATE connections SET connected = true, heartbeat_at = now() WHERE supplier_id = 'sup_1'",
  },
];

describe("the re-check at commit time (B3)", () => {
  it.each(conditions)("plans again when $what", async ({ now, back }) => {
    const attempt = await reservedMessage(database);
    await ask(database, now);
    try {
      expect(await persistAll(attempt)).toEqual([{ kind: "replan" }]);
      expect(await countOf(database, "attempts WHERE id = $1", [attempt])).toBe(0);
      expect(await countOf(database, "submit_outbox WHERE attempt_id = $1", [attempt])).toBe(0);
      expect((await messageOf(database, attempt)).status).toBe("accepted");
      expect(await countOf(database, "inbox WHERE attempt_id = $1", [attempt])).toBe(1);
    } finally {
      await ask(database, back);
    }
    await connect(database, "sup_1");
    expect(await persistAll(attempt)).toMatchObject([{ kind: "queued", existing: false }]);
  });

  it("plans one alone again and commits its mates, when one application is disabled", async () => {
    const sender = await openSender(database, 10n * PRICE);
    const barred = await reservedMessage(database, { sender });
    const mates = [await reservedMessage(database), await reservedMessage(database)];
    await ask(database, `UPDATE applications SET active = false WHERE id = $1`, [sender.applicationId]);

    const answers = await persistAll(mates[0] ?? barred, barred, mates[1] ?? barred);

    expect(answers.map((it) => it?.kind)).toEqual(["queued", "replan", "queued"]);
  });

  it("commits nothing for a message past its limit", async () => {
    const attempt = await reservedMessage(database);
    const mate = await reservedMessage(database);
    await passLimit(database, attempt);

    expect((await persistAll(attempt, mate)).map((it) => it?.kind)).toEqual(["replan", "queued"]);
  });

  it("commits nothing for a message that is final, and closes its inbox row", async () => {
    const attempt = await reservedMessage(database);
    const mate = await reservedMessage(database);
    await database.transaction((tx) =>
      endWithoutRoute(tx, attempt, { status: "failed", reason: "no_route" }),
    );

    expect(await persistAll(attempt, mate)).toMatchObject([
      { kind: "ended", status: "failed" },
      { kind: "queued" },
    ]);
  });
});

describe("references of long messages (cmpp §8)", () => {
  const referenceIn = async (attempt: AttemptId): Promise<string | undefined> =>
    (await commandOf(attempt)).parts[0]?.slice(6, 8);

  it("gives two long messages of one batch to one number a reference each", async () => {
    const to = freshNumber();
    const attempts = await Promise.all([1, 2, 3].map(() => reservedMessage(database, { to, segments: 2 })));

    await persistAll(...attempts);

    const references = await Promise.all(attempts.map(referenceIn));
    expect(new Set(references).size).toBe(3);
  });

  it("counts on from batch to batch, and from 255 back to 0", async () => {
    const to = freshNumber();
    const first = await reservedMessage(database, { to, segments: 2 });
    await persistAll(first);
    await ask(database, `UPDATE concat_references SET last = 254 WHERE number_hash = $1`, [vault.hash(to)]);
    const attempts = await Promise.all([1, 2, 3].map(() => reservedMessage(database, { to, segments: 2 })));

    await persistAll(...attempts);

    expect(new Set(await Promise.all(attempts.map(referenceIn)))).toEqual(new Set(["00", "01", "ff"]));
  });

  it("gives every part of one message the same", async () => {
    const attempt = await queuedAttempt(database, { segments: 4 });

    const parts = (await commandOf(attempt)).parts;

    expect(new Set(parts.map((it) => it.slice(6, 8))).size).toBe(1);
    expect(parts.map((it) => it.slice(8, 12))).toEqual(["0401", "0402", "0403", "0404"]);
  });
});

describe("a message without a route", () => {
  it("ends, releases what it held, and says why", async () => {
    const attempt = await reservedMessage(database);

    await database.transaction((tx) =>
      endWithoutRoute(tx, attempt, { status: "failed", reason: "no_route" }),
    );

    expect(await messageOf(database, attempt)).toMatchObject({ status: "failed", reason: "no_route" });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "release"]);
  });

  it("is not ended by a plan that is older than the attempt's commit (B3, D10)", async () => {
    const attempt = await queuedAttempt(database);
    await written(database, attempt);

    const answer = await database.transaction((tx) =>
      endWithoutRoute(tx, attempt, { status: "failed", reason: "no_route" }),
    );

    expect(answer).toEqual({ kind: "planned", channelId: "chn_demo_1", considered: [] });
    expect((await messageOf(database, attempt)).status).toBe("queued");
    expect(await settled(database, attempt)).toMatchObject({ kind: "waiting" });
  });
});
