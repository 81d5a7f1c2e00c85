/** The operators' side on real servers; every answer is held against the OpenAPI document. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { publishBatch } from "../activities/publish.ts";
import { selectMessagesAnywhere } from "../db/ops.ts";
import { claimOwnCommands, markDead } from "../db/outbox.ts";
import { selectMessages } from "../db/queries.ts";
import { COMMAND_VERSION } from "../domain/command.ts";
import type { DifferenceKind } from "../domain/reconcile.ts";
import { type AttemptId, messageIdOf, submitIdOf } from "../domain/ids.ts";
import {
  commandStream,
  ENTRY_FIELDS,
  GATEWAY_GROUP,
  openStreams,
  openStreamSurvey,
  type Streams,
} from "../gateway-bridge/streams.ts";
import { listOf, startApi, textOf, type Answer, type ApiClient, type Json } from "./api-client.ts";
import {
  ask,
  connect,
  openSender,
  queuedAttempt,
  receipt,
  receiptFor,
  reservedMessage,
  response,
  settled,
  store,
  told,
  written,
} from "./facts.ts";
import { servers, uniqueName } from "./servers.ts";

const prefix = `${uniqueName("ops")}:`;
let api: ApiClient;
let streams: Streams;
let redis: Redis;

beforeAll(async () => {
  api = await startApi({
    openSurvey: () => openStreamSurvey(servers.redisUrl(), prefix),
    resolveReview: (attemptId, it) => Promise.resolve({ effect: `${attemptId} ${it.action} by ${it.by}` }),
  });
  for (const supplier of ["sup_1", "sup_2", "sup_3"]) await connect(api.database, supplier);
  streams = openStreams(servers.redisUrl(), prefix);
  redis = new Redis(servers.redisUrl());
});
afterAll(async () => {
  const keys = await redis.keys(`${prefix}*`);
  if (keys.length > 0) await redis.del(...keys);
  redis.disconnect();
  await streams.close();
  await api.close();
});

const get = (path: string, key = api.viewerToken): Promise<Answer> =>
  api.call("GET", `/ops/v1/${path}`, { key });
const change = (method: string, path: string, body?: unknown, key = api.opsToken): Promise<Answer> =>
  api.call(method, `/ops/v1/${path}`, { key, body });

/** Action, note and effect of what was done to a subject, newest first. */
const auditOf = async (subject: string): Promise<Json[]> =>
  listOf((await get(`audit?subject=${subject}`)).body["entries"]);

describe("who is let in", () => {
  const addresses = [
    ["GET", "overview"],
    ["GET", "books"],
    ["GET", "channels"],
    ["GET", "reconcile"],
    ["GET", "alerts"],
    ["GET", "reviews"],
    ["GET", "anomalies"],
    ["GET", "unmatched"],
    ["GET", "messages"],
    ["GET", "audit"],
    ["GET", "publication"],
    ["PUT", "publication"],
    ["PATCH", "channels/chn_demo_1"],
    ["PATCH", "applications/app_demo"],
    ["PATCH", "filings/fil_demo_1"],
    ["POST", "accounts/acc_demo/top-up"],
    ["POST", "alerts/alr_1/clear"],
    ["POST", "reviews/att_00000000000000000000000000_1/resolve"],
  ] as const;

  it.each(addresses)(
    "%s %s takes no customer's key, no unknown token and none at all",
    async (method, path) => {
      for (const key of [api.demoKey, "wbo_unknown", null]) {
        const answer = await api.call(method, `/ops/v1/${path}`, { key });
        expect(answer).toMatchObject({ status: 401, body: { code: "invalid_token" } });
        expect(answer.headers.get("www-authenticate")).toContain("Bearer");
      }
    },
  );

  it("lets no token of a person pass for a customer's key", async () => {
    for (const key of [api.opsToken, api.viewerToken]) {
      const answer = await api.call("GET", "/v1/account", { key });
      expect(answer).toMatchObject({ status: 401, body: { code: "invalid_api_key" } });
    }
  });

  it("shuts a disabled token out", async () => {
    await api.sql("UPDATE ops_tokens SET active = false WHERE id = 'tok_viewer'");
    expect((await get("books")).status).toBe(401);
    await api.sql("UPDATE ops_tokens SET active = true WHERE id = 'tok_viewer'");
    expect((await get("books")).status).toBe(200);
  });

  it.each(addresses.filter(([method]) => method !== "GET"))(
    "%s %s: a viewer changes nothing, and no audit row says so",
    async (method, path) => {
      const before = await api.countOf("audit_log");
      const body = { active: false, mode: "paused", key: "k", units: 1, action: "wait" };
      expect(await change(method, path, body, api.viewerToken)).toMatchObject({
        status: 403,
        body: { code: "forbidden" },
      });
      expect(await api.countOf("audit_log")).toBe(before);
    },
  );

  it("keeps what it shows out of caches, and answers other methods with 405", async () => {
    expect((await get("messages")).headers.get("cache-control")).toBe("no-store");
    expect(await change("DELETE", "channels/chn_demo_1")).toMatchObject({ status: 405 });
    expect(await get("nothing")).toMatchObject({ status: 404 });
  });
});

