import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openDatabase, statement, type Database, type Session } from "../db/client.ts";
import { newWebhookSecret } from "../db/keys.ts";
import {
  claimNotifications,
  parkOverdue,
  recordDelivered,
  recordFailed,
  replayNotification,
  replayNotifications,
  type ClaimRequest,
} from "../db/notifications.ts";
import { LADDER_SUM_MS, TRY_LADDER_MS } from "../domain/webhook.ts";
import {
  createNotifier,
  type Notifier,
  type NotifierOptions,
  type NotifierOutcome,
} from "../workers/notifier.ts";
import type { Log } from "../workers/service.ts";
import { freshDatabase, vault } from "./servers.ts";

const SECRET = newWebhookSecret();
const OLD_SECRET = newWebhookSecret();
const BODY = '{"type":"message.delivered","id":"evt_1","data":{"reference":"é 测"}}';
const silent: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

const eventually = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, 10_000);

let database: Database;
let receiver: Receiver;
let running: Notifier[] = [];
let outcomes: NotifierOutcome[] = [];

beforeAll(async () => {
  database = openDatabase(await freshDatabase(), "notifier", undefined, vault);
  await seedApplication("app_a");
  await seedApplication("app_b");
});

afterAll(() => database.close());

beforeEach(async () => {
  outcomes = [];
  receiver = await startReceiver();
  await sql("TRUNCATE notifications, notification_tries, webhook_hosts, webhook_gone");
});

afterEach(async () => {
  receiver.letGo();
  await Promise.all(running.map((notifier) => notifier.stop()));
  running = [];
  await receiver.close();
});

