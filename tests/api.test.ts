/** The HTTP side on a real PostgreSQL; every answer is held against the OpenAPI document. */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { listOf, startApi, textOf, type Answer, type ApiClient, type Call } from "./api-client.ts";
import { until, vault } from "./servers.ts";

let api: ApiClient;

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const post = (path: string, body: unknown, more: Call = {}): Promise<Answer> =>
  api.call("POST", path, { body, ...more });
const get = (path: string, more: Call = {}): Promise<Answer> => api.call("GET", path, more);

const rowCounts = async (): Promise<number[]> =>
  Promise.all(["messages", "inbox", "batches", "idempotency_keys"].map((table) => api.countOf(table)));

const hello = (more: object = {}) => ({ to: "13800000000", text: "hello", ...more });

describe("POST /v1/messages", () => {
  it("answers with what was stored, after the row and its inbox row are durable (A1)", async () => {
    const answer = await post("/v1/messages", hello({ reference: "order 7" }));
    expect(answer.status).toBe(202);
    expect(Object.keys(answer.body)).toEqual([
      "id", "status", "to", "segments", "encoding", "price", "reference", "createdAt",
    ]); // prettier-ignore
    expect(answer.body).toMatchObject({
      status: "accepted",
      to: "13800000000",
      segments: 1,
      encoding: "ascii",
      price: { units: 325, currency: "CNY" },
      reference: "order 7",
    });
    const [row] = await api.sql<Record<string, unknown>>(
      `SELECT m.*, i.attempt_id, extract(epoch FROM expires_at - m.created_at)::int AS validity
         FROM messages m JOIN inbox i ON i.message_id = m.id WHERE m.id = $1`,
      [answer.body["id"]],
    );
    expect(row).toMatchObject({
      enterprise_id: "ent_demo",
      application_id: "app_demo",
      account_id: "acc_demo",
      batch_id: null,
      status: "accepted",
      price_units: 325n,
      validity: 259_200,
      attempt_id: `att_${textOf(answer.body["id"]).slice(4)}_1`,
      current_attempt_id: `att_${textOf(answer.body["id"]).slice(4)}_1`,
    });
  });

  it.each([
    ["13800000000", "13800000000"],
    ["8613800000000", "13800000000"],
    ["+8613800000000", "13800000000"],
  ])("stores %s as %s (A5)", async (to, stored) => {
    expect((await post("/v1/messages", hello({ to }))).body["to"]).toBe(stored);
  });

  it("prices every segment and keeps the text to the last character", async () => {
    const text = `【测试】您好 😀 \r\n\t'"\\ ${"长".repeat(140)} `;
    const { body } = await post("/v1/messages", hello({ text }));
    expect(body).toMatchObject({ segments: 3, encoding: "ucs2", price: { units: 975 } });
    expect((await get(`/v1/messages/${textOf(body["id"])}`)).body["text"]).toBe(text);
    const [row] = await api.sql<{ sealed: Buffer }>(
      "SELECT text_sealed AS sealed FROM messages WHERE id = $1",
      [body["id"]],
    );
    expect(row?.sealed.includes("长")).toBe(false);
    expect(row && vault.openText("messages.text", textOf(body["id"]), row.sealed)).toBe(text);
  });

  it("gives the same moment in the answer and in the look-up", async () => {
    const { body } = await post("/v1/messages", hello());
    expect((await get(`/v1/messages/${textOf(body["id"])}`)).body["createdAt"]).toBe(body["createdAt"]);
  });
});

