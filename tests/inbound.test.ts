/** Texts that recipients send: from stored parts to an owner, a wish and a notification (cmpp §8, §13). */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database, Session } from "../db/client.ts";
import {
  assignInbound,
  type InboundRow,
  joinInbound,
  listInbound,
  listInboundOf,
  listUnmatchedInbound,
} from "../db/inbound.ts";
import { openCommand } from "../db/sealed-command.ts";
import { inboundEventKey, inboundIdFrom, submitIdOf } from "../domain/ids.ts";
import {
  ask,
  countOf,
  DEMO,
  freshNumber,
  numberOf,
  only,
  openFacts,
  openSender,
  persist,
  queuedAttempt,
  receipt,
  reservedMessage,
  silence,
  type Sender,
  store,
  told,
  written,
} from "./facts.ts";

let database: Database;
beforeAll(async () => {
  database = await openFacts();
  await ask(database, `UPDATE applications SET webhook_url = 'https://customer.example/hook' WHERE id = $1`, [
    DEMO.applicationId,
  ]);
});
afterAll(() => database.close());

interface Said {
  from: string;
  to?: string;
  text?: string;
  part?: number;
  total?: number;
  reference?: string;
  msgId?: string;
  supplierId?: string;
}

let said = 0;

/** One DELIVER as the gateway stores it. */
function deliver(it: Said) {
  const {
    to = "10690001",
    text = "hello",
    part = 1,
    total = 1,
    supplierId = "sup_1",
    msgId = String(++said),
  } = it;
  return {
    key: inboundEventKey(supplierId, msgId, `${it.from} ${part} ${text}`),
    kind: "inbound" as const,
    supplierId,
    slot: 1,
    epoch: 1n,
    msgId,
    number: it.from,
    srcId: to,
    inbound: {
      msgFmt: 8,
      content: Buffer.from(text, "utf16le").swap16(),
      reference: total === 1 ? null : (it.reference ?? `8:7:${total}`),
      total,
      part,
    },
    raw: Buffer.from(`frame ${said}`),
  };
}

const join = (limit = 100) =>
  database.transaction((tx) => joinInbound(tx, limit, () => inboundIdFrom(Date.now(), randomBytes(10))));

async function arrived(...texts: Said[]) {
  await store(database, ...texts.map(deliver));
  return join();
}

/** In the order in which they came. */
const textsFrom = async (number: string): Promise<InboundRow[]> =>
  (await listInbound(database, undefined, 1_000))
    .filter((it) => it.number === number)
    .sort((a, b) => (a.received_at < b.received_at ? -1 : 1));

const notificationsTo = (number: string): Promise<number> =>
  countOf(
    database,
    `notifications n JOIN inbound_messages i ON i.id = n.inbound_id WHERE i.number_hash = $1`,
    [database.vault.hash(number)],
  );

/** A sender that shares channel 1 with the demo's. */
const neighbour = (): Promise<Sender> => openSender(database, 10_000_000n);

const isBlacklisted = async (number: string, { applicationId } = DEMO): Promise<boolean> =>
  (await countOf(
    database,
    `blacklist WHERE number_hash = $1 AND application_id = $2 AND source = 'opt_out'`,
    [database.vault.hash(number), applicationId],
  )) === 1;

/** As if so much time had passed since these parts came. */
const age = (number: string, seconds: number): Promise<unknown> =>
  ask(
    database,
    `UPDATE inbound_parts SET received_at = received_at - $2 * interval '1 second', due_at = now() WHERE number_hash = $1`,
    [database.vault.hash(number), seconds],
  );