describe("a webhook call", () => {
  it("carries the stored bytes and a signature by each of two secrets (interfaces §3)", async () => {
    await due("evt_1", { application: "app_b" });
    await startNotifier();
    await statusOf("evt_1", "delivered");
    const [call] = receiver.calls;
    expect(call?.body.toString()).toBe(BODY);
    expect(call?.headers).toMatchObject({ "webhook-id": "evt_1", "content-type": "application/json" });
    for (const secret of [SECRET, OLD_SECRET]) {
      expect(() => new Webhook(secret).verify(call?.body ?? "", call?.headers ?? {})).not.toThrow();
    }
    expect(() => new Webhook(newWebhookSecret()).verify(call?.body ?? "", call?.headers ?? {})).toThrow();
    expect(await triesOf("evt_1")).toEqual([{ http_status: 200, error: null }]);
    await eventually(() => expect(outcomes).toEqual(["delivered"]));
  });

  it("is signed by the former secret for no longer than the overlap lasts", async () => {
    const until = (when: string) =>
      sql(`UPDATE applications SET webhook_secret_previous_until = now() ${when} WHERE id = 'app_b'`);
    const signaturesOf = (call: Call | undefined) => call?.headers["webhook-signature"]?.split(" ").length;
    await until("+ interval '1 hour'");
    await due("evt_1", { application: "app_b" });
    await startNotifier();
    await statusOf("evt_1", "delivered");
    await until("- interval '1 second'");
    await due("evt_2", { application: "app_b" });
    await statusOf("evt_2", "delivered");
    await sql(`UPDATE applications SET webhook_secret_previous_until = NULL`);
    expect(receiver.calls.map(signaturesOf)).toEqual([2, 1]);
  });

  it("is made again under the same id and with a signature of its own time (E1)", async () => {
    receiver.answer = (_, response) => response.writeHead(receiver.calls.length < 3 ? 500 : 204).end();
    await due("evt_1");
    await startNotifier();
    for (const tries of [1, 2]) {
      await expectTries("evt_1", tries);
      await timePasses();
    }
    await statusOf("evt_1", "delivered");
    expect(receiver.calls.map((call) => call.headers["webhook-id"])).toEqual(["evt_1", "evt_1", "evt_1"]);
    for (const call of receiver.calls) {
      expect(() => new Webhook(SECRET).verify(call.body, call.headers)).not.toThrow();
    }
    expect((await triesOf("evt_1")).map((one) => one.http_status)).toEqual([500, 500, 204]);
  });

  it("does not follow a redirect, which is a failure", async () => {
    receiver.answer = (_, response) => response.writeHead(302, { location: receiver.url("/other") }).end();
    await due("evt_1");
    await startNotifier();
    await expectTries("evt_1", 1);
    expect(await triesOf("evt_1")).toEqual([{ http_status: 302, error: "redirected" }]);
    expect(receiver.calls.map((call) => call.path)).toEqual(["/evt_1"]);
  });

  it("gives up an endpoint that never answers after the time for a whole call", async () => {
    receiver.answer = () => undefined;
    await due("evt_1");
    await startNotifier({ timeoutMs: 200 });
    await expectTries("evt_1", 1);
    expect(await triesOf("evt_1")).toEqual([{ http_status: null, error: "timeout" }]);
    const [took] = await rows<{ ms: number }>("SELECT duration_ms AS ms FROM notification_tries");
    expect(took?.ms).toBeLessThan(2_000);
  });

  it("takes a 2xx for delivery although its body never ends, and reads no more than a little", async () => {
    let sent = 0;
    receiver.answer = (_, response) => {
      response.writeHead(200);
      const pour = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384))) sent += 16_384;
      };
      response.on("drain", pour);
      pour();
    };
    await due("evt_1");
    await startNotifier();
    await statusOf("evt_1", "delivered");
    expect(sent).toBeLessThan(10_000_000);
  });

  it("is never made to loopback where nobody allowed that, and the try says why", async () => {
    await due("evt_1");
    await due("evt_2", { url: receiver.url("/two").replace("127.0.0.1", "localhost") });
    await startNotifier({ allowLoopback: false });
    await expectTries("evt_1", 1);
    await expectTries("evt_2", 1);
    expect(await triesOf("evt_1")).toEqual([{ http_status: null, error: "address_refused" }]);
    expect(receiver.connections).toBe(0);
  });

  it("is never made to a name that resolves inward", async () => {
    await due("evt_1", { url: receiver.url("/one").replace("127.0.0.1", "rebinding.example") });
    await startNotifier({ allowLoopback: false, resolve: () => Promise.resolve(["127.0.0.1"]) });
    await expectTries("evt_1", 1);
    expect(await triesOf("evt_1")).toEqual([{ http_status: null, error: "address_refused" }]);
    expect(receiver.connections).toBe(0);
  });

  it("goes over connections that are kept", async () => {
    for (let n = 0; n < 40; n++) await due(`evt_${n}`);
    await startNotifier();
    await eventually(() => expect(receiver.calls).toHaveLength(40));
    expect(receiver.connections).toBeLessThanOrEqual(16);
  });

  it("asks for a certificate of the name, not of the address that was checked", async () => {
    const greeted = new Promise<Buffer>((resolve) => receiver.onRaw(resolve));
    await due("evt_1", { url: receiver.url("/").replace("http://127.0.0.1", "https://hooks.example") });
    await startNotifier({ resolve: () => Promise.resolve(["127.0.0.1"]) });
    expect((await greeted).toString("latin1")).toContain("hooks.example");
    await expectTries("evt_1", 1);
    expect(receiver.calls).toEqual([]);
  });

  it("fails its try alone where a secret cannot sign", async () => {
    await sql("UPDATE applications SET webhook_secret = 'whsec_?' WHERE id = 'app_a'");
    try {
      await due("evt_1");
      await due("evt_2", { application: "app_b" });
      await startNotifier();
      await statusOf("evt_2", "delivered");
      await expectTries("evt_1", 1);
      expect(await triesOf("evt_1")).toEqual([{ http_status: null, error: "secret_unusable" }]);
      expect(await rows("SELECT host FROM webhook_hosts")).toEqual([]);
    } finally {
      await sql(`UPDATE applications SET webhook_secret = '${SECRET}' WHERE id = 'app_a'`);
    }
  });
});