describe("Idempotency-Key (A1)", () => {
  const keyed = (key: string, body: unknown, raw?: string): Promise<Answer> =>
    api.call("POST", "/v1/messages", {
      headers: { "idempotency-key": key },
      ...(raw === undefined ? { body } : { raw }),
    });

  it("gives the first answer again, byte for byte, and creates nothing", async () => {
    const first = await keyed("again", hello({ reference: "r", validitySeconds: 60 }));
    const before = await rowCounts();
    const second = await keyed("again", hello({ reference: "r", validitySeconds: 60 }));
    expect(second.status).toBe(202);
    expect(second.text).toBe(first.text);
    expect(first.headers.get("idempotency-replayed")).toBeNull();
    expect(second.headers.get("idempotency-replayed")).toBe("true");
    expect(await rowCounts()).toEqual(before);
  });

  it("knows the same body in another order, spelling and with its defaults written out", async () => {
    const first = await keyed("spelling", hello());
    const raw = '{ "validitySeconds":259200.0, "text":"h\\u0065llo",\n"to":"+8613800000000"}';
    const second = await keyed("spelling", undefined, raw);
    expect(second.text).toBe(first.text);
  });

  it("refuses the same key with another body", async () => {
    await keyed("other body", hello());
    const before = await rowCounts();
    for (const other of [hello({ text: "hallo" }), hello({ reference: "x" }), hello({ to: "13800000001" })]) {
      const answer = await keyed("other body", other);
      expect(answer).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
    }
    expect(await rowCounts()).toEqual(before);
  });

  it("makes one message of a hundred requests at once, without an error in PostgreSQL (D13)", async () => {
    const before = await api.countOf("messages");
    const answers = await Promise.all(Array.from({ length: 100 }, () => keyed("parallel", hello())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers.get("idempotency-replayed") === null)).toHaveLength(1);
    expect(await api.countOf("messages")).toBe(before + 1);
    const [stats] = await api.sql<{ rolled_back: number }>(
      "SELECT xact_rollback::int AS rolled_back FROM pg_stat_database WHERE datname = current_database()",
    );
    expect(stats?.rolled_back).toBe(0);
  });

  it("is an application's own: another one may use the same key", async () => {
    const mine = await keyed("shared", hello());
    const theirs = await post("/v1/messages", hello(), {
      key: api.otherKey,
      headers: { "idempotency-key": "shared" },
    });
    expect(theirs.status).toBe(202);
    expect(theirs.body["id"]).not.toBe(mine.body["id"]);
  });

  it("answers a repeat after the connection was lost before the first answer was read", async () => {
    const hangUp = sendWithoutReading("lost", hello());
    await until(
      "the first submission is durable",
      async () => (await api.countOf("idempotency_keys WHERE key = 'lost'")) === 1,
    );
    hangUp();
    const before = await rowCounts();
    const answer = await keyed("lost", hello());
    expect(answer.status).toBe(202);
    expect(answer.headers.get("idempotency-replayed")).toBe("true");
    expect(await rowCounts()).toEqual(before);
  });

  it("knows an item that it refused by what it says, not by the order of its fields", async () => {
    const batch = (item: object): Promise<Answer> =>
      post("/v1/batches", { messages: [hello(), item] }, { headers: { "idempotency-key": "refused item" } });
    const first = await batch({ to: "nonsense", text: "x" });
    expect((await batch({ text: "x", to: "nonsense" })).text).toBe(first.text);
    expect((await batch({ text: "y", to: "nonsense" })).body["code"]).toBe("idempotency_key_reused");
  });

  it("covers a batch, whichever way its numbers are spelled", async () => {
    const batch = (to: string[]): Promise<Answer> =>
      post("/v1/batches", { to, text: "hi" }, { headers: { "idempotency-key": "batch" } });
    const first = await batch(["13800000000", "nonsense", "13800000000"]);
    const before = await rowCounts();
    const second = await batch(["8613800000000", "nonsense", "+8613800000000"]);
    expect(second.text).toBe(first.text);
    expect(await rowCounts()).toEqual(before);
    expect((await batch(["13800000000", "other nonsense", "13800000000"])).body["code"]).toBe(
      "idempotency_key_reused",
    );
  });

  it("tells a batch that allows duplicates from the same one that does not", async () => {
    const batch = (more: object): Promise<Answer> =>
      post(
        "/v1/batches",
        { to: ["13800000000", "13800000000"], text: "hi", ...more },
        { headers: { "idempotency-key": "duplicates" } },
      );
    const first = await batch({});
    expect((await batch({ allowDuplicates: false })).text).toBe(first.text);
    expect(await batch({ allowDuplicates: true })).toMatchObject({
      status: 422,
      body: { code: "idempotency_key_reused" },
    });
  });

  it("is not led into the depth of a body, whichever item holds it", async () => {
    const deep = `${"[".repeat(5_000)}${"]".repeat(5_000)}`;
    const answer = await api.call("POST", "/v1/batches", {
      raw: `{"messages":[${deep}]}`,
      headers: { "idempotency-key": "deep" },
    });
    expect(answer).toMatchObject({ status: 400, body: { code: "malformed_json" } });
  });
});

/** Sends a request whose answer nobody reads; what comes back hangs up. */
function sendWithoutReading(key: string, body: object): () => void {
  const { hostname, port } = new URL(api.url);
  const content = JSON.stringify(body);
  const socket = connect(Number(port), hostname);
  socket.pause();
  socket.write(
    [
      "POST /v1/messages HTTP/1.1",
      `host: ${hostname}`,
      `authorization: Bearer ${api.demoKey}`,
      "content-type: application/json",
      `idempotency-key: ${key}`,
      `content-length: ${Buffer.byteLength(content)}`,
      "",
      content,
    ].join("\r\n"),
  );
  return () => socket.destroy();
}