describe("an inbound text", () => {
  it("belongs to the only application behind the number that was written to, and is told of once (E1)", async () => {
    const from = freshNumber();
    expect(await arrived({ from, text: "你好" })).toEqual({ partCount: 1, texts: 1, unmatched: 0 });
    expect(await textsFrom(from)).toMatchObject([
      {
        text: "你好",
        complete: true,
        application_id: DEMO.applicationId,
        matched_by: "only_application",
        wish: null,
      },
    ]);
    const [told] = await ask<{ id: string; body_sealed: Buffer; status: string }>(
      database,
      `SELECT n.id, n.body_sealed, n.status FROM notifications n JOIN inbound_messages i ON i.id = n.inbound_id WHERE i.number_hash = $1`,
      [database.vault.hash(from)],
    );
    expect(told?.status).toBe("pending");
    expect(
      JSON.parse(
        told === undefined ? "" : database.vault.openText("notifications.body", told.id, told.body_sealed),
      ),
    ).toMatchObject({
      type: "inbound.received",
      id: expect.stringMatching(/^evt_/),
      data: {
        id: expect.stringMatching(/^inb_/),
        from,
        to: "10690001",
        text: "你好",
        segments: 1,
        complete: true,
      },
    });
    await ask(database, `UPDATE inbound_parts SET due_at = now()`);
    expect(await join()).toEqual({ partCount: 0, texts: 0, unmatched: 0 });
  });

  it("that the supplier repeats is one text; two equal ones under two ids are two (D2)", async () => {
    const from = freshNumber();
    const first = deliver({ from, text: "hi" });
    await store(database, first, { ...first, raw: Buffer.from("another Sequence_Id") });
    await join();
    await store(database, first);
    await join();
    expect(await textsFrom(from)).toHaveLength(1);
    await arrived({ from, text: "hi" });
    expect(await textsFrom(from)).toHaveLength(2);
  });

  it("of several parts is joined when the last one came, over whatever connections", async () => {
    const from = freshNumber();
    await arrived({ from, part: 2, total: 3, text: "b" }, { from, part: 3, total: 3, text: "c" });
    expect(await textsFrom(from)).toEqual([]);
    await arrived(
      { from, part: 1, total: 3, text: "a" },
      { from, part: 1, total: 3, text: "x", reference: "16:7:3" },
    );
    expect((await textsFrom(from)).map((it) => it.text)).toEqual(["abc"]);
    const parts = await ask<{ joined: boolean }>(
      database,
      `SELECT inbound_id IS NOT NULL AS joined FROM inbound_parts WHERE number_hash = $1 ORDER BY id`,
      [database.vault.hash(from)],
    );
    expect(parts.map((it) => it.joined)).toEqual([true, true, true, false]);
  });

  it("that stays incomplete is handed on after an hour, and its last part after another one", async () => {
    const from = freshNumber();
    await arrived({ from, part: 1, total: 2, text: "a" });
    await age(from, 3_599);
    await join();
    expect(await textsFrom(from)).toEqual([]);
    await age(from, 2);
    await join();
    expect(await textsFrom(from)).toMatchObject([{ text: "a", complete: false }]);
    await arrived({ from, part: 2, total: 2, text: "b" });
    await age(from, 3_601);
    await join();
    expect((await textsFrom(from)).map((it) => [it.text, it.complete])).toEqual([
      ["a", false],
      ["b", false],
    ]);
  });

  it("keeps the first of two parts that contradict each other, and says so to a person", async () => {
    const from = freshNumber();
    await arrived(
      { from, part: 1, total: 2, text: "a" },
      { from, part: 1, total: 2, text: "x" },
      { from, part: 2, total: 2, text: "b" },
    );
    expect((await textsFrom(from)).map((it) => it.text)).toEqual(["ab"]);
    expect(
      await countOf(
        database,
        `anomalies n JOIN supplier_events e ON e.id = n.event_id WHERE n.kind = 'inbound_part_conflict' AND e.number_hash = $1`,
        [database.vault.hash(from)],
      ),
    ).toBe(1);
  });

  it("is made once by two that look at once", async () => {
    const from = freshNumber();
    await store(
      database,
      deliver({ from, part: 1, total: 2, text: "a" }),
      deliver({ from, part: 2, total: 2, text: "b" }),
    );
    await Promise.all([join(), join(), join()]);
    expect(await textsFrom(from)).toHaveLength(1);
  });

  it("is made anew by whoever comes after one that died in the middle (I)", async () => {
    const from = freshNumber();
    await store(database, deliver({ from, text: "TD" }));
    const dying = database.transaction(async (tx) => {
      await joinInbound(tx, 100, () => inboundIdFrom(Date.now(), randomBytes(10)));
      throw new Error("killed");
    });
    await expect(dying).rejects.toThrow("killed");
    expect([await textsFrom(from), await isBlacklisted(from)]).toEqual([[], false]);
    await join();
    expect([(await textsFrom(from)).length, await isBlacklisted(from)]).toEqual([1, true]);
  });
});