describe("channels", () => {
  it("shows supplier, place in the group, rate and connections; a stale heartbeat is no connection (B4)", async () => {
    await api.sql(
      "UPDATE connections SET heartbeat_at = now() - interval '11 s', last_error = 'auth' WHERE supplier_id = 'sup_3'",
    );
    const { body } = await get("channels");
    const [first, , third] = listOf(body["channels"]);
    expect(first).toMatchObject({
      id: "chn_demo_1",
      active: true,
      supplier: { id: "sup_1", active: true },
      ratePerSecond: 200,
      window: 16,
      connectionsWanted: 2,
      groups: [{ id: "grp_demo", priority: 10, weight: 1 }],
      connections: [{ slot: 1, connected: true, windowInUse: 0, lastError: null }],
    });
    const [stale] = listOf(third?.["connections"]);
    expect(stale).toMatchObject({ connected: false, lastError: "auth" });
    expect(Number(stale?.["heartbeatAgeMs"])).toBeGreaterThan(10_000);
    await connect(api.database, "sup_3");
  });

  it("disables and enables with a row that says who, why and what came of it", async () => {
    const off = await change("PATCH", "channels/chn_demo_2", { active: false, note: "complaints" });
    expect(off).toMatchObject({ status: 200, body: { active: false, effect: "disabled" } });
    const again = await change("PATCH", "channels/chn_demo_2", { active: false });
    expect(again.body["effect"]).toBe("none: it was disabled already");
    const on = await change("PATCH", "channels/chn_demo_2", { active: true });
    expect(on).toMatchObject({ body: { active: true, effect: "enabled" } });
    expect(await auditOf("chn_demo_2")).toMatchObject([
      { actor: "tok_operator", action: "enable", note: null, effect: "enabled" },
      { action: "disable", effect: "none: it was disabled already" },
      { actor: "tok_operator", action: "disable", note: "complaints", effect: "disabled" },
    ]);
  });

  it("stops the next batch and not the one before (B1)", async () => {
    await queuedAttempt(api.database, { channel: 2 });
    await change("PATCH", "channels/chn_demo_2", { active: false });
    await expect(queuedAttempt(api.database, { channel: 2 })).rejects.toThrow("not queued");
    await change("PATCH", "channels/chn_demo_2", { active: true });
    await queuedAttempt(api.database, { channel: 2 });
  });

  it("sets the rate of the supplier account and leaves the rest of its profile (B5)", async () => {
    const [before] = await api.sql<{ profile: object }>("SELECT profile FROM suppliers WHERE id = 'sup_3'");
    const answer = await change("PATCH", "channels/chn_demo_3", { ratePerSecond: 50, active: true });
    expect(answer.body).toMatchObject({
      ratePerSecond: 50,
      effect: "none: it was enabled already; rate of sup_3 changed from 200 to 50 parts a second",
    });
    const [after] = await api.sql<{ profile: object }>("SELECT profile FROM suppliers WHERE id = 'sup_3'");
    expect(after?.profile).toEqual({ ...before?.profile, ratePerSecond: 50 });
    expect(await auditOf("chn_demo_3")).toMatchObject([{ action: "set_rate" }, { action: "enable" }]);
  });

  it.each([
    [{}, "invalid_field"],
    [{ note: "nothing else" }, "invalid_field"],
    [{ active: "no" }, "invalid_field"],
    [{ ratePerSecond: 0 }, "invalid_field"],
    [{ ratePerSecond: 1.5 }, "invalid_field"],
    [{ active: true, name: "x" }, "unknown_field"],
    [undefined, "invalid_field"],
  ])("refuses %j", async (body, code) => {
    expect(await change("PATCH", "channels/chn_demo_1", body)).toMatchObject({ status: 400, body: { code } });
  });

  it("knows no other channel, and audits nothing for it", async () => {
    const before = await api.countOf("audit_log");
    const answer = await change("PATCH", "channels/chn_none", { active: false, ratePerSecond: 1 });
    expect(answer).toMatchObject({ status: 404, body: { code: "not_found" } });
    expect(await api.countOf("audit_log")).toBe(before);
  });
});