describe("bad input gets a 4xx with a stable code and leaves no row", () => {
  const bad: [what: string, code: string, call: Call][] = [
    ["no body", "malformed_json", {}],
    ["an empty body", "malformed_json", { raw: "" }],
    ["half a body", "malformed_json", { raw: '{"to":"1380' }],
    ["a bare string", "malformed_json", { raw: '"hello"' }],
    [
      "bytes that are no UTF-8",
      "malformed_json",
      { raw: Buffer.from('{"to":"13800000000","text":"\xff\xfe"}', "latin1") },
    ],
    ["an array", "invalid_field", { body: [] }],
    ["null for a field", "invalid_field", { body: hello({ reference: null }) }],
    ["no fields", "invalid_field", { body: {} }],
    ["a field that does not exist", "unknown_field", { body: hello({ price: 0 }) }],
    [
      "a prototype in a field",
      "unknown_field",
      { raw: '{"to":"13800000000","text":"x","__proto__":{"a":1}}' },
    ],
    ["a number as a number", "invalid_field", { body: hello({ to: 13800000000 }) }],
    ["ten digits", "invalid_field", { body: hello({ to: "1380000000" }) }],
    ["twelve digits", "invalid_field", { body: hello({ to: "138000000000" }) }],
    ["a number of no mobile", "invalid_field", { body: hello({ to: "23800000000" }) }],
    ["another country", "invalid_field", { body: hello({ to: "+4915100000000" }) }],
    ["a number with a space", "invalid_field", { body: hello({ to: " 13800000000" }) }],
    ["a number and a line end", "invalid_field", { body: hello({ to: "13800000000\n" }) }],
    ["digits of another script", "invalid_field", { body: hello({ to: "１３８００００００００" }) }],
    ["an empty text", "invalid_field", { body: hello({ text: "" }) }],
    ["NUL in the text", "invalid_field", { body: hello({ text: "a\0b" }) }],
    ["half a surrogate pair", "invalid_field", { raw: '{"to":"13800000000","text":"\\ud83d"}' }],
    ["a text of 256 segments", "text_too_long", { body: hello({ text: "x".repeat(153 * 255 + 1) }) }],
    ["an empty reference", "invalid_field", { body: hello({ reference: "" }) }],
    ["a long reference", "invalid_field", { body: hello({ reference: "x".repeat(129) }) }],
    ["NUL in the reference", "invalid_field", { body: hello({ reference: "\0" }) }],
    ["too short a validity", "invalid_field", { body: hello({ validitySeconds: 4 }) }],
    ["too long a validity", "invalid_field", { body: hello({ validitySeconds: 259_201 }) }],
    ["a broken validity", "invalid_field", { body: hello({ validitySeconds: 5.5 }) }],
    ["a validity in words", "invalid_field", { body: hello({ validitySeconds: "60" }) }],
    ["a webhook that is no address", "invalid_field", { body: hello({ webhookUrl: "nowhere" }) }],
    ["a webhook of another scheme", "invalid_field", { body: hello({ webhookUrl: "ftp://a.example/" }) }],
    ["a webhook with a password", "invalid_field", { body: hello({ webhookUrl: "https://a:b@a.example/" }) }],
    [
      "a webhook inside",
      "webhook_address_refused",
      { body: hello({ webhookUrl: "http://169.254.169.254/" }) },
    ],
    ["an unknown template", "template_unknown", { body: hello({ templateId: "t1" }) }],
    ["parameters without a template", "invalid_field", { body: hello({ templateParams: { a: "b" } }) }],
    [
      "a key of 256 characters",
      "invalid_idempotency_key",
      { body: hello(), headers: { "idempotency-key": "k".repeat(256) } },
    ],
    ["an empty key", "invalid_idempotency_key", { body: hello(), headers: { "idempotency-key": "" } }],
    [
      "a key outside ASCII",
      "invalid_idempotency_key",
      { body: hello(), headers: { "idempotency-key": "\u00e9" } },
    ],
    [
      "a form",
      "unsupported_media_type",
      { raw: "to=1", headers: { "content-type": "application/x-www-form-urlencoded" } },
    ],
    ["plain text", "unsupported_media_type", { raw: "{}", headers: { "content-type": "text/plain" } }],
    [
      "another character set",
      "unsupported_media_type",
      { raw: "{}", headers: { "content-type": "application/json; charset=utf-16" } },
    ],
    [
      "another encoding",
      "unsupported_media_type",
      { raw: "{}", headers: { "content-encoding": "compress" } },
    ],
    ["a body over 1 MB", "body_too_large", { body: hello({ text: "x".repeat(1_048_576) }) }],
  ];

  it.each(bad)("%s: %s", async (_what, code, request) => {
    const before = await rowCounts();
    const answer = await api.call("POST", "/v1/messages", request);
    expect(answer.body["code"]).toBe(code);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(await rowCounts()).toEqual(before);
  });

  it.each([
    ["neither form", "invalid_field", {}],
    ["no messages", "invalid_field", { messages: [] }],
    ["messages that are no list", "invalid_field", { messages: "all" }],
    ["more than 1,000", "batch_too_large", { messages: Array.from({ length: 1_001 }, () => hello()) }],
    [
      "more than 1,000 numbers",
      "batch_too_large",
      { to: Array.from({ length: 1_001 }, () => "1"), text: "x" },
    ],
    ["both forms at once", "unknown_field", { messages: [hello()], to: ["13800000000"], text: "x" }],
    ["a text for all that is empty", "invalid_field", { to: ["13800000000"], text: "" }],
    ["a template for all", "template_unknown", { to: ["13800000000"], text: "x", templateId: "t" }],
  ])("a batch with %s: %s", async (_what, code, body) => {
    const before = await rowCounts();
    const answer = await post("/v1/batches", body);
    expect(answer).toMatchObject({ status: 400, body: { code } });
    expect(await rowCounts()).toEqual(before);
  });

  it("names the fields at fault", async () => {
    const { body } = await post("/v1/messages", { to: "1", text: "", extra: 1 });
    const paths = listOf(body["errors"])
      .map((error) => textOf(error["path"]))
      .toSorted();
    expect(paths).toEqual(["extra", "text", "to"]);
  });

  it.each([
    "/v1/messages?limit=0",
    "/v1/messages?limit=201",
    "/v1/messages?limit=x",
    "/v1/messages?limit=10&limit=11",
    "/v1/messages?to=123",
    "/v1/messages?status=lost",
    "/v1/messages?reference=%00",
    "/v1/messages?batch=%00",
    "/v1/messages?since=yesterday",
    "/v1/messages?since=0000-01-01T00:00:00Z",
    "/v1/messages?since=2026-01-01T00:00:00%2B23:59",
    `/v1/messages?until=2026-01-01T00:00:00.${"1".repeat(300)}Z`,
    "/v1/messages?until=2026-02-30T00:00:00Z",
    "/v1/messages?colour=red",
    "/v1/messages?cursor=nonsense",
    `/v1/messages?cursor=${Buffer.from('["2026-13-01T00:00:00.000000Z","msg_1"]').toString("base64url")}`,
    `/v1/messages?cursor=${Buffer.from('["2026-11-01T00:00:00.000000Z","x\\u0000"]').toString("base64url")}`,
    `/v1/ledger?cursor=${Buffer.from('["9999999999999999999"]').toString("base64url")}`,
    "/v1/ledger?page=2",
    "/v1/webhooks?cursor=%00",
    "/v1/messages/%E0%A4%A",
  ])("GET %s: 400", async (path) => {
    expect((await get(path)).status).toBe(400);
  });

  it("never answers a generated body with anything but 202 or 400", async () => {
    const field = fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue());
    const body = fc.oneof(
      fc.jsonValue(),
      fc.record(
        { to: fc.oneof(fc.constant("13900000000"), field), text: field, reference: field, webhookUrl: field },
        { requiredKeys: [] },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom("/v1/messages", "/v1/batches"), body, async (path, value) => {
        const answer = await api.call("POST", path, { raw: JSON.stringify(value) });
        expect([202, 400]).toContain(answer.status);
      }),
      { numRuns: 150 },
    );
  });
});