describe("whose a text is, where several share a number", () => {
  let other: Sender;
  beforeAll(async () => {
    other = await neighbour();
  });
  afterAll(() =>
    ask(database, `UPDATE applications SET channel_group_id = 'grp_none' WHERE id = $1`, [
      other.applicationId,
    ]),
  );
  beforeAll(() => ask(database, `INSERT INTO channel_groups (id, name) VALUES ('grp_none', 'none')`));

  it("is decided by who wrote to that handset last, over that channel", async () => {
    const from = freshNumber();
    await queuedAttempt(database, { to: from });
    await queuedAttempt(database, { to: from, sender: other });
    await queuedAttempt(database, { to: from, channel: 2 });
    await arrived({ from });
    expect(await textsFrom(from)).toMatchObject([
      { application_id: other.applicationId, matched_by: "last_message" },
    ]);
  });

  it("stays open where nobody wrote to it, for a person, and is not guessed (D14)", async () => {
    const from = freshNumber();
    expect(await arrived({ from, text: "TD" })).toMatchObject({ texts: 1, unmatched: 1 });
    expect(await textsFrom(from)).toMatchObject([{ application_id: null, wish: null }]);
    expect(await notificationsTo(from)).toBe(0);
    const open = (await listUnmatchedInbound(database, undefined, 10)).find((it) => it.number === from);
    const author = { actor: "tok_operator", note: "called the customer" };
    const said = await Promise.all(
      [1, 2].map(() => assignInbound(database, author, open?.id ?? "", DEMO.applicationId)),
    );
    expect(said.map((it) => it.kind).sort()).toEqual(["already_assigned", "assigned"]);
    expect(await textsFrom(from)).toMatchObject([
      { application_id: DEMO.applicationId, matched_by: "person", wish: "opt_out" },
    ]);
    expect(await isBlacklisted(from)).toBe(true);
    expect(await notificationsTo(from)).toBe(1);
    expect((await assignInbound(database, author, "inb_nothing", DEMO.applicationId)).kind).toBe("not_found");
    expect((await assignInbound(database, author, open?.id ?? "", "app_nobody")).kind).toBe(
      "unknown_application",
    );
  });

  it("is decided by the extension, the longest first, whoever wrote last", async () => {
    const from = freshNumber();
    await ask(database, `UPDATE applications SET extension = '77' WHERE id = $1`, [other.applicationId]);
    await queuedAttempt(database, { to: from });
    await arrived({ from, to: "1069000177" }, { from, to: "10690001779" }, { from, to: "1069000178" });
    await ask(database, `UPDATE applications SET extension = NULL WHERE id = $1`, [other.applicationId]);
    expect((await textsFrom(from)).map((it) => [it.application_id, it.matched_by])).toEqual([
      [other.applicationId, "extension"],
      [other.applicationId, "extension"],
      [DEMO.applicationId, "last_message"],
    ]);
  });

  it("is nobody's under a number that is none of ours, unless the supplier puts its own in place of ours", async () => {
    const from = freshNumber();
    await queuedAttempt(database, { to: from });
    await arrived({ from, to: "9999" });
    await ask(
      database,
      `UPDATE suppliers SET profile = profile || '{"srcId": "overwritten"}' WHERE id = 'sup_1'`,
    );
    await arrived({ from, to: "9999" }, { from: freshNumber(), to: "9999" });
    await ask(database, `UPDATE suppliers SET profile = profile - 'srcId' WHERE id = 'sup_1'`);
    expect((await textsFrom(from)).map((it) => it.matched_by)).toEqual([null, "last_message"]);
  });
});

describe("an application's own extension", () => {
  it("follows the channel's number on the wire, and a receipt that nobody knows is held against both (D14)", async () => {
    const sender = await neighbour();
    await ask(database, `UPDATE applications SET extension = '42' WHERE id = $1`, [sender.applicationId]);
    const attempt = await queuedAttempt(database, { sender });
    const { payload, schema_version } = await only<{ payload: string; schema_version: number }>(
      database,
      `SELECT payload, schema_version FROM submit_outbox WHERE attempt_id = $1`,
      [attempt],
    );
    const read = openCommand(database.vault, submitIdOf(attempt), schema_version, payload);
    expect(read).toMatchObject({ ok: true, command: { srcId: "1069000142" } });
    await written(database, attempt);
    await told(database, silence(attempt));
    const number = await numberOf(database, attempt);
    const from = (msgId: string, srcId: string) => receipt(msgId, number, { srcId });
    expect((await told(database, from("00000000000000f1", "10690001"))).unmatched).toBe(1);
    expect((await told(database, from("00000000000000f2", "1069000142"))).folded).toBe(1);
  });
});