describe("applications and filings", () => {
  it.each([
    ["applications/app_demo", "app_demo"],
    ["filings/fil_demo_1", "fil_demo_1"],
  ])("%s: no attempt is queued while it is off (B3)", async (path, subject) => {
    expect(await change("PATCH", path, { active: false, note: "why" })).toMatchObject({
      status: 200,
      body: { id: subject, active: false, effect: "disabled" },
    });
    await expect(queuedAttempt(api.database)).rejects.toThrow("not queued");
    expect((await change("PATCH", path, { active: true })).body).toMatchObject({ effect: "enabled" });
    await queuedAttempt(api.database);
    expect(await auditOf(subject)).toMatchObject([
      { action: "enable" },
      { action: "disable", note: "why", effect: "disabled" },
    ]);
  });

  it("knows no other", async () => {
    expect((await change("PATCH", "applications/app_none", { active: true })).status).toBe(404);
    expect((await change("PATCH", "filings/fil_none", { active: true })).status).toBe(404);
  });
});

describe("money in", () => {
  const topUp = (account: string, body: unknown): Promise<Answer> =>
    change("POST", `accounts/${account}/top-up`, body);
  const balanceOf = async (account: string): Promise<bigint | undefined> =>
    (
      await api.sql<{ balance_units: bigint }>("SELECT balance_units FROM accounts WHERE id = $1", [account])
    )[0]?.balance_units;

  it("moves once per key, however often it is asked, also at once (D13)", async () => {
    const { accountId } = await openSender(api.database, 0n);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => topUp(accountId, { key: "march", units: 700, note: "invoice 7" })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(await balanceOf(accountId)).toBe(700n);
    expect(answers[0]?.body).toMatchObject({
      accountId,
      key: "march",
      units: 700,
      balance: { units: 700, currency: "CNY" },
      held: { units: 0 },
    });
    const effects = answers.map(({ body }) => textOf(body["effect"]));
    expect(effects.filter((effect) => !effect.startsWith("none"))).toEqual([
      "700 units in under the key march",
    ]);
    expect(await auditOf(accountId)).toHaveLength(8);
  });

  it("refuses the key for another amount or another account, and moves nothing", async () => {
    const { accountId } = await openSender(api.database, 0n);
    const other = await openSender(api.database, 0n);
    await topUp(accountId, { key: "april", units: 5 });
    for (const answer of [
      await topUp(accountId, { key: "april", units: 6 }),
      await topUp(other.accountId, { key: "april", units: 5 }),
    ]) {
      expect(answer).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
    }
    expect(await balanceOf(accountId)).toBe(5n);
    expect(await balanceOf(other.accountId)).toBe(0n);
    expect(await auditOf(other.accountId)).toMatchObject([
      { action: "top_up", effect: "none: the key april belongs to another top-up" },
    ]);
  });

  it.each([{ units: 0 }, { units: -5 }, { units: 1.5 }, { units: "5" }, { key: "" }, { key: "a b" }])(
    "refuses %j",
    async (wrong) => {
      const answer = await topUp("acc_demo", { key: "wrong", units: 5, ...wrong });
      expect(answer).toMatchObject({ status: 400, body: { code: "invalid_field" } });
    },
  );

  it("knows no other account", async () => {
    expect((await topUp("acc_none", { key: "nobody", units: 5 })).status).toBe(404);
  });
});