describe("who may call", () => {
  it.each([
    ["no key", null, {}],
    ["an unknown key", newToken("wbk"), {}],
    ["another scheme", null, { authorization: "Basic eDp5" }],
    ["an empty key", null, { authorization: "Bearer " }],
  ])("answers %s with 401", async (_what, key, headers) => {
    const answer = await get("/v1/account", { key, headers });
    expect(answer).toMatchObject({ status: 401, body: { code: "invalid_api_key" } });
    expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
  });

  it("asks for the key before it reads the body", async () => {
    expect((await api.call("POST", "/v1/messages", { key: null, raw: "{" })).status).toBe(401);
  });

  it("shuts out a key that was disabled, within a second (B1)", async () => {
    const key = await api.addApplication("app_disabled_key");
    expect((await get("/v1/account", { key })).status).toBe(200);
    await api.sql("UPDATE api_keys SET active = false WHERE application_id = 'app_disabled_key'");
    const disabledAt = performance.now();
    await expect.poll(async () => (await get("/v1/account", { key })).status).toBe(401);
    expect(performance.now() - disabledAt).toBeLessThan(1_000);
  });

  it("answers 429 with Retry-After over the application's rate, and leaves no row", async () => {
    const key = await api.addApplication("app_slow", 1);
    const to = Array.from({ length: 600 }, (_, index) => String(13_500_000_000 + index));
    expect((await post("/v1/batches", { to, text: "hi" }, { key })).status).toBe(202);
    for (const [path, body] of [
      ["/v1/messages", hello()],
      ["/v1/batches", { to: ["13500000000"], text: "hi" }],
    ] as const) {
      const refused = await post(path, body, { key });
      expect(refused).toMatchObject({ status: 429, body: { code: "rate_limited", retryable: true } });
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(500);
    }
    expect((await get("/v1/account", { key })).status).toBe(200);
    expect(await api.countOf("messages WHERE application_id = 'app_slow'")).toBe(600);
  });
});