describe("giving up, and beginning again (E3)", () => {
  it("parks after the last rung, with every try on record, and replays on request", async () => {
    receiver.answer = (_, response) => response.writeHead(500).end();
    await due("evt_1");
    await startNotifier();
    for (let tries = 1; tries <= TRY_LADDER_MS.length; tries++) {
      await expectTries("evt_1", tries);
      await timePasses();
    }
    await statusOf("evt_1", "parked");
    await eventually(() =>
      expect(outcomes).toEqual([...Array.from({ length: 9 }, () => "retried"), "parked"]),
    );
    expect(await replayNotification(database, "app_b", "evt_1")).toEqual({ kind: "not_found" });
    expect(await replayNotification(database, "app_a", "evt_1")).toEqual({ kind: "replayed" });
    await expectTries("evt_1", 11);
    await statusOf("evt_1", "pending");
    expect(await replayNotification(database, "app_a", "evt_1")).toEqual({ kind: "in_progress" });
  });

  it("replays a stretch of time, oldest first and page by page, and nothing that is still under way", async () => {
    for (const [index, id] of ["evt_1", "evt_2", "evt_3", "evt_4", "evt_5"].entries()) {
      await due(id, { dueMsAgo: -60_000 });
      await sql(`UPDATE notifications SET created_at = '2026-01-01T00:00:0${index}Z',
        status = '${id === "evt_3" ? "pending" : "parked"}' WHERE id = '${id}'`);
    }
    await due("evt_b", { application: "app_b" });
    await sql(
      `UPDATE notifications SET status = 'parked', created_at = '2026-01-01T00:00:01Z' WHERE id = 'evt_b'`,
    );
    const range = {
      since: "2026-01-01T00:00:01Z",
      until: "2026-01-01T00:00:04Z",
      status: ["parked"] as const,
    };

    const first = await replayNotifications(database, "app_a", { ...range, after: undefined, limit: 1 });
    expect(first).toEqual({ count: 1, last: { at: "2026-01-01T00:00:01.000000Z", id: "evt_2" } });
    const rest = await replayNotifications(database, "app_a", { ...range, after: first.last, limit: 9 });
    expect(rest).toMatchObject({ count: 1, last: { id: "evt_4" } });
    const none = await replayNotifications(database, "app_a", { ...range, after: rest.last, limit: 9 });
    expect(none).toEqual({ count: 0, last: undefined });
    expect(await rows("SELECT id FROM notifications WHERE status = 'parked' ORDER BY id")).toEqual([
      { id: "evt_1" },
      { id: "evt_5" },
      { id: "evt_b" },
    ]);
  });

  it("stops calling an address that answered 410 until a person replays (interfaces §3)", async () => {
    receiver.answer = (_, response) => response.writeHead(410).end();
    const url = receiver.url("/gone");
    await due("evt_1", { url });
    await startNotifier();
    await statusOf("evt_1", "disabled");
    await due("evt_2", { url });
    await due("evt_3", { url, application: "app_b" });
    await statusOf("evt_2", "disabled");
    await statusOf("evt_3", "disabled");
    expect(receiver.calls.map((call) => call.headers["webhook-id"])).toEqual(["evt_1", "evt_3"]);
    receiver.answer = (_, response) => response.writeHead(200).end();
    expect(await replayNotification(database, "app_a", "evt_2")).toEqual({ kind: "replayed" });
    await statusOf("evt_2", "delivered");
    await due("evt_4", { url });
    await statusOf("evt_4", "delivered");
  });

  it("parks what waits behind a host that failed for as long as the ladder, and nothing else", async () => {
    const overdue = { dueMsAgo: LADDER_SUM_MS + 60_000 };
    await due("evt_dead", { ...overdue, url: "http://dead.example/1" });
    await due("evt_young", { url: "http://dead.example/2" });
    await due("evt_back", { ...overdue, url: "http://back.example/" });
    await due("evt_fine", { ...overdue, url: "http://fine.example/" });
    await sql(`INSERT INTO webhook_hosts (application_id, host, failure_count, failing_since, paused_until) VALUES
      ('app_a', 'dead.example', 9, now() - interval '80 hours', now() + interval '1 minute'),
      ('app_a', 'back.example', 9, now() - interval '80 hours', now() - interval '1 minute')`);
    expect(await parkOverdue(database, LADDER_SUM_MS, 100)).toBe(1);
    expect(await rows("SELECT id FROM notifications WHERE status = 'parked'")).toEqual([{ id: "evt_dead" }]);
  });
});