describe("the books (L4)", () => {
  it("balance, and say where they do not", async () => {
    const sound = await get("books");
    expect(sound.body).toMatchObject({ balanced: true, differences: [] });
    await api.sql("UPDATE accounts SET balance_units = balance_units + 1 WHERE id = 'acc_demo'");
    const [wrong] = listOf((await get("books")).body["differences"]);
    await api.sql("UPDATE accounts SET balance_units = balance_units - 1 WHERE id = 'acc_demo'");
    expect(wrong).toMatchObject({ accountId: "acc_demo", what: "balance" });
    expect(Number(wrong?.["stored"])).toBe(Number(wrong?.["summed"]) + 1);
  });

  it("carry what no number of JSON can as digits", async () => {
    const { accountId } = await openSender(api.database, 9_100_000_000_000_000_000n);
    await api.sql(
      `INSERT INTO ledger_transfers (key, kind, account_id, message_id, debit_pot, credit_pot, units)
       SELECT 'reserve:huge', 'reserve', $1, id, 'balance', 'held', 9007199254740993 FROM messages LIMIT 1`,
      [accountId],
    );
    const { body } = await get("books");
    await api.sql("DELETE FROM ledger_transfers WHERE key = 'reserve:huge'");
    expect(body["reserved"]).toMatch(/^90071\d{11}$/);
  });
});

describe("publication (C5, H)", () => {
  it("stores the mode that an operator set, with who did it", async () => {
    expect((await get("publication")).body).toMatchObject({ mode: "live" });
    const paused = await change("PUT", "publication", { mode: "paused", note: "supplier asked" });
    expect(paused.body).toMatchObject({
      mode: "paused",
      changedBy: "tok_operator",
      effect: "changed from live to paused",
    });
    const same = await change("PUT", "publication", { mode: "paused" });
    expect(same.body).toMatchObject({
      changedAt: paused.body["changedAt"],
      effect: "none: it was paused already",
    });
    await change("PUT", "publication", { mode: "live" });
    expect(await auditOf("publication")).toMatchObject([
      { effect: "changed from paused to live" },
      { effect: "none: it was paused already" },
      { effect: "changed from live to paused", note: "supplier asked" },
    ]);
  });

  it("lets no command through while it is paused, and goes on when it is live again", async () => {
    const attempt = await queuedAttempt(api.database);
    await change("PUT", "publication", { mode: "paused" });
    expect(await claimOwnCommands(api.database, "t", [attempt])).toEqual([]);
    await change("PUT", "publication", { mode: "live" });
    expect(await claimOwnCommands(api.database, "t", [attempt])).toHaveLength(1);
  });

  it("can be of one application alone, until that inherits the mode of all again", async () => {
    const other = await openSender(api.database, 1_000_000n);
    const attempts = [
      await queuedAttempt(api.database),
      await queuedAttempt(api.database, { sender: other }),
    ];
    const claimed = async () =>
      (await claimOwnCommands(api.database, "t", attempts)).map(({ attemptId }) => attemptId);
    const application = other.applicationId;

    const held = await change("PUT", "publication", { mode: "shadow", application, note: "first of all" });
    expect(held.body).toMatchObject({
      mode: "live",
      applications: [{ id: application, mode: "shadow", changedBy: "tok_operator" }],
      effect: "changed from inherit to shadow",
    });
    expect(await claimed()).toEqual([attempts[0]]);
    expect((await change("PUT", "publication", { mode: "shadow", application })).body).toMatchObject({
      applications: [{ changedAt: listOf(held.body["applications"])[0]?.["changedAt"] }],
      effect: "none: it was shadow already",
    });
    const inherits = await change("PUT", "publication", { mode: "inherit", application });
    expect(inherits.body).toMatchObject({ applications: [], effect: "changed from shadow to inherit" });
    expect((await claimed()).sort()).toEqual([...attempts].sort());
    expect((await change("PUT", "publication", { mode: "inherit", application })).body).toMatchObject({
      effect: "none: it was inherit already",
    });
    expect(await auditOf(application)).toHaveLength(4);
  });

  it.each([
    [{ mode: "off" }, 400],
    [{ mode: "inherit" }, 400],
    [{ mode: "live", application: "app_none" }, 404],
  ])("refuses %o: %i", async (body, status) => {
    expect((await change("PUT", "publication", body)).status).toBe(status);
  });

  it("is live where nothing was ever stored", async () => {
    await api.sql("DELETE FROM publication");
    expect((await get("publication")).body).toEqual({
      mode: "live",
      changedBy: null,
      changedAt: null,
      applications: [],
    });
    expect((await change("PUT", "publication", { mode: "live" })).body).toMatchObject({ mode: "live" });
  });
});