describe("POST /v1/batches", () => {
  it("answers item by item, in order, and stores what it accepted", async () => {
    const answer = await post("/v1/batches", {
      messages: [
        hello({ to: "13900000001", reference: "one" }),
        hello({ to: "not a number" }),
        hello({ to: "13900000002", text: "长".repeat(71), reference: "three" }),
        hello({ to: "+8613900000001" }),
        hello({ to: "13900000003", colour: "red" }),
        7,
        hello({ to: "13900000004", webhookUrl: "http://169.254.1.1/" }),
      ],
    });
    expect(answer.status).toBe(202);
    const items = listOf(answer.body["items"]);
    expect(items.map((item) => item["problem"]?.["code"] ?? item["reference"])).toEqual([
      "one",
      "invalid_field",
      "three",
      "duplicate_recipient",
      "unknown_field",
      "invalid_field",
      "webhook_address_refused",
    ]);
    const batch = textOf(answer.body["id"]);
    const rows = await api.sql<{ id: string; number_hash: string; segment_count: number }>(
      "SELECT m.id, number_hash, segment_count FROM messages m JOIN inbox ON message_id = m.id WHERE batch_id = $1 ORDER BY m.id",
      [batch],
    );
    expect(rows).toEqual([
      { id: items[0]?.["id"], number_hash: vault.hash("13900000001"), segment_count: 1 },
      { id: items[2]?.["id"], number_hash: vault.hash("13900000002"), segment_count: 2 },
    ]);
    expect((await get(`/v1/batches/${batch}`)).body).toMatchObject({
      items: 7,
      refusedAtSubmission: 5,
      final: 0,
      counts: { accepted: 2, delivered: 0 },
    });
  });

  it("accepts a thousand in one request, and a number twice where that is allowed", async () => {
    const to = Array.from({ length: 1_000 }, (_, index) => `139${String(index >> 1).padStart(8, "0")}`);
    const answer = await post("/v1/batches", { to, text: "hi", allowDuplicates: true });
    const ids = listOf(answer.body["items"]).map((item) => item["id"]);
    expect(new Set(ids).size).toBe(1_000);
    const batch = textOf(answer.body["id"]);
    expect((await get(`/v1/batches/${batch}`)).body["counts"]).toMatchObject({ accepted: 1_000 });
    const listed = await get(`/v1/messages?batch=${batch}&limit=200`);
    expect(listOf(listed.body["messages"]).map((each) => each["id"])).toEqual(ids.toReversed().slice(0, 200));
  });
});

describe("GET /v1/messages", () => {
  it("finds by reference, number, status, batch and time, newest first, page by page", async () => {
    const key = await api.addApplication("app_lists");
    const ids: string[] = [];
    for (let index = 0; index < 5; index++) {
      const body = hello({ to: `1370000000${index % 2}`, reference: `ref ${index % 3}` });
      ids.unshift(textOf((await post("/v1/messages", body, { key })).body["id"]));
    }
    const find = async (query: string): Promise<string[]> =>
      listOf((await get(`/v1/messages${query}`, { key })).body["messages"]).map((each) => textOf(each["id"]));
    const at = async (id: string | undefined): Promise<string> =>
      encodeURIComponent(textOf((await get(`/v1/messages/${id}`, { key })).body["createdAt"]));

    expect(await find("")).toEqual(ids);
    expect(await find("?reference=ref%201")).toEqual([ids[0], ids[3]]);
    expect(await find("?to=%2B8613700000001")).toEqual([ids[1], ids[3]]);
    expect(await find("?status=accepted&limit=2")).toEqual(ids.slice(0, 2));
    expect(await find("?status=delivered")).toEqual([]);
    expect(await find("?batch=bat_none")).toEqual([]);
    expect(await find(`?since=${await at(ids[2])}`)).toEqual(ids.slice(0, 3));
    expect(await find(`?until=${await at(ids[2])}`)).toEqual(ids.slice(3));
    expect(await find(`?since=2026-01-01T00:00:00%2B08:00&until=2026-01-02T00:00:00%2B08:00`)).toEqual([]);
    expect(await pages("/v1/messages", "messages", 2, key)).toEqual(ids);
  });
});