describe("an endpoint that fails pauses itself, not the others (E3)", () => {
  it("claims the one good row in one poll behind 10,000 due rows of a dead endpoint", async () => {
    await backlog(10_000, "http://dead.example/");
    await due("evt_good", { url: "http://good.example/" });
    const claimed = await claimNotifications(database, claimOf("one", { limit: 8 }));
    expect(claimed.map((one) => one.id)).toContain("evt_good");
    expect(claimed).toHaveLength(3);
    await sql(
      `INSERT INTO webhook_hosts VALUES ('app_a', 'dead.example', 9, now(), now() + interval '1 hour')`,
    );
    await sql("UPDATE notifications SET next_try_at = now(), lease_owner = NULL");
    const again = await claimNotifications(database, claimOf("two", { limit: 8 }));
    expect(again.map((one) => one.id)).toEqual(["evt_good"]);
  });

  it("reads a bounded number of pages, however many hosts one application names", async () => {
    await backlog(20_000, "http://h", ".example/");
    await sql("ANALYZE notifications");
    expect(await pagesReadByClaim()).toBeLessThan(9_000);
  });

  it("comes to every host of an application in the end, and to another application at once (E3)", async () => {
    await backlog(700, "http://h", ".example/");
    await due("evt_other", { application: "app_b" });
    const claim = async (limit: number) =>
      (await claimNotifications(database, claimOf("t", { limit }))).map(({ id }) => id);
    const seen = new Set(await claim(2));
    expect(seen).toContain("evt_other");
    for (let claims = 0; seen.size < 701 && claims < 100; claims++) {
      for (const id of await claim(128)) seen.add(id);
    }
    expect(seen.size).toBe(701);
  });

  it("reads a claim's worth of pages, however long the backlog", async () => {
    await backlog(10_000, "http://dead.example/");
    await due("evt_good", { url: "http://good.example/" });
    await sql("ANALYZE notifications");
    for (const host of ["aaa.example", "eee.example"]) await due(`evt_${host}`, { url: `http://${host}/` });
    expect(await pagesReadByClaim()).toBeLessThan(250);
  });

  it("gives a host one call at a time while it fails, and counts what failed together once", async () => {
    await backlog(100, "http://dead.example/");
    const claimed = await claimNotifications(database, claimOf("one", { allowedAtFirst: 16 }));
    expect(claimed).toHaveLength(16);
    for (const one of claimed) await failed(one.id, "one");
    const [host] = await rows<HostRow>(
      "SELECT failure_count, paused_until > now() AS paused FROM webhook_hosts",
    );
    expect(host).toEqual({ failure_count: 6, paused: true });
    expect(await claimNotifications(database, claimOf("two"))).toEqual([]);
    await sql("UPDATE webhook_hosts SET paused_until = now()");
    expect(await claimNotifications(database, claimOf("three"))).toHaveLength(1);
  });

  it("doubles the pause with each failure in a row, up to five minutes, and forgets it with a success", async () => {
    await backlog(40, "http://dead.example/");
    const pauses: number[] = [];
    for (let n = 1; n <= 14; n++) {
      const [one] = await claimNotifications(database, claimOf(`t${n}`, { limit: 1 }));
      await failed(one?.id ?? "", `t${n}`);
      const [host] = await rows<{ ms: number }>(
        "SELECT (extract(epoch FROM greatest(paused_until - now(), '0')) * 1000)::float8 AS ms FROM webhook_hosts",
      );
      pauses.push(Math.round((host?.ms ?? 0) / 5_000));
      await sql("UPDATE webhook_hosts SET paused_until = now()");
    }
    expect(pauses).toEqual([0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
    const [one] = await claimNotifications(database, claimOf("well", { limit: 1 }));
    await recordDelivered(database, tryOf(one?.id ?? "", "well"));
    expect(await claimNotifications(database, claimOf("after", { allowedAtFirst: 16 }))).toHaveLength(16);
  });

  it("rests for the Retry-After that a host asks for, in one application alone", async () => {
    receiver.answer = (_, response) => response.writeHead(503, { "retry-after": "120" }).end();
    await due("evt_1");
    await startNotifier();
    await expectTries("evt_1", 1);
    await due("evt_2");
    await due("evt_3", { application: "app_b" });
    await expectTries("evt_3", 1);
    expect(receiver.calls.map((call) => call.headers["webhook-id"])).toEqual(["evt_1", "evt_3"]);
    const [row] = await rows<{ seconds: number }>(
      "SELECT extract(epoch FROM next_try_at - now())::float8 AS seconds FROM notifications WHERE id = 'evt_1'",
    );
    expect(row?.seconds).toBeGreaterThan(110);
  });

  it("delivers to others at once while an endpoint hangs, which holds two calls and no more", async () => {
    receiver.answer = (call, response) => {
      if (!call.path.startsWith("/hang")) response.writeHead(200).end();
    };
    await backlog(50, receiver.url("/hang"));
    await startNotifier();
    await eventually(() => expect(receiver.calls).toHaveLength(2));
    const good = await startReceiver();
    try {
      for (let n = 0; n < 20; n++) await due(`evt_good_${n}`, { url: good.url(`/${n}`) });
      await eventually(() => expect(good.calls).toHaveLength(20));
      expect(receiver.calls).toHaveLength(2);
    } finally {
      await Promise.all(running.map((notifier) => notifier.stop()));
      await good.close();
    }
  });

  it("leaves slots to others while any number of one application's hosts hang", async () => {
    receiver.answer = (call, response) => {
      if (call.path === "/good") response.writeHead(200).end();
    };
    for (let n = 0; n < 40; n++) {
      await due(`evt_${n}`, { url: receiver.url("/hang").replace("127.0.0.1", `host${n}.example`) });
    }
    await startNotifier({ slots: 16, resolve: () => Promise.resolve(["127.0.0.1"]) });
    await eventually(() => expect(receiver.calls).toHaveLength(12));
    await due("evt_good", { application: "app_b", url: receiver.url("/good") });
    await statusOf("evt_good", "delivered");
    expect(receiver.calls).toHaveLength(13);
  });

  it("comes to have sixteen calls with a host that takes them, and no more", async () => {
    receiver.answer = (_, response) => {
      if (receiver.calls.length <= 40) response.writeHead(200).end();
      else receiver.held.push(() => response.writeHead(200).end());
    };
    await backlog(100, receiver.url("/"));
    const notifier = await startNotifier();
    await eventually(() => expect(receiver.held).toHaveLength(16));
    const lookedAt = notifier.lastTurnAt();
    await eventually(() => expect(notifier.lastTurnAt()).toBeGreaterThan(lookedAt));
    expect(receiver.held).toHaveLength(16);
  });

  it("keeps within its slots over all hosts", async () => {
    receiver.answer = () => undefined;
    for (let n = 0; n < 8; n++) {
      const url = receiver.url("/").replace("127.0.0.1", `host${n}.example`);
      await due(`evt_${n}`, { url, application: n % 2 === 0 ? "app_a" : "app_b" });
    }
    await startNotifier({ slots: 3, resolve: () => Promise.resolve(["127.0.0.1"]) });
    await eventually(() => expect(receiver.calls).toHaveLength(3));
    const [claimed] = await rows<{ count: number }>(
      "SELECT count(*)::int FROM notifications WHERE lease_owner IS NOT NULL",
    );
    expect(claimed?.count).toBe(3);
  });
});

describe("a claim", () => {
  it("is offered again after its lease where its process vanished, and the late record changes nothing", async () => {
    await due("evt_1");
    const [first] = await claimNotifications(database, claimOf("vanished"));
    expect(first).toMatchObject({ id: "evt_1", takenOver: false, triesOnLadder: 1 });
    expect(await claimNotifications(database, claimOf("too early"))).toEqual([]);
    await timePasses();
    const [second] = await claimNotifications(database, claimOf("next"));
    expect(second).toMatchObject({ id: "evt_1", takenOver: true });
    expect(await recordDelivered(database, tryOf("evt_1", "vanished"))).toBe(false);
    expect(await failed("evt_1", "vanished")).toBe(false);
    expect(await triesOf("evt_1")).toEqual([]);
    expect(await recordDelivered(database, tryOf("evt_1", "next"))).toBe(true);
    expect(await recordDelivered(database, tryOf("evt_1", "next"))).toBe(false);
  });

  it("left behind by a killed process is delivered by the next one", async () => {
    await due("evt_1");
    await claimNotifications(database, claimOf("killed", { leaseMs: 300 }));
    await startNotifier();
    await statusOf("evt_1", "delivered");
    await eventually(() => expect(outcomes).toEqual(["taken_over", "delivered"]));
  });

  it("is won by one of two notifiers, so that each notification is called for once", async () => {
    await backlog(200, receiver.url("/"));
    await Promise.all([startNotifier(), startNotifier()]);
    await eventually(async () => {
      const [open] = await rows<{ count: number }>(
        "SELECT count(*)::int FROM notifications WHERE status <> 'delivered'",
      );
      expect(open?.count).toBe(0);
    });
    expect(new Set(receiver.calls.map((call) => call.headers["webhook-id"])).size).toBe(200);
    expect(receiver.calls).toHaveLength(200);
  });

  it("costs no second call where the database is away for a moment after the first", async () => {
    let refusals = 2;
    const flaky: Database = {
      ...database,
      run: (what, values) =>
        what.name === "notifications.record_delivered" && refusals-- > 0
          ? Promise.reject(new Error("connection lost"))
          : database.run(what, values),
    };
    await due("evt_1");
    await startNotifier({ database: flaky });
    await statusOf("evt_1", "delivered");
    expect(receiver.calls).toHaveLength(1);
    await eventually(() => expect(outcomes).toEqual(["delivered"]));
  });
});

describe("stopping", () => {
  it("waits for the call in hand and records it", async () => {
    receiver.answer = (_, response) => receiver.held.push(() => response.writeHead(200).end());
    await due("evt_1");
    const notifier = await startNotifier({ graceMs: 5_000 });
    await eventually(() => expect(receiver.held).toHaveLength(1));
    const stopped = notifier.stop();
    receiver.letGo();
    await stopped;
    await statusOf("evt_1", "delivered");
  });

  it("breaks off what hangs past the grace, leaves it to its lease, and can start again", async () => {
    receiver.answer = () => undefined;
    await due("evt_1");
    const notifier = await startNotifier({ graceMs: 50 });
    await eventually(() => expect(receiver.calls).toHaveLength(1));
    await notifier.stop();
    expect(await triesOf("evt_1")).toEqual([]);
    receiver.answer = (_, response) => response.writeHead(200).end();
    await timePasses();
    await notifier.start();
    await statusOf("evt_1", "delivered");
  });

  it("may be asked for twice, and before the start", async () => {
    const notifier = createNotifier({ database, log: silent, allowLoopback: true });
    await notifier.stop();
    await notifier.start();
    await notifier.start();
    await notifier.stop();
    await notifier.stop();
  });

  it("refuses a lease that its own call could outlast", () => {
    const options = { database, log: silent, allowLoopback: true, timeoutMs: 30_000, leaseMs: 30_000 };
    expect(() => createNotifier(options)).toThrow(RangeError);
  });
});

// ---- the customer's side ------------------------------------------------------------------------

interface Call {
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

interface Receiver {
  calls: Call[];
  connections: number;
  /** Answers that a test holds back. */
  held: (() => void)[];
  letGo(): void;
  answer: (call: Call, response: ServerResponse) => unknown;
  url(path: string): string;
  /** Hands out the first bytes that come over a connection, as they came. */
  onRaw(take: (bytes: Buffer) => void): void;
  close(): Promise<void>;
}

async function startReceiver(): Promise<Receiver> {
  const server = createServer();
  const it: Receiver = {
    calls: [],
    connections: 0,
    held: [],
    letGo: () => it.held.splice(0).forEach((go) => go()),
    answer: (_, response) => response.writeHead(200).end(),
    url: (path) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    onRaw: (take) => server.once("connection", (socket: Socket) => socket.once("data", take)),
    close: () => closed(server),
  };
  server.on("connection", () => it.connections++);
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const headers = request.headers as Record<string, string>;
      const call = { path: request.url ?? "", headers, body: Buffer.concat(chunks) };
      it.calls.push(call);
      it.answer(call, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return it;
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

// ---- our side -----------------------------------------------------------------------------------

async function startNotifier(options: Partial<NotifierOptions> = {}): Promise<Notifier> {
  const notifier = createNotifier({
    database,
    log: silent,
    allowLoopback: true,
    onOutcome: (outcome) => outcomes.push(outcome),
    pollMs: 20,
    graceMs: 200,
    ...options,
  });
  running.push(notifier);
  await notifier.start();
  return notifier;
}

const claimOf = (token: string, wanted: Partial<ClaimRequest> = {}): ClaimRequest => ({
  token,
  limit: 100,
  leaseMs: 60_000,
  allowedAtFirst: 2,
  loads: [],
  crowded: [],
  ...wanted,
});

const tryOf = (id: string, token: string) => ({ id, token, httpStatus: 200, error: null, durationMs: 1 });

const failed = (id: string, token: string): Promise<boolean> =>
  recordFailed(
    database,
    { id, token, httpStatus: 500, error: "server_failed", durationMs: 1 },
    { failed: true, restMs: 0, borne: 5, firstPauseMs: 5_000, longestPauseMs: 300_000 },
    LADDER_SUM_MS,
  );

interface HostRow {
  failure_count: number;
  paused: boolean;
}

interface Due {
  application?: string;
  url?: string;
  dueMsAgo?: number;
}

async function due(id: string, { application = "app_a", url, dueMsAgo = 0 }: Due = {}): Promise<void> {
  await database.run(
    statement(
      "test.due",
      `INSERT INTO notifications (id, message_id, application_id, url, body_sealed, next_try_at)
       VALUES ($1, $2, $3, $4, $5, now() - $6::float8 * interval '1 ms')`,
    ),
    [id, await messageOf(id), application, url ?? receiver.url(`/${id}`), bodyOf(id), dueMsAgo],
  );
}

const bodyOf = (id: string, body = BODY): Buffer => vault.seal("notifications.body", id, body);

/** The message of a notification, by its id: the ids of both begin alike. */
async function messageOf(id: string): Promise<string> {
  const message = `msg_${id.slice(4)}`;
  await sql(`INSERT INTO messages (id, enterprise_id, application_id, account_id, number_hash, number_sealed,
      text_sealed, encoding, segment_count, unit_price_units, price_units, currency, current_attempt_id, expires_at)
    VALUES ('${message}', 'ent', 'app_a', 'acc', '', '', '', 'ascii', 1, 325, 325, 'CNY', 'att', now())
    ON CONFLICT DO NOTHING`);
  return message;
}

/** Due for an hour, at `url` with their number behind it and then `rest`. */
async function backlog(count: number, url: string, rest = ""): Promise<void> {
  const message = await messageOf("evt_backlog");
  const bodies = Array.from({ length: count }, (_, n) => bodyOf(`evt_backlog_${n + 1}`, "{}"));
  await database.run(
    statement(
      "test.backlog",
      `INSERT INTO notifications (id, message_id, application_id, url, body_sealed, next_try_at)
       SELECT 'evt_backlog_' || n, $1, 'app_a', $2 || n || $4, body, now() - interval '1 hour'
         FROM unnest($3::bytea[]) WITH ORDINALITY AS t(body, n)`,
    ),
    [message, url, bodies, rest],
  );
}

async function seedApplication(id: string): Promise<void> {
  const previous = id === "app_b" ? `'${OLD_SECRET}'` : "NULL";
  await sql(`INSERT INTO enterprises (id, name) VALUES ('ent', 'e') ON CONFLICT DO NOTHING`);
  await sql(
    `INSERT INTO accounts (id, enterprise_id, currency) VALUES ('acc', 'ent', 'CNY') ON CONFLICT DO NOTHING`,
  );
  await sql(`INSERT INTO channel_groups (id, name) VALUES ('grp', 'g') ON CONFLICT DO NOTHING`);
  await sql(`INSERT INTO applications (id, enterprise_id, account_id, channel_group_id, name, unit_price_units,
      webhook_secret, webhook_secret_previous)
    VALUES ('${id}', 'ent', 'acc', 'grp', 'a', 325, '${SECRET}', ${previous})`);
}

const rows = <Row>(text: string): Promise<Row[]> => database.run<Row>({ name: "", text });
const sql = async (text: string): Promise<void> => void (await rows(text));

/** Every rung and every lease of what is pending is over. */
const timePasses = (): Promise<void> =>
  sql(`WITH back AS (UPDATE webhook_hosts SET paused_until = now())
       UPDATE notifications SET next_try_at = now() WHERE status = 'pending'`);

const triesOf = (id: string): Promise<{ http_status: number | null; error: string | null }[]> =>
  rows(
    `SELECT http_status, error FROM notification_tries WHERE notification_id = '${id}' ORDER BY try_number`,
  );

const expectTries = (id: string, count: number): Promise<void> =>
  eventually(async () => expect(await triesOf(id)).toHaveLength(count));

const statusOf = (id: string, status: string): Promise<void> =>
  eventually(async () =>
    expect(await rows(`SELECT status FROM notifications WHERE id = '${id}'`)).toEqual([{ status }]),
  );

interface Explained {
  "QUERY PLAN": [{ Plan: { "Shared Hit Blocks": number; "Shared Read Blocks": number } }];
}

/** Pages that PostgreSQL touched for one claim, planned as it is after its first few uses; rolled back. */
async function pagesReadByClaim(): Promise<number> {
  let pages = Infinity;
  await expect(
    database.transaction(async (tx) => {
      const explaining: Session = {
        vault,
        run: async (what, values = []) => {
          const given = values.map((value) => (Array.isArray(value) ? "'{}'" : `'${String(value)}'`));
          await tx.run({ name: "", text: `PREPARE claim AS ${what.text}` });
          await tx.run({ name: "", text: "SET LOCAL plan_cache_mode = force_generic_plan" });
          const text = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE claim (${given.join(", ")})`;
          const [answer] = await tx.run<Explained>({ name: "", text });
          const plan = answer?.["QUERY PLAN"][0].Plan;
          if (plan !== undefined) pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"];
          await tx.run({ name: "", text: "DEALLOCATE claim" });
          return [];
        },
      };
      await claimNotifications(explaining, claimOf("explained", { limit: 8 }));
      throw new Error("only looked");
    }),
  ).rejects.toThrow("only looked");
  return pages;
}
