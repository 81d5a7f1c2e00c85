/** Messages by template over HTTP: what is stored is what the template makes (A3). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ApiClient, listOf, startApi, textOf } from "./api-client.ts";

let api: ApiClient;
beforeAll(async () => {
  api = await startApi();
  await api.sql(
    `INSERT INTO templates (id, application_id, body, status)
     VALUES ('tpl_code', 'app_demo', '您的验证码是{code}', 'approved'),
            ('tpl_waits', 'app_demo', 'waits', 'pending'),
            ('tpl_theirs', 'app_other', 'theirs', 'approved')`,
  );
});
afterAll(() => api.close());

const to = "13800000000";
const byWithdrawn = { to, templateId: "tpl_gone", templateParams: { x: "1" } };
const byTemplate = (code: string) => ({ to, templateId: "tpl_code", templateParams: { code } });

describe("a message by template", () => {
  it("has the text that the template makes, priced by it", async () => {
    const answer = await api.call("POST", "/v1/messages", { body: byTemplate("汉".repeat(70)) });
    expect(answer).toMatchObject({ status: 202, body: { segments: 2, encoding: "ucs2" } });
    const stored = await api.call("GET", `/v1/messages/${textOf(answer.body["id"])}`);
    expect(stored.body).toMatchObject({ text: `您的验证码是${"汉".repeat(70)}` });
  });

  it("is answered again under its key, and a conflict with other parameters (A1)", async () => {
    const post = (code: string) =>
      api.call("POST", "/v1/messages", { headers: { "idempotency-key": "k" }, body: byTemplate(code) });
    const first = await post("1");
    await api.sql(`UPDATE templates SET body = '新的验证码是{code}' WHERE id = 'tpl_code'`);
    const second = await post("1");
    expect(second.text).toBe(first.text);
    expect(second.headers.get("idempotency-replayed")).toBe("true");
    expect(await post("2")).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
  });

  it.each([
    ["a message", "/v1/messages", byWithdrawn],
    ["a batch of messages", "/v1/batches", { messages: [byWithdrawn, { to: "13800000009", text: "x" }] }],
    ["a batch of numbers", "/v1/batches", { ...byWithdrawn, to: [to, "no number"] }],
  ])(
    "is answered again under its key when the template is withdrawn meanwhile: %s (A1)",
    async (what, path, body) => {
      await api.sql(
        `INSERT INTO templates (id, application_id, body, status) VALUES ('tpl_gone', 'app_demo', 'bye {x}', 'approved')
       ON CONFLICT (id) DO UPDATE SET status = 'approved'`,
      );
      const post = (key: string, more = {}) =>
        api.call("POST", path, { headers: { "idempotency-key": key }, body: { ...body, ...more } });
      const first = await post(what);
      expect(first.status).toBe(202);
      const count = await api.countOf("messages");
      await api.sql(`UPDATE templates SET status = 'rejected' WHERE id = 'tpl_gone'`);

      const second = await post(what);

      expect(second.text).toBe(first.text);
      expect(second.headers.get("idempotency-replayed")).toBe("true");
      expect(await api.countOf("messages")).toBe(count);
      if (path === "/v1/messages") {
        expect((await post("new")).body["code"]).toBe("template_unknown");
        expect((await post(what, { reference: "another" })).body["code"]).toBe("idempotency_key_reused");
      }
    },
  );

  it.each([
    ["template_unknown", "templateId", { to, templateId: "tpl_none" }],
    ["template_unknown", "templateId", { to, templateId: "tpl_waits" }],
    ["template_unknown", "templateId", { to, templateId: "tpl_theirs" }],
    ["template_params_invalid", "templateParams.code", { to, templateId: "tpl_code" }],
    ["invalid_field", "text", { ...byTemplate("1"), text: "another" }],
  ])("is answered %s at %s (%#)", async (code, path, body) => {
    const answer = await api.call("POST", "/v1/messages", { body });
    expect(answer).toMatchObject({ status: 400, body: { code, errors: [{ path }] } });
  });

  it("stands in a batch beside others, each judged alone", async () => {
    const messages = [
      byTemplate("1"),
      { to: "13800000001", templateId: "tpl_waits" },
      { to: "13800000002", text: "x" },
    ];
    const { body } = await api.call("POST", "/v1/batches", { body: { messages } });
    expect(listOf(body["items"]).map((item) => item["problem"]?.["code"] ?? item["status"])).toEqual([
      "accepted",
      "template_unknown",
      "accepted",
    ]);
  });
});