async function pages(path: string, list: string, limit: number, key: string): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor = ""; ;) {
    const { body } = await get(`${path}?limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`, { key });
    const page = listOf(body[list]);
    ids.push(...page.map((each) => textOf(each["id"])));
    expect(page.length).toBeLessThanOrEqual(limit);
    if (body["nextCursor"] === null) return ids;
    cursor = textOf(body["nextCursor"]);
  }
}

describe("account, ledger and webhooks", () => {
  it("shows money as integers, and as strings of digits beyond 2^53", async () => {
    const key = await api.addApplication("app_rich");
    await api.sql(
      "INSERT INTO accounts (id, enterprise_id, currency, balance_units) VALUES ('acc_rich', 'ent_other', 'CNY', 9007199254740993)",
    );
    await api.sql("UPDATE applications SET account_id = 'acc_rich' WHERE id = 'app_rich'");
    expect((await get("/v1/account", { key })).body).toEqual({
      id: "acc_rich",
      balance: { units: "9007199254740993", currency: "CNY" },
      held: { units: 0, currency: "CNY" },
    });
    expect((await get("/v1/account")).body["balance"]).toEqual({ units: 3_250_000_000, currency: "CNY" });
  });

  it("lists the ledger page by page, newest first", async () => {
    await api.sql(
      `INSERT INTO ledger_transfers (key, kind, account_id, debit_pot, credit_pot, units)
       SELECT 'test:' || n, 'top_up', 'acc_other', 'outside', 'balance', n FROM generate_series(1, 5) n`,
    );
    const all = await pages("/v1/ledger", "entries", 2, api.otherKey);
    expect(all).toHaveLength(5);
    const { body } = await get("/v1/ledger?limit=1", { key: api.otherKey });
    expect(body["entries"]?.[0]).toMatchObject({
      id: all[0],
      kind: "top_up",
      messageId: null,
      from: "outside",
      to: "balance",
      units: 5,
    });
  });
});

describe("the webhooks' secret (interfaces §3)", () => {
  const rotate = (key: string, body?: object) => api.call("PUT", "/v1/webhooks/secret", { key, body });
  const stored = async (application: string) =>
    (
      await api.sql(
        `SELECT webhook_secret AS now, webhook_secret_previous AS before,
                round(extract(epoch FROM webhook_secret_previous_until - clock_timestamp()) / 60)::int AS minutes
           FROM applications WHERE id = $1`,
        [application],
      )
    )[0];

  it("is made and shown once, and the one before signs for a day", async () => {
    const key = await api.addApplication("app_rotates");
    const { status, body } = await rotate(key);
    expect(status).toBe(200);
    expect(body).toMatchObject({ secret: expect.stringMatching(/^whsec_/), changed: true });
    expect(await stored("app_rotates")).toEqual({ now: body["secret"], before: "whsec_x", minutes: 1440 });
    expect(await api.sql("SELECT action, effect FROM audit_log WHERE subject = 'app_rotates'")).toEqual([
      { action: "rotate_webhook_secret", effect: "rotated" },
    ]);
  });

  it("is not replaced while two sign, unless that is forced; then the first keeps its time", async () => {
    const key = await api.addApplication("app_hasty");
    const first = await rotate(key, { overlapSeconds: 3600 });
    expect(await rotate(key)).toMatchObject({ status: 409, body: { code: "rotation_under_way" } });
    const same = await rotate(key, { secret: first.body["secret"] });
    expect(same).toMatchObject({ status: 200, body: { changed: false } });
    const forced = await rotate(key, { force: true });
    expect(await stored("app_hasty")).toEqual({ now: forced.body["secret"], before: "whsec_x", minutes: 60 });
  });

  it("replaces the one before at once where no overlap is wanted", async () => {
    const key = await api.addApplication("app_leaked");
    const secret = newWebhookSecret();
    expect(await rotate(key, { secret, overlapSeconds: 0 })).toMatchObject({ body: { previousUntil: null } });
    expect(await stored("app_leaked")).toEqual({ now: secret, before: null, minutes: null });
  });

  it.each([{ secret: "short" }, { overlapSeconds: 604_801 }, { overlapSeconds: -1 }, { force: "yes" }])(
    "refuses %o",
    async (body) => {
      expect(await rotate(api.demoKey, body)).toMatchObject({ status: 400, body: { code: "invalid_field" } });
    },
  );
});

