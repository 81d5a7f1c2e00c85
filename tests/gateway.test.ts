/**
 * The gateway against suppliers that are slow, flap, refuse and change, with PostgreSQL and Redis coming
 * and going: whatever happens, a part is written once, and no command is left behind (B5, C3, C4).
 */
import { afterEach, describe, expect, it } from "vitest";
import { type AttemptId, messageIdOf, submitIdOf } from "../domain/ids.ts";
import type { Gateway } from "../gateway-bridge/gateway.ts";
import { commandStream } from "../gateway-bridge/streams.ts";
import { ask, passLimit, settled, untilWaiting } from "./facts.ts";
import { openSurroundings, type Surroundings, type SurroundingsOptions } from "./gateways.ts";
import { servers, until } from "./servers.ts";

let around: Surroundings;
afterEach(() => around.close());

/** A gateway of this process, connected to every supplier. */
async function connected(
  profiles: object[],
  options: Partial<SurroundingsOptions> = {},
): Promise<Surroundings> {
  around = await openSurroundings({ profiles, ...options });
  await around.openGateway();
  for (const [index, profile] of profiles.entries()) {
    const { connections = 2 } = profile as { connections?: number };
    await around.untilConnected(`sup_${index + 1}`, connections);
  }
  return around;
}

async function expectNothingTwice(): Promise<void> {
  expect([...(await around.timesByPart())].filter(([, count]) => count > 1)).toEqual([]);
}

async function untilWrittenOnce(texts: Awaited<ReturnType<Surroundings["texts"]>>): Promise<void> {
  expect([...(await around.untilAnswered(texts)).keys()]).toEqual(["accepted"]);
  await expectNothingTwice();
  expect((await around.timesByPart()).size).toBe(texts.length);
  await around.untilEmpty("chn_demo_1");
}