describe("alerts (K)", () => {
  const raise = async (kind: string): Promise<string> => {
    const [row] = await api.sql<{ id: bigint }>(
      "INSERT INTO alerts (kind, subject, detail) VALUES ($1, 'att_x', 'stalled') RETURNING id",
      [kind],
    );
    return `alr_${row?.id}`;
  };
  const open = async (): Promise<unknown[]> =>
    listOf((await get("alerts")).body["alerts"]).map(({ id }) => id);

  it("stay until a person clears them; clearing twice changes nothing", async () => {
    const id = await raise("step_overdue");
    expect(await open()).toContain(id);
    const cleared = await change("POST", `alerts/${id}/clear`, { note: "seen" });
    expect(cleared.body).toMatchObject({ id, clearedBy: "tok_operator", effect: "cleared" });
    expect((await change("POST", `alerts/${id}/clear`)).body).toMatchObject({
      clearedAt: cleared.body["clearedAt"],
      effect: "none: tok_operator cleared it before",
    });
    expect(await open()).not.toContain(id);
    expect((await get("alerts?state=cleared")).text).toContain(id);
    expect(await auditOf(id)).toMatchObject([{ note: null }, { note: "seen", effect: "cleared" }]);
  });

  it("are paged without a gap", async () => {
    const ids = [await raise("a"), await raise("b"), await raise("c")].reverse();
    const first = await get("alerts?limit=2");
    const second = await get(`alerts?limit=2&cursor=${textOf(first.body["nextCursor"])}`);
    const listed = [first, second].flatMap(({ body }) => listOf(body["alerts"]).map(({ id }) => id));
    expect(listed.slice(0, 3)).toEqual(ids);
  });

  it.each(["alr_999999", "alr_x", "msg_1"])("knows no %s", async (id) => {
    expect((await change("POST", `alerts/${id}/clear`)).status).toBe(404);
  });
});

describe("reviews (D12)", () => {
  it("lists who waits for a person, the longest first, and not who was told to wait longer", async () => {
    const [late, early, waiting] = [
      await queuedAttempt(api.database),
      await reservedMessage(api.database),
      await queuedAttempt(api.database),
    ];
    for (const [attempt, since, told] of [
      [late, "1 min", null],
      [early, "2 min", null],
      [waiting, "3 min", "now"],
    ] as const) {
      await api.sql(
        `INSERT INTO reviews (attempt_id, message_id, reason, since, waiting_since)
         VALUES ($1, $2, 'outcome_unknown', now() - $3::interval, $4)`,
        [attempt, messageIdOf(attempt), since, told],
      );
    }
    const listed = listOf((await get("reviews")).body["reviews"]);
    expect(listed).toMatchObject([
      { attemptId: early, channelId: null, reason: "outcome_unknown", status: "accepted" },
      { attemptId: late, channelId: "chn_demo_1", messageId: messageIdOf(late), status: "queued" },
    ]);
    const first = await get("reviews?limit=1");
    const next = await get(`reviews?limit=1&cursor=${textOf(first.body["nextCursor"])}`);
    expect(listOf(next.body["reviews"])).toMatchObject([{ attemptId: late }]);
    expect(next.body["nextCursor"]).toBeNull();
  });

  it("hands a decision on with the name of who made it", async () => {
    const id = "att_00000000000000000000000000_2";
    const answer = await change("POST", `reviews/${id}/resolve`, { action: "mark_failed", note: "n" });
    expect(answer.body).toEqual({ attemptId: id, effect: `${id} mark_failed by tok_operator` });
    expect((await change("POST", `reviews/${id}/resolve`, { action: "guess" })).status).toBe(400);
    expect((await change("POST", "reviews/att_1/resolve", { action: "wait" })).status).toBe(404);
  });

  it("says that it cannot now where nothing resolves", async () => {
    const bare = await startApi();
    for (const [method, path] of [
      ["POST", "reviews/att_00000000000000000000000000_2/resolve"],
      ["GET", "reconcile"],
    ] as const) {
      const body = method === "POST" ? { action: "wait" } : undefined;
      const answer = await bare.call(method, `/ops/v1/${path}`, { key: bare.opsToken, body });
      expect(answer).toMatchObject({ status: 503, body: { code: "temporarily_unavailable" } });
    }
    await bare.close();
  });
});