describe("replay of a stretch of time (E3)", () => {
  const replay = (body: object, key = api.demoKey) => api.call("POST", "/v1/webhooks/replay", { key, body });

  it("sends what was parked again, of the caller alone, and says how many", async () => {
    const { body } = await post("/v1/batches", { messages: [hello({ to: "13600000010" })] });
    const event = await notificationOf(textOf(body["items"]?.[0]?.["id"]));
    await api.sql("UPDATE notifications SET status = 'parked' WHERE id = $1", [event]);
    const range = { since: "2026-01-01T00:00:00Z", until: "2999-01-01T00:00:00+08:00" };

    expect((await replay(range, api.otherKey)).body).toEqual({ replayed: 0, nextCursor: null });
    expect(await replay(range)).toMatchObject({ status: 202, body: { replayed: 1, nextCursor: null } });
    expect((await replay(range)).body).toEqual({ replayed: 0, nextCursor: null });
  });

  it.each([
    {},
    { since: "2026-01-01T00:00:00Z" },
    { since: "2026-01-02T00:00:00Z", until: "2026-01-01T00:00:00Z" },
    { since: "yesterday", until: "2026-01-01T00:00:00Z" },
    { since: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z", status: ["pending"] },
    { since: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z", cursor: "x" },
  ])("refuses %o", async (body) => {
    expect((await replay(body)).status).toBe(400);
  });
});

describe("tenants (D16)", () => {
  it("answers 404 for what another application owns, on every route with an id", async () => {
    const { body } = await post("/v1/batches", { messages: [hello({ to: "13600000000" })] });
    const message = textOf(body["items"]?.[0]?.["id"]);
    const batch = textOf(body["id"]);
    const event = await notificationOf(message);
    for (const [method, path] of [
      ["GET", `/v1/messages/${message}`],
      ["GET", `/v1/batches/${batch}`],
      ["POST", `/v1/webhooks/${event}/replay`],
    ] as const) {
      const theirs = await api.call(method, path, { key: api.otherKey });
      expect(theirs).toMatchObject({ status: 404, body: { code: "not_found" } });
      expect((await api.call(method, path)).status).toBeLessThan(300);
    }
  });

  it("lists nothing of another application, whatever is asked for", async () => {
    const { body } = await post("/v1/batches", {
      messages: [hello({ to: "13600000001", reference: "mine" })],
    });
    const message = textOf(body["items"]?.[0]?.["id"]);
    await notificationOf(message);
    for (const query of [
      "",
      "?reference=mine",
      "?to=13600000001",
      `?batch=${textOf(body["id"])}`,
      "?limit=200",
    ]) {
      const { text } = await get(`/v1/messages${query}`, { key: api.otherKey });
      expect(text).not.toContain(message);
    }
    for (const path of ["/v1/webhooks", "/v1/ledger", "/v1/account"]) {
      expect((await get(path, { key: api.otherKey })).text).not.toContain(message);
    }
    const mine = await get("/v1/messages?limit=1");
    const cursor = textOf(mine.body["nextCursor"]);
    expect((await get(`/v1/messages?cursor=${cursor}`, { key: api.otherKey })).text).not.toContain(
      "app_demo",
    );
  });
});

async function notificationOf(message: string): Promise<string> {
  const id = `evt_${message.slice(4)}`;
  await api.sql(
    `INSERT INTO notifications (id, message_id, application_id, url, body_sealed, status, delivered_at)
     VALUES ($1, $2, 'app_demo', 'https://a.example/hook', '', 'delivered', now())`,
    [id, message],
  );
  return id;
}

describe("addresses", () => {
  it.each([
    ["GET", "/"],
    ["GET", "/v2/messages"],
    ["GET", "/v1/messages/msg_unknown"],
    ["GET", "/v1/messages/msg_00000000000000000000000000"],
    ["GET", "/v1/messages/%00"],
    ["GET", "/v1/batches/%27%3B--"],
    ["POST", "/v1/webhooks/evt_none/replay"],
    ["GET", "/console/%2e%2e/package.json"],
    ["GET", "/docs/nothing.js"],
  ])("%s %s: 404", async (method, path) => {
    expect(await api.call(method, path)).toMatchObject({ status: 404, body: { code: "not_found" } });
  });

  it.each([
    ["DELETE", "/v1/messages", "GET, HEAD, POST"],
    ["PUT", "/v1/messages/msg_1", "GET, HEAD"],
    ["GET", "/v1/batches", "POST"],
    ["POST", "/v1/account", "GET, HEAD"],
    ["OPTIONS", "/v1/ledger", "GET, HEAD"],
    ["POST", "/readyz", "GET, HEAD"],
    ["POST", "/openapi.json", "GET, HEAD"],
  ])("%s %s: 405", async (method, path, allow) => {
    const answer = await api.call(method, path);
    expect(answer).toMatchObject({ status: 405, body: { code: "method_not_allowed" } });
    expect(answer.headers.get("allow")).toBe(allow);
  });

  it.each([
    "/docs",
    "/docs/swagger-ui-bundle.js",
    "/docs/swagger-ui.css",
    "/docs/start.js",
    "/console",
    "/console/console.js",
    "/console/console.css",
  ])("serves %s under a policy that runs nothing inline and asks nobody else", async (path) => {
    const answer = await fetch(api.url + path);
    expect(answer.status).toBe(200);
    const policy = answer.headers.get("content-security-policy");
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    expect(await answer.text()).not.toMatch(/(?:src|href)="https?:/);
  });

  it("keeps texts and numbers out of caches", async () => {
    expect((await get("/v1/messages")).headers.get("cache-control")).toBe("no-store");
  });
});

describe("the document", () => {
  it("is OpenAPI 3.1 whose schemas all compile, and describes every endpoint that the app has", () => {
    expect(api.document["openapi"]).toBe("3.1.0");
    for (const name of Object.keys(api.document["components"]?.["schemas"] ?? {})) {
      expect(() => api.validator(`#/components/schemas/${name}`)).not.toThrow();
    }
    const source = ["../api/app.ts", "../api/ops/router.ts"]
      .map((file) => readFileSync(new URL(file, import.meta.url), "utf8"))
      .join();
    const routes = [...source.matchAll(/(?:\.route\(|^    )"(\/[^"]+)"/gm)].map(([, path]) =>
      path?.replace(":id", "{id}"),
    );
    expect(new Set(routes)).toEqual(new Set(Object.keys(api.document["paths"] ?? {})));
  });

  it("takes the bodies that the API takes, and refuses those that it refuses", async () => {
    const schema =
      api.document["paths"]?.["/v1/messages"]?.["post"]?.["requestBody"]?.["content"]?.["application/json"]?.[
        "schema"
      ];
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(
      schema as unknown as object,
    );
    expect(validate(hello({ reference: "r", validitySeconds: 5, webhookUrl: "https://a.example" }))).toBe(
      true,
    );
    for (const body of [
      {},
      hello({ to: "1" }),
      hello({ text: "" }),
      hello({ validitySeconds: 4 }),
      hello({ x: 1 }),
    ]) {
      expect(validate(body)).toBe(false);
    }
  });
});

describe("/livez and /readyz", () => {
  it("is not ready until every active supplier has a connection whose owner is alive", async () => {
    expect((await get("/livez", { key: null })).body).toEqual({ live: true });
    expect(await get("/readyz", { key: null })).toMatchObject({
      status: 503,
      body: { ready: false, database: { ready: true }, suppliers: { "supplier-1": { ready: false } } },
    });
    const connect = (age: string): Promise<unknown> =>
      api.sql(
        `INSERT INTO connections (supplier_id, slot, owner, epoch, connected, heartbeat_at)
         SELECT id, 1, 'test', 1, true, now() - $1::interval FROM suppliers
         ON CONFLICT (supplier_id, slot) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`,
        [age],
      );
    await connect("11 s");
    expect((await get("/readyz", { key: null })).status).toBe(503);
    await connect("1 s");
    expect(await get("/readyz", { key: null })).toMatchObject({ status: 200, body: { ready: true } });
  });
});

describe("when something is wrong here", () => {
  it("says so with a code and without a word of SQL, and takes the submission again later", async () => {
    await api.sql("ALTER TABLE inbox RENAME TO inbox_away");
    const before = await api.countOf("messages");
    const keyed = { headers: { "idempotency-key": "during an accident" } };
    const answer = await post("/v1/messages", hello({ text: "secret words" }), keyed);
    await api.sql("ALTER TABLE inbox_away RENAME TO inbox");
    expect(answer).toMatchObject({ status: 500, body: { code: "internal_error", retryable: true } });
    expect(answer.text).not.toMatch(/inbox|relation|INSERT|at .*\.ts/);
    expect(api.errorsLogged.join()).not.toMatch(/secret words|13800000000|inbox/);
    expect(await api.countOf("messages")).toBe(before);
    expect((await post("/v1/messages", hello({ text: "secret words" }), keyed)).status).toBe(202);
  });
});