/** Does `what` again and again while `during` goes on. */
async function meanwhile<T>(
  everyMs: number,
  what: () => Promise<unknown>,
  during: () => Promise<T>,
): Promise<T> {
  let going = true;
  const disturbing = (async () => {
    while (going) {
      await what();
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  })();
  try {
    return await during();
  } finally {
    going = false;
    await disturbing;
  }
}

const dropBackends = (which: string): Promise<unknown> =>
  ask(
    around.database,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = $1`,
    [which],
  );

const submitsOf = async (to: string) => (await around.witnessed()).filter((it) => it.to === to);

describe("pace and window (B5)", () => {
  it("are never exceeded, in any second of the supplier's own log", async () => {
    await connected([{ connections: 3, window: 3, ratePerSecond: 30 }], { allowed: { window: 3, rate: 30 } });
    await around.disturb({ delayMs: 80 });

    await untilWrittenOnce(await around.burst(90));

    const { maxPerSecond, windowViolations, rateViolations } = around.stats();
    expect({ windowViolations, rateViolations }).toEqual({ windowViolations: 0, rateViolations: 0 });
    expect(maxPerSecond).toBeLessThanOrEqual(30);
    expect(maxPerSecond).toBeGreaterThan(20);
  });

  it("keep the parts of a text together on one connection", async () => {
    await connected([{ connections: 3, window: 5, ratePerSecond: 200 }]);
    await around.disturb({ delayMs: 20 });
    const texts = await around.texts(20, { segments: 4 });
    await around.untilAnswered(texts);

    const byConnection = new Map<string, string[]>();
    for (const { connection, to, part } of await around.witnessed()) {
      byConnection.set(connection, [...(byConnection.get(connection) ?? []), `${to} ${part}`]);
    }
    for (const written of byConnection.values()) {
      const firsts = written.flatMap((it, index) => (it.endsWith(" 1") ? [index] : []));
      const together = firsts.flatMap((at) => {
        const to = written[at]?.split(" ")[0];
        return [1, 2, 3, 4].map((part) => `${to} ${part}`);
      });
      expect(written).toEqual(together);
    }
  });

  it("let a throttled part come again later, and give up after thirty writes (C3)", async () => {
    await connected([{ connections: 2, throttleBackoffMs: 10, ratePerSecond: 1_000 }]);
    const [soon, never, plain] = [
      await around.text({ to: "13899990120" }),
      await around.text({ to: "13899990121" }),
      await around.text(),
    ];
    await around.untilAnswered([soon, plain]);
    await around.untilEmpty("chn_demo_1");

    expect((await submitsOf("13899990120")).map((it) => it.result)).toEqual([8, 8, 8, 0]);
    expect(await submitsOf("13899990121")).toHaveLength(30);
    expect((await around.takesOf(never)).at(-1)).toMatchObject({ write_number: 30, answer: "throttled" });
  });
});

describe("links", () => {
  it("that flap every 200 ms lose nothing and double nothing, and answers end as unknown at worst", async () => {
    await connected([{ connections: 3, window: 4, ratePerSecond: 500, throttleBackoffMs: 50 }]);
    await around.disturb({ delayMs: 30 });
    const texts = await meanwhile(
      200,
      () => around.disturb({ cut: true }),
      async () => {
        const throttled = ["35", "36", "37", "38", "39", "50", "51", "52"].map((it) => `1${it}99990120`);
        const texts: AttemptId[] = [];
        for (const to of throttled) texts.push(await around.text({ to }));
        return [...texts, ...(await around.texts(142))];
      },
    );
    await around.disturb({ delayMs: 0 });

    const answers = await around.untilAnswered(texts);
    await around.untilEmpty("chn_demo_1");
    await expectNothingTwice();
    const accepted = answers.get("accepted") ?? 0;
    expect(accepted + (answers.get("unknown") ?? 0)).toBe(150);
    expect((await around.timesByPart()).size).toBeGreaterThanOrEqual(accepted);
    await around.untilConnected("sup_1", 3);
  }, 90_000);

  it("with refused credentials are not hammered, trouble nobody else, and come up when they are put right", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }, { connections: 1, spId: "999999" }] });
    await around.openGateway();
    await around.untilConnected("sup_1", 1);
    await until("the second is refused", () => Promise.resolve(around.stats(2).refusedLogins > 0));
    await untilWrittenOnce(await around.texts(20));
    expect(around.stats(2).refusedLogins).toBe(1);
    expect(await around.connections("sup_2")).toMatchObject([{ connected: false, last_error: "auth" }]);

    await around.editProfile("sup_2", { spId: "900002" });
    await around.untilConnected("sup_2", 1, 10_000);
  });

  it("that go dark take no more than a window with them (cmpp §12)", async () => {
    await connected([{ connections: 1, window: 3, responseTimeoutMs: 400, heartbeatTimeoutMs: 60_000 }]);
    await around.disturb({ blackhole: true });
    const texts = await around.texts(12);
    const since = performance.now();
    await until("the window is given up, and time has passed for three more", async () => {
      const rows = await ask(around.database, `SELECT part FROM takes WHERE answer = 'unknown'`);
      return rows.length >= 3 && performance.now() - since > 1_800;
    });
    await around.disturb({ blackhole: false });
    await around.untilAnswered(texts);

    const rows = await ask<{ count: number }>(
      around.database,
      `SELECT count(*)::int AS count FROM supplier_events WHERE kind = 'no_response'`,
    );
    expect(rows[0]?.count).toBe(3);
    await around.untilEmpty("chn_demo_1");
    await expectNothingTwice();
  });
});

describe("a slot that is to be left or made anew", () => {
  /** A turn of one of the gateway's loops that began after now. */
  async function untilTurned(gateway: Gateway, name: string): Promise<void> {
    const loop = gateway.loops().find((it) => it.name === name);
    for (let turns = 0; turns < 2; turns++) {
      const since = loop?.lastTurnAt() ?? 0;
      await until(`${name} has turned`, () => Promise.resolve((loop?.lastTurnAt() ?? 0) > since));
    }
  }

  /** Both slots' rows are held by somebody else while `what` happens: nobody gets further than the lock. */
  const whileBeginning = <T>(what: () => Promise<T>): Promise<T> =>
    around.database.transaction(async (tx) => {
      await ask(
        tx,
        `INSERT INTO connections (supplier_id, slot, owner, epoch, connected, heartbeat_at)
         VALUES ('sup_1', 0, 'nobody', 1, false, now()), ('sup_1', 1, 'nobody', 1, false, now())`,
      );
      return what();
    });

  const twoOwners = (): Promise<unknown> =>
    until("each has one", async () => {
      const owners = (await around.connections("sup_1")).filter((it) => it.connected).map((it) => it.owner);
      return owners.length === 2 && new Set(owners).size === 2;
    });

  it("is left to a second process also when that is said while it is being begun (B4)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 2 }] });
    await whileBeginning(async () => {
      const first = await around.openGateway();
      await untilWaiting(around.database, 2);
      await around.openGateway();
      await untilTurned(first, "slot_locks");
    });
    await twoOwners();
  });

  it("is left to a second process also when that is said while it waits to try again (B4)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 2 }] });
    await around.disturb({ refuseLogin: true });
    await around.openGateway();
    await until("both are refused", () => Promise.resolve(around.stats().refusedLogins === 2));
    await around.disturb({ refuseLogin: false });
    await around.openGateway();
    await until("the second has one", async () => {
      const [one, other] = await around.connections("sup_1");
      return one !== undefined && other !== undefined && one.owner !== other.owner;
    });
  });

  it("is made with what a supplier was edited to while it was being begun", async () => {
    around = await openSurroundings({ profiles: [{ connections: 2 }, { connections: 1 }] });
    await whileBeginning(async () => {
      const gateway = await around.openGateway();
      await untilWaiting(around.database, 2);
      await around.editProfile("sup_1", { port: around.port(2), spId: "900002" });
      await untilTurned(gateway, "supplier_edits");
    });
    await until("it is connected where it should", () => Promise.resolve(around.stats(2).connections === 3));
    expect(around.stats(1).logins).toBe(0);
  });
});

describe("PostgreSQL that comes and goes", () => {
  it.each([
    ["", () => Promise.resolve()],
    [" and links flap", () => around.disturb({ cut: true })],
  ])(
    "costs no command and doubles none, while statements are cut off wherever they are%s (C3)",
    async (_, also) => {
      await connected([{ connections: 2, window: 8, ratePerSecond: 300 }]);
      const disturb = () => Promise.all([dropBackends("waybill-gateway"), also()]);
      const texts = await meanwhile(60, disturb, () => around.texts(120));

      const answers = await around.untilAnswered(texts);
      await around.untilEmpty("chn_demo_1");
      await expectNothingTwice();
      const accepted = answers.get("accepted") ?? 0;
      expect(accepted + (answers.get("unknown") ?? 0)).toBe(120);
      expect((await around.timesByPart()).size).toBeGreaterThanOrEqual(accepted);
      if (around.stats().logins === 2) expect(accepted).toBe(120);
    },
  );

  it("may commit a take and die before it says so: the part is taken anew, and written once (C3)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }] });
    const way = await around.wayTo(around.databaseUrl);
    await around.openGateway({ databaseUrl: way.url });
    await around.untilConnected("sup_1", 1);
    way.loseAnswerTo("takes.take");
    await untilWrittenOnce(await around.texts(3));
    expect(way.lost()).toBe(true);
  });

  it("lets a gateway end in time while it is away, and the next one finds what it left (I)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1, window: 4, responseTimeoutMs: 1_000 }] });
    const way = await around.wayTo(around.databaseUrl);
    const gateway = await around.openGateway({ databaseUrl: way.url });
    await around.untilConnected("sup_1", 1);
    await around.disturb({ delayMs: 400 });
    const texts = await around.texts(12);
    await until("a window is written", () => Promise.resolve(around.stats().submits === 4));
    way.cut(true);

    const since = performance.now();
    await gateway.stop();
    expect(performance.now() - since).toBeLessThan(15_000);

    await around.disturb({ delayMs: 0 });
    await around.openGateway();
    await until("what nobody could store is unknown", async () => {
      await around.callUnknown(500);
      return (await around.pending("chn_demo_1")) === 0 && (await around.entries("chn_demo_1")) === 0;
    });
    const answers = await around.untilAnswered(texts);
    expect(answers.get("accepted")).toBeGreaterThanOrEqual(8);
    await expectNothingTwice();
  });

  it("takes the slots' locks with it, which are had again at once (B4)", async () => {
    await connected([{ connections: 2 }]);
    const before = around.stats().logins;
    await dropBackends("waybill-gateway-slots");
    await until("the locks are held again", async () => {
      const rows = await ask(
        around.database,
        `SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory'
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      );
      return rows.length === 2;
    });
    await untilWrittenOnce(await around.texts(5));
    // Nobody else had them: no connection was given up for it.
    expect(around.stats().logins).toBe(before);
  });

  it("shows another epoch to a slot that somebody else had meanwhile, and it begins anew (B4)", async () => {
    await connected([{ connections: 1 }]);
    const before = around.stats().logins;
    await ask(
      around.database,
      `UPDATE connections SET epoch = epoch + 1, owner = 'somebody', connected = false WHERE slot = 0`,
    );
    await until("the slot is begun again", async () => {
      const [row] = await around.connections("sup_1");
      return row?.connected === true && row.owner !== "somebody";
    });
    expect(around.stats().logins).toBe(before + 1);
    await untilWrittenOnce(await around.texts(5));
  });
});