describe("a recipient's wish", () => {
  it("puts the number on the application's list once, and takes it off again where it asks (A3)", async () => {
    const from = freshNumber();
    await arrived({ from, text: " ｔｄ。" }, { from, text: "TD" });
    expect(await isBlacklisted(from)).toBe(true);
    await arrived({ from, text: "Start" });
    expect(await isBlacklisted(from)).toBe(false);
    await arrived({ from, text: "start" }, { from, text: "退订" });
    expect(await isBlacklisted(from)).toBe(true);
    expect((await textsFrom(from)).map((it) => it.wish)).toEqual([
      "opt_out",
      "opt_out",
      "opt_in",
      "opt_in",
      "opt_out",
    ]);
  });

  it("never takes back what the platform itself put on the list", async () => {
    const from = freshNumber();
    await ask(
      database,
      `INSERT INTO blacklist (number_hash, number_sealed, application_id) VALUES ($1, '', $2)`,
      [database.vault.hash(from), DEMO.applicationId],
    );
    await arrived({ from, text: "TD" }, { from, text: "START" });
    expect(
      await countOf(database, `blacklist WHERE number_hash = $1 AND source = 'platform'`, [
        database.vault.hash(from),
      ]),
    ).toBe(1);
  });

  it("has the words of the application, else those of the supplier's profile, else the common ones", async () => {
    const wishOf = async (text: string): Promise<string | null | undefined> => {
      const from = freshNumber();
      await arrived({ from, text });
      return (await textsFrom(from))[0]?.wish;
    };
    expect([await wishOf("R"), await wishOf("T")]).toEqual([null, "opt_out"]);
    await ask(
      database,
      `UPDATE suppliers SET profile = profile || '{"optOutWords": ["R"], "optInWords": []}' WHERE id = 'sup_1'`,
    );
    expect([await wishOf("R"), await wishOf("T"), await wishOf("START")]).toEqual(["opt_out", null, null]);
    await ask(database, `UPDATE applications SET opt_out_words = '{N}' WHERE id = $1`, [DEMO.applicationId]);
    expect([await wishOf("n"), await wishOf("R")]).toEqual(["opt_out", null]);
    await ask(database, `UPDATE applications SET opt_out_words = NULL WHERE id = $1`, [DEMO.applicationId]);
    await ask(
      database,
      `UPDATE suppliers SET profile = profile - '{optOutWords,optInWords}'::text[] WHERE id = 'sup_1'`,
    );
  });

  it("refuses the next message of that application with a reason, and costs it nothing (A3)", async () => {
    const from = freshNumber();
    await arrived({ from, text: "TD" });
    const attempt = await reservedMessage(database, { to: from });
    const [message] = await ask(database, `SELECT status, reason FROM messages WHERE id = $1`, [
      attempt.replace(/^att_/, "msg_").replace(/_1$/, ""),
    ]);
    expect(message).toEqual({ status: "refused", reason: "recipient_blacklisted" });
    const neighbours = await reservedMessage(database, { to: from, sender: await neighbour() });
    await persist(database, neighbours, 1);
  });
});

describe("the list of an application", () => {
  it("has its texts alone, newest first, page by page", async () => {
    const mine = await listAll(database, DEMO.applicationId);
    expect(mine.length).toBeGreaterThan(5);
    expect(mine.map((it) => it.id)).toEqual(
      mine
        .map((it) => it.id)
        .toSorted()
        .toReversed(),
    );
    expect(new Set(mine.map((it) => it.application_id))).toEqual(new Set([DEMO.applicationId]));
  });
});

async function listAll(session: Session, applicationId: string): Promise<InboundRow[]> {
  const all: InboundRow[] = [];
  for (;;) {
    const page = await listInboundOf(session, applicationId, all.at(-1)?.id, 2);
    all.push(...page);
    if (page.length < 2) return all;
  }
}
