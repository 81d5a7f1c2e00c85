/** The operators' commands against an API of their own: what they print, and the exit code. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openStreamSurvey } from "../gateway-bridge/streams.ts";
import { writeRunFile } from "../scripts/run-file.ts";
import { waybill } from "../scripts/waybill.ts";
import { startApi, type ApiClient } from "./api-client.ts";
import { connect } from "./facts.ts";
import { placeIn } from "./place.ts";
import { servers, uniqueName } from "./servers.ts";

let api: ApiClient;
let home: string;
let printed: string[];

beforeAll(async () => {
  const prefix = `${uniqueName("commands")}:`;
  api = await startApi({ openSurvey: () => openStreamSurvey(servers.redisUrl(), prefix) });
  await connect(api.database, "sup_1");
  home = await mkdtemp(path.join(tmpdir(), "waybill-commands-"));
  writeRunFile(home, {
    api: api.url,
    console: `${api.url}/console`,
    temporalUi: null,
    temporalAddress: "",
    databaseUrl: "",
    redisUrl: "",
    metrics: {},
    suppliers: [],
    apiKey: api.demoKey,
    opsToken: api.opsToken,
    viewerToken: api.viewerToken,
    webhookSecret: "",
    pids: {},
  });
});
afterAll(async () => {
  await api.close();
  await rm(home, { recursive: true });
});
beforeEach(() => {
  printed = [];
  vi.spyOn(console, "log").mockImplementation((line: string) => void printed.push(line));
  vi.spyOn(console, "error").mockImplementation((line: string) => void printed.push(line));
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
});

const run = (...args: string[]): Promise<number> => waybill(args, placeIn(home));

/** The one document that was printed. */
const document = (): unknown => {
  expect(printed).toHaveLength(1);
  return JSON.parse(printed[0] ?? "");
};

describe("every command", () => {
  it.each([
    ["channels", { channels: expect.any(Array) }],
    ["publication", { mode: "live" }],
    ["books", { balanced: true, accounts: 2, differences: [] }],
    ["reconcile", { differences: [] }],
    ["alerts", { alerts: [], nextCursor: null }],
    ["reviews", { reviews: [], nextCursor: null }],
    ["webhooks", { deliveries: [], nextCursor: null }],
  ])("%s --json prints exactly one document", async (command, expected) => {
    expect(await run(command, "--json")).toBe(0);
    expect(document()).toMatchObject(expected);
  });

  it.each(["channels", "publication", "books", "reconcile", "alerts", "reviews", "webhooks"])(
    "%s prints lines for people, without a number of JSON or an undefined in them",
    async (command) => {
      expect(await run(command)).toBe(0);
      expect(printed.join("\n")).not.toMatch(/[{}]|undefined|NaN|Infinity/);
    },
  );

  it.each([
    ["channels", "explode"],
    ["channels", "disable"],
    ["publication", "off"],
    ["publication", "--application", "app_demo"],
    ["alerts", "clear"],
    ["webhooks", "replay"],
    ["books", "--nothing"],
  ])("%s %s is wrong usage: 2", async (...args) => {
    expect(await run(...args)).toBe(2);
  });

  it.each([
    ["channels", "disable", "chn_none"],
    ["alerts", "clear", "alr_99"],
    ["webhooks", "replay", "evt_none"],
  ])("%s %s %s is refused by the API: 1, and one document says why", async (...args) => {
    expect(await run(...args, "--json")).toBe(1);
    expect(document()).toEqual({ error: "404 not_found: There is nothing at this address" });
  });
});

describe("what a command changes", () => {
  it("a channel, with its note in the audit trail", async () => {
    expect(await run("channels", "disable", "chn_demo_1", "--note", "too slow")).toBe(0);
    expect(printed).toEqual(["chn_demo_1: disabled"]);
    printed = [];
    await run("channels");
    expect(printed.join()).toMatch(/chn_demo_1 +supplier-1 +disabled +grp_demo:10 +1\/2 +0\/32 +200/);
    const [row] = await api.sql("SELECT actor, note FROM audit_log WHERE subject = 'chn_demo_1'");
    expect(row).toEqual({ actor: "tok_operator", note: "too slow" });
    expect(await run("channels", "enable", "chn_demo_1")).toBe(0);
  });

  it("publication", async () => {
    expect(await run("publication", "paused")).toBe(0);
    expect(printed).toEqual(["Publication is paused: changed from live to paused"]);
    expect(await run("publication", "live")).toBe(0);
  });

  it("publication of one application", async () => {
    expect(await run("publication", "shadow", "--application", "app_demo")).toBe(0);
    expect(printed).toEqual(["Publication of app_demo is shadow: changed from inherit to shadow"]);
    printed = [];
    await run("publication");
    expect(printed.join("\n").split("\n")).toEqual([
      expect.stringMatching(/^Publication is live/),
      expect.stringMatching(/^ {2}app_demo is shadow since .*, by tok_operator\.$/),
    ]);
    printed = [];
    expect(await run("publication", "inherit", "--application", "app_demo")).toBe(0);
    expect(printed).toEqual(["Publication of app_demo is live: changed from shadow to inherit"]);
  });

  it("webhooks of a stretch of time", async () => {
    expect(await run("webhooks", "replay", "--since", "2026-01-01T00:00:00Z", "--json")).toBe(0);
    expect(document()).toEqual({ replayed: 0 });
    printed = [];
    expect(await run("webhooks", "replay", "--since", "yesterday")).toBe(1);
    expect(await run("webhooks", "replay", "--since", "2026-01-01T00:00:00Z", "--status", "lost")).toBe(2);
  });

  it("an alert", async () => {
    await api.sql("INSERT INTO alerts (kind, subject) VALUES ('step_overdue', 'att_1')");
    await run("alerts");
    const id = /alr_\d+/.exec(printed.join())?.[0] ?? "";
    printed = [];
    expect(await run("alerts", "clear", id)).toBe(0);
    expect(printed).toEqual([`${id}: cleared`]);
  });
});

describe("books and reconcile", () => {
  it("say no with the answer itself and 1 where the books do not balance", async () => {
    await api.sql("UPDATE accounts SET held_units = held_units + 7 WHERE id = 'acc_demo'");
    expect(await run("books", "--json")).toBe(1);
    expect(document()).toMatchObject({ balanced: false, differences: [{ accountId: "acc_demo" }, {}] });
    printed = [];
    expect(await run("books")).toBe(1);
    expect(printed.join()).toMatch(/DO NOT balance[^]*acc_demo +held +7 +0/);
    await api.sql("UPDATE accounts SET held_units = held_units - 7 WHERE id = 'acc_demo'");
  });
});