describe("Redis", () => {
  it("that repeats commands has each entry acknowledged, the second one too (C4)", async () => {
    await connected([{ connections: 1 }]);
    await around.disturb({ delayMs: 300 });
    const texts = await around.texts(10);
    for (const text of texts) await around.publish(text);
    await around.untilAnswered(texts);
    // At once, and not only when they are claimed as abandoned.
    await around.untilEmpty("chn_demo_1", 1_500);
    await untilWrittenOnce(texts);
    for (const text of texts) await around.publish(text);
    await around.untilEmpty("chn_demo_1");
    await expectNothingTwice();
  });

  it("leaves to one gateway what it has in hand, however long the answer takes (C4)", async () => {
    await connected([{ connections: 2 }]);
    await around.openGateway();
    await around.disturb({ delayMs: 5_000 });
    const texts = await around.texts(4);
    let deliveries = 0;
    await until("they are answered", async () => {
      deliveries = Math.max(deliveries, await around.mostDeliveries("chn_demo_1"));
      return around.stats().submits === 4 && (await around.pending("chn_demo_1")) === 0;
    });
    expect(deliveries).toBe(1);
    await untilWrittenOnce(texts);
  });

  it("that lost its data is read again from the beginning, and what was taken is not sent twice (C3, C6)", async () => {
    await connected([{ connections: 1, ratePerSecond: 20 }]);
    await around.disturb({ delayMs: 300 });
    const texts = await around.texts(40);
    await until("some are written", () => Promise.resolve(around.stats().submits >= 5));
    await around.redis.del(commandStream(around.prefix, "chn_demo_1"));
    for (const text of texts) await around.publish(text);
    await untilWrittenOnce(texts);
  });

  it("never hears the acknowledgement, and the entry ends when it comes back (C4)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }] });
    const way = await around.wayTo(servers.redisUrl());
    await around.openGateway({ redisUrl: way.url });
    await around.untilConnected("sup_1", 1);
    await around.disturb({ delayMs: 500 });
    const text = await around.text();
    await until("it is written", () => Promise.resolve(around.stats().submits === 1));
    way.cut(true);
    await around.untilAnswered([text]);
    expect(await around.pending("chn_demo_1")).toBe(1);
    way.cut(false);
    await around.untilEmpty("chn_demo_1");
    await expectNothingTwice();
  });

  it("holds commands that nobody wants any more, which are acknowledged unwritten", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }] });
    const expired = await around.text();
    await passLimit(around.database, expired);
    await settled(around.database, expired);
    const foreign = await around.text();
    await ask(around.database, `UPDATE messages SET expires_at = now() - interval '1 second' WHERE id = $1`, [
      messageIdOf(foreign),
    ]);
    await around.openGateway();
    await around.untilEmpty("chn_demo_1");
    expect(around.stats().submits).toBe(0);
  });

  it("holds a command for a supplier that its channel left, which is dead and waits for a person (C7)", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }, { connections: 1 }] });
    const text = await around.text();
    await ask(around.database, `UPDATE channels SET supplier_id = 'sup_2' WHERE id = 'chn_demo_1'`);
    await around.openGateway();
    await around.untilEmpty("chn_demo_1");
    const rows = await ask(
      around.database,
      `SELECT status, last_error FROM submit_outbox WHERE submit_id = $1`,
      [submitIdOf(text)],
    );
    expect(rows).toEqual([{ status: "dead", last_error: "wrong_supplier" }]);
    expect([around.stats(1).submits, around.stats(2).submits]).toEqual([0, 0]);
  });
});

