/** What is refused before anything is sent, through the step that reserves (A3, A4, A6). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { acceptMessages } from "../db/inbox.ts";
import { portedPrefix } from "../db/intake-rules.ts";
import { books } from "../db/ledger.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { type AttemptId, attemptIdOf, messageIdFrom, messageIdOf } from "../domain/ids.ts";
import { describeText } from "../domain/segment.ts";
import {
  acceptedMessage,
  ask,
  countOf,
  freshNumber,
  messageOf,
  numberOf,
  openFacts,
  openSender,
  only,
  PRICE,
  queuedAttempt,
  receiptFor,
  response,
  type Sender,
  settled,
  successorOf,
  told,
  transfersOf,
  untilWaiting,
  written,
} from "./facts.ts";
import { vault } from "./servers.ts";

let database: Database;
beforeAll(async () => {
  database = await openFacts();
});
afterAll(() => database.close());

const RICH = 1_000n * PRICE;

const reserved = (...attempts: AttemptId[]) => database.transaction((tx) => reserveForAttempts(tx, attempts));

/** What the step says of each, in the order in which they were accepted. */
async function verdicts(...attempts: AttemptId[]): Promise<string[]> {
  await reserved(...attempts);
  return Promise.all(
    attempts.map(async (attempt) => {
      const { status, reason } = await messageOf(database, attempt);
      return status === "refused" ? String(reason) : status;
    }),
  );
}

const WEBHOOK = "https://example.com/hook";