describe("odd supplier events (D8, D14)", () => {
  it("lists what belongs to nothing we know until it is matched", async () => {
    const attempt = await queuedAttempt(api.database);
    await written(api.database, attempt);
    await told(
      api.database,
      receipt("00000000abcdef01", "13900001111"),
      await receiptFor(api.database, attempt),
    );
    const before = listOf((await get("unmatched")).body["receipts"]);
    expect(before).toHaveLength(2);
    expect(before.at(-1)).toMatchObject({
      kind: "receipt",
      supplierId: "sup_1",
      msgId: "00000000abcdef01",
      number: "139****1111",
      stat: "DELIVRD",
      tries: 1,
    });
    await told(api.database, response(attempt));
    // What nobody has looked into yet is not unmatched, and neither is an answer.
    await store(
      api.database,
      receipt("00000000abcdef02", "13900001111"),
      response(attempt, { resultCode: 9 }),
    );
    const first = await get("unmatched?limit=1");
    expect(listOf(first.body["receipts"])).toMatchObject([{ msgId: "00000000abcdef01" }]);
    expect(first.body["nextCursor"]).toBeNull();
  });

  it("lists a late receipt that contradicts the decision, with the event itself", async () => {
    const attempt = await queuedAttempt(api.database);
    await written(api.database, attempt);
    await told(api.database, response(attempt), await receiptFor(api.database, attempt));
    await settled(api.database, attempt);
    await told(api.database, await receiptFor(api.database, attempt, { stat: "UNDELIV" }));
    const [anomaly] = listOf((await get("anomalies?limit=1")).body["anomalies"]);
    expect(anomaly).toMatchObject({
      kind: "late_receipt_contradicts",
      attemptId: attempt,
      messageId: messageIdOf(attempt),
      event: { kind: "receipt", stat: "UNDELIV" },
    });
  });
});

describe("messages of every application", () => {
  it("are found by the customers' filters, newest first, page by page", async () => {
    const other = await openSender(api.database, 1_000_000n);
    const made: AttemptId[] = [];
    for (const sender of [undefined, other, undefined, other]) {
      made.push(await reservedMessage(api.database, { to: "13912345678", ...(sender ? { sender } : {}) }));
    }
    const ids = made.map(messageIdOf).reverse();
    const path = "messages?to=8613912345678&status=accepted";
    const first = await get(`${path}&limit=3`);
    const second = await get(`${path}&limit=3&cursor=${textOf(first.body["nextCursor"])}`);
    const listed = [first, second].flatMap(({ body }) => listOf(body["messages"]));
    expect(listed.map(({ id }) => id)).toEqual(ids);
    expect(listed[0]).toMatchObject({
      applicationId: other.applicationId,
      to: "139****5678",
      text: "…",
      segments: 1,
    });
    const mine = listOf((await get(`${path}&application=app_demo`)).body["messages"]);
    expect(mine.map(({ id }) => id)).toEqual([ids[1], ids[3]]);
    expect((await get("messages?colour=red")).body["code"]).toBe("unknown_field");
    expect((await get("messages?cursor=x")).body["code"]).toBe("invalid_cursor");
  });

  it.each([
    ["one application's", 0, () => selectMessages(api.database, "app_demo", {}, 50).toSQL()],
    // The newest of each application are put in order once more.
    ["everybody's", 1, () => selectMessagesAnywhere(api.database, undefined, {}, 50).toSQL()],
  ] as const)("%s are read along an index in the order in which they are shown", async (_, sorts, query) => {
    const { sql, params } = query();
    const plan = await api.database.transaction(async (tx) => {
      await ask(tx, "SET LOCAL enable_sort = off");
      return JSON.stringify(await ask(tx, `EXPLAIN (FORMAT JSON) ${sql}`, params));
    });
    expect(plan).toMatch(/"Index Name":"messages_\d{8}_\d{8}_application_id_created_at_id_idx"/);
    expect(plan).not.toContain('"Node Type":"Seq Scan","Parent Relationship":"Member"');
    expect(plan.match(/"Node Type":"(?:Incremental )?Sort"/g) ?? []).toHaveLength(sorts);
  });
});

describe("ids and filters that PostgreSQL cannot store", () => {
  it.each([
    ["PATCH", "channels/%00", { active: true }, 404],
    ["POST", "accounts/%00/top-up", { key: "k", units: 1 }, 404],
    ["GET", "messages?application=%00", undefined, 400],
  ] as const)("%s %s is refused, and not a fault of ours", async (method, path, body, status) => {
    const key = api.opsToken;
    const answer = await api.call(method, `/ops/v1/${path}`, body === undefined ? { key } : { key, body });
    expect(answer.status).toBe(status);
  });
});

