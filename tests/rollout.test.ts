/** The stages of docs/rollout.md, one after another on one running chain: out, and back (C5, C6, H). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newToken, tokenHash } from "../db/keys.ts";
import { type Chain, startChain } from "./chain.ts";
import { ask, openSender } from "./facts.ts";
import { until } from "./servers.ts";

let chain: Chain;
let other: { applicationId: string; key: string };
beforeAll(async () => {
  chain = await startChain();
  other = await openApplication();
});
afterAll(() => chain.stop());

async function openApplication(): Promise<typeof other> {
  const { applicationId } = await openSender(chain.database, 1_000_000n);
  const key = newToken("wbk");
  await ask(
    chain.database,
    `INSERT INTO api_keys (id, application_id, secret_hash) VALUES ('key_2', $1, $2)`,
    [applicationId, tokenHash(key)],
  );
  return { applicationId, key };
}

const publication = (mode: string, application?: string) =>
  chain.call("PUT", "/ops/v1/publication", { mode, application });
const differences = async () => (await chain.call("GET", "/ops/v1/reconcile")).body["differences"];
const unanswered = async () => (await chain.call("GET", "/ops/v1/overview")).body["unansweredWrites"];

async function sendAsOther(to: string): Promise<string> {
  const { status, body } = await chain.call("POST", "/v1/messages", { to, text: "hello" }, other.key);
  expect(status).toBe(202);
  return String(body["id"]);
}

/** As facts say: the first application's key cannot read the other one's messages. */
const statusOf = async (id: string) =>
  (await ask<{ status: string }>(chain.database, `SELECT status FROM messages WHERE id = $1`, [id]))[0]
    ?.status;
const untilStatus = (id: string, status: string) =>
  until(`${id} is ${status}`, async () => (await statusOf(id)) === status);

describe("a rollout in stages", () => {
  const numbers = { first: "13000000001", other: "13000000002", rehearsal: "13000000003" };
  const ids: Record<string, string> = {};

  it("1: in shadow commands are made and compared, and no supplier gets anything", async () => {
    await publication("shadow");
    ids["first"] = await chain.send(numbers.first);
    ids["rehearsal"] = await chain.send(numbers.rehearsal);
    ids["other"] = await sendAsOther(numbers.other);
    for (const id of Object.values(ids)) await untilStatus(id, "queued");
    await until("all are in the shadow stream", async () => {
      const rows = await ask(chain.database, `SELECT 1 FROM submit_outbox WHERE shadow_entry_id IS NULL`);
      return rows.length === 0;
    });
    expect(await differences()).toEqual([]);
    for (const to of Object.values(numbers)) expect(await chain.witnessed(to)).toEqual([]);
  });

  it("1: what nobody shall get is canceled before anything goes live", async () => {
    expect((await chain.call("POST", `/v1/messages/${ids["rehearsal"]}/cancel`)).status).toBe(200);
  });

  it("2: one application goes live alone", async () => {
    await publication("live", other.applicationId);
    await untilStatus(ids["other"] ?? "", "delivered");
    expect(await statusOf(ids["first"] ?? "")).toBe("queued");
    expect(await chain.witnessed(numbers.first)).toEqual([]);
    const story = await chain.story(ids["first"] ?? "");
    expect((story["waitingFor"] as { what: string }).what).toMatch(/in shadow/);
    expect((await chain.books()).balanced).toBe(true);
  });

  it("4: all go live, each command once, and what was canceled never", async () => {
    await publication("live");
    await publication("inherit", other.applicationId);
    await chain.untilFinal(ids["first"] ?? "");
    expect(await chain.witnessed(numbers.first)).toHaveLength(1);
    expect(await chain.witnessed(numbers.other)).toHaveLength(1);
    expect(await chain.witnessed(numbers.rehearsal)).toEqual([]);
    expect(await differences()).toEqual([]);
    expect((await chain.books()).balanced).toBe(true);
  });
});

describe("a way back", () => {
  const numbers = Array.from({ length: 12 }, (_, index) => `1310000${String(index).padStart(4, "0")}`);

  it("pauses in the middle, lets what is under way end, and goes on with nothing lost or doubled", async () => {
    const ids: string[] = [];
    for (const [index, to] of numbers.entries()) {
      if (index === numbers.length / 2) await publication("paused");
      ids.push(await chain.send(to));
    }
    await until("nothing is under way", async () => {
      const publishing = await ask(chain.database, `SELECT 1 FROM submit_outbox WHERE status = 'publishing'`);
      const { count } = (await unanswered()) as { count: number };
      return publishing.length === 0 && count === 0;
    });
    expect(await differences()).toEqual([]);
    for (const to of numbers.slice(numbers.length / 2)) expect(await chain.witnessed(to)).toEqual([]);

    await publication("live");
    for (const id of ids) expect((await chain.untilFinal(id)).status).toBe("delivered");
    for (const to of numbers) expect(await chain.witnessed(to)).toHaveLength(1);
    expect((await chain.books()).balanced).toBe(true);
  });
});