async function textMessage(sender: Sender, text: string, to = freshNumber()): Promise<AttemptId> {
  const id = messageIdFrom(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
  await acceptMessages(database, {
    sender: { enterpriseId: "ent_demo", ...sender, currency: "CNY", unitPriceUnits: PRICE },
    messages: [
      {
        id,
        number: to,
        text,
        ...describeText(text),
        reference: undefined,
        webhookUrl: WEBHOOK,
        validitySeconds: 3_600,
      },
    ],
    answer: { id },
  });
  return attemptIdOf(id, 1);
}

async function expectRefused(attempt: AttemptId, reason: string): Promise<void> {
  expect(await reserved(attempt)).toEqual(new Map([[attempt, { kind: "ended", status: "refused" }]]));
  expect(await messageOf(database, attempt)).toMatchObject({ status: "refused", reason });
  expect(await transfersOf(database, attempt)).toEqual([]);
  expect(await countOf(database, "attempts WHERE id = $1", [attempt])).toBe(0);
  expect(await countOf(database, "inbox WHERE attempt_id = $1", [attempt])).toBe(0);
  expect(await countOf(database, "admissions WHERE message_id = $1", [messageIdOf(attempt)])).toBe(0);
  const { id, body_sealed: sealed } = await only<{ id: string; body_sealed: Buffer }>(
    database,
    `SELECT id, body_sealed FROM notifications WHERE message_id = $1`,
    [messageIdOf(attempt)],
  );
  const body = vault.openText("notifications.body", id, sealed);
  expect(JSON.parse(body)).toMatchObject({ type: "message.refused", data: { status: "refused", reason } });
}

const change = (sender: Sender, what: string): Promise<unknown> =>
  ask(database, `UPDATE applications SET ${what} WHERE id = $1`, [sender.applicationId]);

describe("a refusal costs nothing, reaches no supplier and is told (A3)", () => {
  it("says application_disabled", async () => {
    const sender = await openSender(database, RICH);
    await change(sender, "active = false");
    await expectRefused(await textMessage(sender, "hello"), "application_disabled");
  });

  it("says enterprise_disabled", async () => {
    const sender = await openSender(database, RICH);
    await ask(database, `INSERT INTO enterprises (id, name, active) VALUES ('ent_off', 'Off', false)`);
    await change(sender, "enterprise_id = 'ent_off'");
    await expectRefused(await textMessage(sender, "hello"), "enterprise_disabled");
  });

  it("says signature_unknown where the text begins with one that the enterprise does not own", async () => {
    const sender = await openSender(database, RICH);
    await ask(database, `INSERT INTO enterprises (id, name) VALUES ('ent_other', 'Other')`);
    await ask(
      database,
      `INSERT INTO signatures (id, enterprise_id, text, status) VALUES ('sig_other', 'ent_other', '【别人】', 'approved')`,
    );
    await expectRefused(await textMessage(sender, "【别人】hello"), "signature_unknown");
  });

  it("says signature_unknown where the text has none and the application no default", async () => {
    const sender = await openSender(database, RICH);
    await change(sender, "default_signature_id = NULL");
    await expectRefused(await textMessage(sender, "hello"), "signature_unknown");
    expect(await verdicts(await textMessage(sender, "【测试】hello"))).toEqual(["accepted"]);
  });

  it.each(["pending", "rejected"])("says signature_not_approved of a %s one", async (status) => {
    const sender = await openSender(database, RICH);
    await ask(
      database,
      `INSERT INTO signatures (id, enterprise_id, text, status) VALUES ($1, 'ent_demo', $2, $3)`,
      [`sig_${status}`, `【${status}】`, status],
    );
    await expectRefused(await textMessage(sender, `【${status}】hello`), "signature_not_approved");
  });

  it("says operator_unknown of a number that no prefix fits (A6)", async () => {
    const sender = await openSender(database, RICH);
    await expectRefused(await textMessage(sender, "hello", "11000000000"), "operator_unknown");
  });

  it("says insufficient_balance", async () => {
    const sender = await openSender(database, PRICE - 1n);
    await expectRefused(await textMessage(sender, "hello"), "insufficient_balance");
  });
});

describe("an application that demands a template (A3)", () => {
  async function demanding(): Promise<Sender> {
    const sender = await openSender(database, RICH);
    await change(sender, "template_required = true");
    return sender;
  }
  const addTemplate = ({ applicationId }: Sender, body: string, status = "approved"): Promise<unknown> =>
    ask(database, `INSERT INTO templates (id, application_id, body, status) VALUES ($1, $2, $3, $4)`, [
      `tpl_${crypto.randomUUID()}`,
      applicationId,
      body,
      status,
    ]);

  it("sends a text that one of its approved templates makes, with and without signature", async () => {
    const sender = await demanding();
    await addTemplate(sender, "another {x}");
    await addTemplate(sender, "code {code}");
    const texts = ["code 1", "【测试】code 1"].map((text) => textMessage(sender, text));
    expect(await verdicts(...(await Promise.all(texts)))).toEqual(["accepted", "accepted"]);
  });

  it("says template_not_matched of any other text", async () => {
    const sender = await demanding();
    await addTemplate(sender, "code {code}");
    await expectRefused(await textMessage(sender, "the code 1"), "template_not_matched");
  });

  it("has no use for templates of others, nor for one that is not approved", async () => {
    const [sender, other] = [await demanding(), await demanding()];
    await addTemplate(other, "code {code}");
    await addTemplate(sender, "code {code}", "pending");
    await addTemplate(sender, "code {code}", "rejected");
    await expectRefused(await textMessage(sender, "code 1"), "template_not_matched");
  });

  it("judges each application in one batch by its own templates", async () => {
    const [a, b, free] = [await demanding(), await demanding(), await openSender(database, RICH)];
    await addTemplate(a, "a {x}");
    await addTemplate(b, "b {x}");
    const attempts = [await textMessage(a, "b 1"), await textMessage(b, "b 1"), await textMessage(free, "c")];
    expect(await verdicts(...attempts)).toEqual(["template_not_matched", "accepted", "accepted"]);
  });
});

describe("a blacklisted recipient (A3)", () => {
  const block = (number: string, applicationId: string | null, source = "platform"): Promise<unknown> =>
    ask(
      database,
      `INSERT INTO blacklist (number_hash, number_sealed, application_id, source) VALUES ($1, '', $2, $3)`,
      [vault.hash(number), applicationId, source],
    );

  it("gets nothing from anybody where all are meant", async () => {
    const sender = await openSender(database, RICH);
    const number = freshNumber();
    await block(number, null);
    await expectRefused(await textMessage(sender, "hello", number), "recipient_blacklisted");
  });

  it("gets nothing from the application it opted out of, and from others what they send", async () => {
    const [sender, other] = [await openSender(database, RICH), await openSender(database, RICH)];
    const number = freshNumber();
    await block(number, sender.applicationId, "opt_out");
    await expectRefused(await textMessage(sender, "hello", number), "recipient_blacklisted");
    expect(await verdicts(await textMessage(other, "hello", number))).toEqual(["accepted"]);
  });

  it("gets no second attempt when it was listed after the first (D6)", async () => {
    const attempt = await queuedAttempt(database);
    const control = await queuedAttempt(database);
    await block(await numberOf(database, attempt), null);
    for (const it of [attempt, control]) {
      await written(database, it);
      await told(database, response(it));
      await told(database, await receiptFor(database, it, { stat: "UNDELIV" }));
    }
    expect(await settled(database, attempt)).toEqual({ kind: "final", status: "undelivered" });
    expect(await transfersOf(database, attempt)).toEqual(["reserve", "charge", "refund"]);
    expect(await settled(database, control)).toMatchObject({ kind: "retrying" });
  });
});

describe("the operator of a number (A6)", () => {
  it("is that of the longest entry: a ported number before its prefix", async () => {
    const number = freshNumber();
    await ask(
      database,
      `INSERT INTO number_prefixes (prefix, number_sealed, operator) VALUES ($1, '', 'china_telecom')`,
      [portedPrefix(vault, number)],
    );
    await ask(database, `INSERT INTO number_prefixes (prefix, operator) VALUES ($1, 'china_unicom')`, [
      number.slice(0, 10),
    ]);
    const neighbour = number.slice(0, 10) + String((Number(number.at(-1)) + 1) % 10);
    const attempts = await Promise.all(
      [number, neighbour, "13900000000"].map((to) => acceptedMessage(database, { to })),
    );
    await reserved(...attempts);
    const operators = await Promise.all(
      attempts.map(
        async (attempt) =>
          (
            await only<{ operator: string }>(database, `SELECT operator FROM messages WHERE id = $1`, [
              messageIdOf(attempt),
            ])
          ).operator,
      ),
    );
    expect(operators).toEqual(["china_telecom", "china_unicom", "china_mobile"]);
  });
});

const limitDay = (sender: Sender, limit: number): Promise<unknown> =>
  change(sender, `daily_limit = ${limit}`);

const limitFrequency = (sender: Sender, seconds: number, messages: number): Promise<unknown> =>
  ask(database, `INSERT INTO frequency_limits VALUES ($1, $2, $3)`, [
    sender.applicationId,
    seconds,
    messages,
  ]);

const many = (sender: Sender, count: number, to?: string): Promise<AttemptId[]> =>
  Promise.all(
    Array.from({ length: count }, () =>
      acceptedMessage(database, { sender, ...(to === undefined ? {} : { to }) }),
    ),
  );

const admitted = ({ applicationId }: Sender): Promise<number> =>
  countOf(database, "admissions WHERE application_id = $1", [applicationId]);

const count = (verdict: string, all: readonly string[]): number => all.filter((it) => it === verdict).length;

describe("the daily limit of an application (A3, A4)", () => {
  it("lets so many pass and says daily_limit_reached of the next", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 2);
    expect(count("daily_limit_reached", await verdicts(...(await many(sender, 3))))).toBe(1);
    await expectRefused(await textMessage(sender, "hello"), "daily_limit_reached");
    expect(await admitted(sender)).toBe(2);
  });

  it("lets nothing pass where it is 0", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 0);
    await expectRefused(await textMessage(sender, "hello"), "daily_limit_reached");
  });

  it("counts a message once however often its step is run", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 2);
    const [first] = await many(sender, 1);
    for (let runs = 0; runs < 3; runs++) {
      expect(await reserved(first as AttemptId)).toEqual(new Map([[first, { kind: "reserved" }]]));
    }
    const [second, third] = await many(sender, 2);
    expect(await verdicts(second as AttemptId)).toEqual(["accepted"]);
    expect(await verdicts(third as AttemptId)).toEqual(["daily_limit_reached"]);
  });

  it("counts no message that was refused, for whatever reason", async () => {
    const sender = await openSender(database, 2n * PRICE);
    await limitDay(sender, 2);
    await verdicts(await textMessage(sender, "【无】x"), await textMessage(sender, "x", "11000000000"));
    const long = await acceptedMessage(database, { sender, segments: 3 });
    expect(await verdicts(long)).toEqual(["insufficient_balance"]);
    expect(await verdicts(...(await many(sender, 2)))).toEqual(["accepted", "accepted"]);
  });

  it("gives the place of one that cannot pay to the next in the same batch", async () => {
    const sender = await openSender(database, PRICE);
    await limitDay(sender, 1);
    const long = await acceptedMessage(database, { sender, segments: 3 });
    const [short] = await many(sender, 1);
    expect(await verdicts(long, short as AttemptId)).toEqual(["insufficient_balance", "accepted"]);
    expect(await admitted(sender)).toBe(1);
  });

  it("counts nothing again for a successor, which finds what its message holds (A5)", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 1);
    await limitFrequency(sender, 60, 1);
    const attempt = await queuedAttempt(database, { sender });
    await written(database, attempt);
    await told(database, response(attempt));
    await told(database, await receiptFor(database, attempt, { stat: "UNDELIV" }));
    expect(await settled(database, attempt)).toMatchObject({ kind: "retrying" });
    const successor = successorOf(attempt);
    expect(await reserved(successor)).toEqual(new Map([[successor, { kind: "reserved" }]]));
    expect(await admitted(sender)).toBe(1);
  });

  it("begins anew with the day in Asia/Shanghai", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 1);
    await verdicts(...(await many(sender, 1)));
    const { right } = await only<{ right: boolean }>(
      database,
      `SELECT day = (now() AT TIME ZONE 'Asia/Shanghai')::date AS right FROM admissions WHERE application_id = $1`,
      [sender.applicationId],
    );
    expect(right).toBe(true);
    await ask(database, `UPDATE admissions SET day = day - 1 WHERE application_id = $1`, [
      sender.applicationId,
    ]);
    expect(await verdicts(...(await many(sender, 1)))).toEqual(["accepted"]);
  });

  it("is kept by parallel batches to the last message", async () => {
    const sender = await openSender(database, RICH);
    await limitDay(sender, 10);
    const batches = await Promise.all(Array.from({ length: 8 }, () => many(sender, 5)));
    await Promise.all(batches.map((batch) => reserved(...batch)));
    expect(count("accepted", await verdicts(...batches.flat()))).toBe(10);
    expect(await admitted(sender)).toBe(10);
  });
});