describe("the overview", () => {
  it("counts what waits and how long, and shows rates, suppliers and last errors", async () => {
    await api.sql(
      "UPDATE inbox SET due_at = now() - interval '90 s' WHERE attempt_id = (SELECT min(attempt_id) FROM inbox)",
    );
    // Those that nobody could match wait for their next look, which may come any moment.
    await api.sql("UPDATE supplier_events SET due_at = now() + interval '1 hour' WHERE folded_at IS NULL");
    const dead = await queuedAttempt(api.database);
    await markDead(api.database, submitIdOf(dead), "malformed_payload");
    const { body } = await get("overview");
    const [{ waiting } = { waiting: 0 }] = await api.sql<{ waiting: number }>(
      "SELECT count(*)::int AS waiting FROM inbox",
    );
    expect(body).toMatchObject({
      publication: "live",
      intake: { count: waiting },
      deadCommands: { count: 1 },
      reviews: { count: 2 },
      unmatchedReceipts: { count: 2 },
      unfoldedEvents: { count: 0, oldestMs: null },
      suppliers: [{ id: "sup_1", connected: 1 }, { id: "sup_2" }, { id: "sup_3" }],
      lastErrors: [{ where: "outbox", subject: submitIdOf(dead), error: "malformed_payload" }],
    });
    expect(Number(body["intake"]?.["oldestMs"])).toBeGreaterThan(89_000);
    for (const rate of ["acceptedPerSecond", "answersPerSecond", "receiptsPerSecond"]) {
      expect(Number(body["rates"]?.[rate])).toBeGreaterThan(0);
    }
    await api.sql("UPDATE submit_outbox SET status = 'pending' WHERE status = 'dead'");
    await api.sql("UPDATE inbox SET due_at = now()");
  });
});