describe("an edited supplier", () => {
  it("is paced by its new rate at once, on the connections that it has", async () => {
    await connected([{ connections: 2, ratePerSecond: 10 }]);
    const before = around.stats().logins;
    const texts = await around.burst(100);
    await around.editProfile("sup_1", { ratePerSecond: 400 });
    await untilWrittenOnce(texts);
    // More within one second than ten a second would let pass.
    expect(around.stats().maxPerSecond).toBeGreaterThan(20);
    expect(around.stats().logins).toBe(before);
  });

  it("is left for its new address with what was written answered, and with more or fewer connections", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }, { connections: 1 }] });
    await around.openGateway();
    await around.untilConnected("sup_1", 1);
    await around.disturb({ delayMs: 400 });
    const texts = await around.texts(4);
    await until("they are written", () => Promise.resolve(around.stats().submits === 4));
    await around.editProfile("sup_1", { port: around.port(2), spId: "900002", connections: 2 });
    await until("it is connected elsewhere", () =>
      Promise.resolve(around.stats(1).connections === 0 && around.stats(2).connections === 3),
    );
    expect((await around.untilAnswered(texts)).get("accepted")).toBe(4);

    await around.editProfile("sup_1", { connections: 1 });
    await until("one connection is given up", () => Promise.resolve(around.stats(2).connections === 2));
    expect((await around.connections("sup_1")).map((it) => it.connected)).toEqual([true, false]);
  });

  it("with a profile that is not valid goes on with the old one, and its connections say why", async () => {
    await connected([{ connections: 1 }]);
    const before = around.stats().logins;
    await around.editProfile("sup_1", { port: 99_999, window: 0 });
    await until("it says why", async () => {
      const [row] = await around.connections("sup_1");
      return row?.connected === true && row.last_error === "profile_invalid: port, window";
    });
    await untilWrittenOnce(await around.texts(3));
    expect(around.stats().logins).toBe(before);

    await around.editProfile("sup_1", { port: around.port(1), window: 16 });
    await until("nothing is wrong any more", async () => {
      const [row] = await around.connections("sup_1");
      return row?.connected === true && row.last_error === null;
    });
  });

  it("and a new one, and a new channel, are served without a restart", async () => {
    around = await openSurroundings({ profiles: [{ connections: 1 }, { connections: 1, port: 0 }] });
    await around.openGateway();
    await around.untilConnected("sup_1", 1);
    await until("a supplier that never was valid says why", async () => {
      const [row] = await around.connections("sup_2");
      return row?.last_error === "profile_invalid: port";
    });
    await around.editProfile("sup_2", { port: around.port(2) });
    await around.untilConnected("sup_2", 1);
    await ask(
      around.database,
      `INSERT INTO suppliers (id, name, secret, profile) SELECT 'sup_9', 'new', secret, profile FROM suppliers WHERE id = 'sup_2'`,
    );
    await around.untilConnected("sup_9", 1);

    await ask(
      around.database,
      `WITH channel AS (
         INSERT INTO channels (id, supplier_id, name, operators, src_id)
         SELECT 'chn_new', 'sup_1', 'new', operators, '10690009' FROM channels WHERE id = 'chn_demo_1'),
       filing AS (
         INSERT INTO filings (id, signature_id, channel_id) VALUES ('fil_new', 'sig_demo', 'chn_new'))
       UPDATE attempts SET state = state`,
    );
    const text = await around.text();
    await ask(around.database, `UPDATE submit_outbox SET channel_id = 'chn_new' WHERE submit_id = $1`, [
      submitIdOf(text),
    ]);
    await around.publish(text);
    await around.untilEmpty("chn_new");
    await untilWrittenOnce([text]);
  });

  it("is sent GB characters from the next text on, in the parts that were paid for (cmpp §7)", async () => {
    await connected([{ connections: 1 }]);
    const said = `${"测".repeat(67)}试试试试`;
    const [to, after] = ["13800000071", "13800000072"];
    await around.untilAnswered([await around.text({ to, text: said })]);
    await around.editProfile("sup_1", { encoding: "gbk" });
    const wanted = await until("a text leaves in them", async () => {
      await around.untilAnswered([await around.text({ to: after, text: said })]);
      const parts = (await around.witnessed()).filter((it) => it.to === after);
      return (
        parts.at(-1)?.textHex.endsWith(Buffer.from("cad4", "hex").toString("hex")) === true && parts.slice(-2)
      );
    });
    expect((await around.witnessed()).filter((it) => it.to === to).map((it) => it.textHex.slice(12))).toEqual(
      ["6d4b".repeat(67), "8bd5".repeat(4)],
    );
    expect(wanted.map((it) => [it.part, it.parts, it.textHex.slice(12)])).toEqual([
      [1, 2, "b2e2".repeat(67)],
      [2, 2, "cad4".repeat(4)],
    ]);
  });

  it("names results that mean slower or leave the outcome open, from the next answer on", async () => {
    await connected([{ connections: 1, throttleResults: [8, 9], throttleBackoffMs: 200 }]);
    const slower = await around.text({ to: "13899990109" });
    await until("it is written again", async () => (await around.takesOf(slower)).length > 3);
    await around.editProfile("sup_1", { throttleResults: [8], uncertainResults: [9] });
    await around.untilAnswered([slower]);
    expect((await around.takesOf(slower)).at(-1)).toMatchObject({ answer: "unknown" });
  });
});