describe("how often one number gets a text (A3, A4)", () => {
  it("is limited in every window, and says frequency_limited", async () => {
    const sender = await openSender(database, RICH);
    await limitFrequency(sender, 60, 1);
    await limitFrequency(sender, 3_600, 2);
    const number = freshNumber();
    const age = (seconds: number): Promise<unknown> =>
      ask(
        database,
        `UPDATE admissions SET counted_at = counted_at - make_interval(secs => $2) WHERE application_id = $1`,
        [sender.applicationId, seconds],
      );
    const next = () => textMessage(sender, "hello", number);
    expect(await verdicts(await next())).toEqual(["accepted"]);
    await expectRefused(await next(), "frequency_limited");
    await age(61);
    expect(await verdicts(await next())).toEqual(["accepted"]);
    await age(61);
    await expectRefused(await next(), "frequency_limited");
    await age(3_600);
    expect(await verdicts(await next())).toEqual(["accepted"]);
  });

  it("is counted by number and by application", async () => {
    const [sender, other] = [await openSender(database, RICH), await openSender(database, RICH)];
    await limitFrequency(sender, 60, 1);
    await limitFrequency(other, 60, 1);
    const number = freshNumber();
    const attempts = [
      await textMessage(sender, "1", number),
      await textMessage(other, "1", number),
      await textMessage(sender, "1"),
    ];
    expect(await verdicts(...attempts)).toEqual(["accepted", "accepted", "accepted"]);
  });

  it("counts a message once however often its step is run", async () => {
    const sender = await openSender(database, RICH);
    await limitFrequency(sender, 60, 2);
    const number = freshNumber();
    const [first, second, third] = await many(sender, 3, number);
    for (let runs = 0; runs < 3; runs++) await reserved(first as AttemptId);
    expect(await verdicts(second as AttemptId)).toEqual(["accepted"]);
    expect(await verdicts(third as AttemptId)).toEqual(["frequency_limited"]);
  });

  it("is kept by parallel batches, for each number of many", async () => {
    const sender = await openSender(database, RICH);
    await limitFrequency(sender, 60, 3);
    const numbers = [freshNumber(), freshNumber(), freshNumber()];
    const batches = await Promise.all(
      Array.from({ length: 6 }, async () =>
        (await Promise.all(numbers.map((to) => many(sender, 2, to)))).flat(),
      ),
    );
    await Promise.all(batches.map((batch) => reserved(...batch)));
    expect(count("accepted", await verdicts(...batches.flat()))).toBe(9);
    expect(await admitted(sender)).toBe(9);
  });

  it("waits for a batch that is under way, so that it sees what that one counts", async () => {
    const sender = await openSender(database, RICH);
    await limitFrequency(sender, 60, 1);
    const [first, second] = (await many(sender, 2, freshNumber())) as [AttemptId, AttemptId];
    let later: Promise<unknown> = Promise.resolve();
    await database.transaction(async (tx) => {
      await reserveForAttempts(tx, [first]);
      later = reserved(second);
      await untilWaiting(database, 1);
    });
    await later;
    expect(await messageOf(database, second)).toMatchObject({ reason: "frequency_limited" });
  });
});