describe("reconcile (C6)", () => {
  const stream = (channel: number): string => commandStream(prefix, `chn_demo_${channel}`);
  const found = async (): Promise<string[]> =>
    listOf((await get("reconcile")).body["differences"])
      .map(({ kind, submitId }) => `${textOf(kind)} ${textOf(submitId)}`)
      .sort();

  async function published(channel: number): Promise<AttemptId> {
    const attempt = await queuedAttempt(api.database, { channel });
    const publish = publishBatch({ database: api.database, streams });
    expect(await publish([attempt])).toEqual([{ kind: "published" }]);
    return attempt;
  }

  async function rowOf(attempt: AttemptId): Promise<{ payload: string; entry: string }> {
    const [row] = await api.sql<{ payload: string; entry: string }>(
      "SELECT payload, stream_entry_id AS entry FROM submit_outbox WHERE attempt_id = $1",
      [attempt],
    );
    if (row === undefined) throw new Error("no command");
    return row;
  }

  const add = (channel: number, submitId: string, payload: string): Promise<string | null> =>
    redis.xadd(
      stream(channel),
      "*",
      ENTRY_FIELDS.submitId,
      submitId,
      ENTRY_FIELDS.version,
      COMMAND_VERSION,
      ENTRY_FIELDS.payload,
      payload,
    );
  const readByGateway = (channel: number): Promise<unknown> =>
    redis.xreadgroup("GROUP", GATEWAY_GROUP, "gateway-a", "COUNT", 100, "STREAMS", stream(channel), ">");
  const set = (attempt: AttemptId, what: string): Promise<unknown> =>
    api.sql(`UPDATE submit_outbox SET ${what} WHERE attempt_id = $1`, [attempt]);

  beforeAll(async () => {
    // Commands of the tests above were never meant for a stream.
    await api.sql("UPDATE submit_outbox SET next_attempt_at = now()");
    await api.sql("UPDATE submit_outbox SET status = 'dead', lease_owner = NULL, lease_expires_at = NULL");
    for (const channel of [1, 2, 3]) {
      await redis.xgroup("CREATE", stream(channel), GATEWAY_GROUP, "0", "MKSTREAM");
    }
  });

  it("finds nothing where all is well: waiting, read, written and answered", async () => {
    await queuedAttempt(api.database);
    await published(1);
    const [read, answered] = [await published(2), await published(2)];
    await readByGateway(2);
    await written(api.database, read);
    await written(api.database, answered);
    await told(api.database, response(answered));
    const { entry } = await rowOf(answered);
    await redis.xack(stream(2), GATEWAY_GROUP, entry);
    await redis.xdel(stream(2), entry);
    expect(await found()).toEqual([]);
  });

  it("names each difference, once, by its submit id", async () => {
    const planted: string[] = [];
    const plant = (kind: DifferenceKind, attempt: AttemptId): number =>
      planted.push(`${kind} ${submitIdOf(attempt)}`);

    await add(1, "sub_nobody", "{}");
    planted.push("entry_without_outbox_row sub_nobody");

    const astray = await queuedAttempt(api.database);
    await add(3, submitIdOf(astray), (await rowOf(astray)).payload);
    plant("entry_on_another_channel", astray);

    const altered = await queuedAttempt(api.database);
    await add(1, submitIdOf(altered), "{}");
    plant("entry_payload_differs", altered);

    const dead = await published(1);
    await markDead(api.database, submitIdOf(dead), "malformed_payload");
    plant("entry_of_dead_command", dead);

    const unrecorded = await queuedAttempt(api.database);
    await add(1, submitIdOf(unrecorded), (await rowOf(unrecorded)).payload);
    plant("entry_not_recorded", unrecorded);

    const twice = await published(1);
    await add(1, submitIdOf(twice), (await rowOf(twice)).payload);
    plant("entry_superseded", twice);

    const [kept, finished, old] = [await published(2), await published(2), await published(2)];
    await readByGateway(2);
    await redis.xack(stream(2), GATEWAY_GROUP, (await rowOf(kept)).entry);
    await written(api.database, kept);
    plant("acknowledged_not_deleted", kept);
    await written(api.database, finished);
    await told(api.database, response(finished));
    plant("pending_and_finished", finished);
    await redis.xclaim(stream(2), GATEWAY_GROUP, "gateway-b", 0, (await rowOf(old)).entry, "IDLE", 61_000);
    plant("pending_too_old", old);

    const lost = await published(1);
    await redis.xdel(stream(1), (await rowOf(lost)).entry);
    await set(lost, "published_at = now() - interval '6 s'");
    plant("published_but_entry_gone_and_not_taken", lost);

    const overdue = await queuedAttempt(api.database);
    await set(overdue, "next_attempt_at = now() - interval '61 s'");
    plant("due_but_not_published", overdue);

    const unpublished = await queuedAttempt(api.database);
    await written(api.database, unpublished);
    plant("unpublished_but_written", unpublished);

    const silent = await published(3);
    await written(api.database, silent);
    await api.sql("UPDATE takes SET taken_at = now() - interval '71 s' WHERE attempt_id = $1", [silent]);
    plant("written_but_never_answered", silent);

    const orphan = await queuedAttempt(api.database);
    await written(api.database, orphan);
    await api.sql("DELETE FROM submit_outbox WHERE attempt_id = $1", [orphan]);
    plant("take_without_outbox_row", orphan);

    const [faithful, shadowed] = [await queuedAttempt(api.database), await queuedAttempt(api.database)];
    await set(faithful, "shadow_entry_id = '1-1', shadow_payload_hash = sha256(convert_to(payload, 'UTF8'))");
    await set(shadowed, "shadow_entry_id = '1-2', shadow_payload_hash = sha256('{}')");
    plant("shadow_payload_differs", shadowed);

    expect(await found()).toEqual(planted.sort());
    // It only looks: a second look finds the same.
    expect(await found()).toEqual(planted);
  });

  it("does not call rows overdue that wait because publication is paused (C5)", async () => {
    await change("PUT", "publication", { mode: "paused" });
    expect((await found()).filter((each) => each.startsWith("due_but"))).toEqual([]);
    await change("PUT", "publication", { mode: "live" });
  });

  it("reads streams that are longer than a page", async () => {
    const known = await found();
    const many = redis.pipeline();
    for (let i = 0; i < 450; i++) many.xadd(stream(3), "*", "id", `sub_many_${i}`, "v", "1", "p", "{}");
    await many.exec();
    expect((await found()).length).toBe(known.length + 450);
  });

  it("says that it cannot while Redis is away", async () => {
    const away = await startApi({ openSurvey: () => openStreamSurvey("redis://127.0.0.1:1", prefix) });
    const answer = await away.call("GET", "/ops/v1/reconcile", { key: away.opsToken });
    expect(answer).toMatchObject({ status: 503, body: { code: "temporarily_unavailable" } });
    await away.close();
  });
});