it("locks limited applications in one order, so that two batches cannot meet crosswise (D11)", async () => {
  const senders = [await openSender(database, RICH), await openSender(database, RICH)];
  for (const sender of senders) await limitDay(sender, 1);
  const [lower = "", higher = ""] = senders.map((sender) => sender.applicationId).sort();
  const lock = "SELECT id FROM applications WHERE id = $1 FOR NO KEY UPDATE";
  for (const both of [senders, [...senders].reverse()]) {
    const attempts: AttemptId[] = [];
    for (const sender of both) attempts.push(...(await many(sender, 1)));
    let batch: Promise<unknown> = Promise.resolve();
    await database.transaction(async (tx) => {
      await ask(tx, lock, [lower]);
      batch = reserved(...attempts);
      await untilWaiting(database, 1);
      // Whoever waits for the lower one holds no higher one.
      expect(await ask(tx, `${lock} NOWAIT`, [higher])).toHaveLength(1);
    });
    await batch;
  }
});

it("keeps an application without limits free of counts and of locks on its row", async () => {
  const sender = await openSender(database, RICH);
  const [attempt] = (await many(sender, 1)) as [AttemptId];
  await database.transaction(async (tx) => {
    await ask(tx, `SELECT id FROM applications WHERE id = $1 FOR NO KEY UPDATE`, [sender.applicationId]);
    await reserved(attempt);
  });
  expect(await messageOf(database, attempt)).toMatchObject({ status: "accepted" });
  expect(await admitted(sender)).toBe(0);
});

it("leaves the books balanced after all of this", async () => {
  expect(await books(database)).toMatchObject({ balanced: true, differences: [] });
});
