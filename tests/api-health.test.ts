/** Readiness of the whole, and how the API behaves when something around it is gone. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createApiService } from "../api/service.ts";
import { openDatabase } from "../db/client.ts";
import { startApi, type ApiClient } from "./api-client.ts";

const ROLES = ["attempts", "results", "notifier", "sweeper", "gateway"];

let folder: string;
let runFile: string;
let api: ApiClient;
let role: Server;
let roleStatus = 200;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "waybill-"));
  runFile = join(folder, "run.json");
  api = await startApi({ runFile });
  role = createServer((request, response) => {
    response.writeHead(request.url === "/livez" ? roleStatus : 404).end();
  });
  await new Promise<void>((resolve) => role.listen(0, "127.0.0.1", resolve));
  await api.sql(
    "INSERT INTO connections (supplier_id, slot, owner, epoch, connected, heartbeat_at) SELECT id, 1, 'test', 1, true, now() + interval '1 hour' FROM suppliers",
  );
});
afterAll(async () => {
  role.close();
  await api.close();
  await rm(folder, { recursive: true });
});

const run = (roles: string[]): Promise<void> => {
  const url = `http://127.0.0.1:${(role.address() as AddressInfo).port}/metrics`;
  return writeFile(
    runFile,
    JSON.stringify({ metrics: Object.fromEntries(roles.map((name) => [name, url])) }),
  );
};
const ready = () => api.call("GET", "/readyz", { key: null });

it("is ready when every role that the run file names says so, and none is missing", async () => {
  expect(await ready()).toMatchObject({ status: 503, body: { roles: { supervisor: { ready: false } } } });
  await run(ROLES);
  expect(await ready()).toMatchObject({
    status: 200,
    body: { ready: true, roles: { gateway: { ready: true } } },
  });
  await run(ROLES.slice(1));
  expect(await ready()).toMatchObject({
    status: 503,
    body: { roles: { attempts: { ready: false, detail: "not started" } } },
  });
  roleStatus = 503;
  await run(ROLES);
  expect(await ready()).toMatchObject({
    status: 503,
    body: { roles: { sweeper: { detail: "answers 503" } } },
  });
  roleStatus = 200;
  await writeFile(
    runFile,
    JSON.stringify({
      metrics: Object.fromEntries(ROLES.map((name) => [name, "http://127.0.0.1:1/"])),
    }),
  );
  expect(await ready()).toMatchObject({
    status: 503,
    body: { roles: { results: { detail: "not running" } } },
  });
});

it("is not ready while one supplier of three has no connection", async () => {
  await run(ROLES);
  await api.sql("UPDATE connections SET connected = false WHERE supplier_id = 'sup_3'");
  expect(await ready()).toMatchObject({
    status: 503,
    body: { suppliers: { "supplier-1": { ready: true }, "supplier-3": { ready: false } } },
  });
  await api.sql("UPDATE suppliers SET active = false WHERE id = 'sup_3'");
  expect((await ready()).status).toBe(200);
});

it("answers 503 with a retryable problem while PostgreSQL is away, and lives", async () => {
  const database = openDatabase("postgres://nobody@127.0.0.1:1/none", "api", 2);
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const options = { database, host: "127.0.0.1", port: 0, version: "0", runFile: undefined, log };
  const alone = createApiService({ ...options, mayCallWebhook: () => true });
  await alone.start();
  const answer = await fetch(`${alone.url()}/v1/account`, { headers: { authorization: "Bearer wbk_x" } });
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toBe("1");
  expect(await answer.json()).toMatchObject({ code: "temporarily_unavailable", retryable: true });
  expect((await fetch(`${alone.url()}/livez`)).status).toBe(200);
  expect(await (await fetch(`${alone.url()}/readyz`)).json()).toMatchObject({ database: { ready: false } });
  await alone.stop();
  await alone.stop();
  await database.close();
});

it("rejects its start with Node's own code where the port is taken", async () => {
  const database = openDatabase("postgres://nobody@127.0.0.1:1/none", "api", 2);
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const port = (role.address() as AddressInfo).port;
  const options = { database, host: "127.0.0.1", port, version: "0", runFile: undefined, log };
  const second = createApiService({ ...options, mayCallWebhook: () => true });
  await expect(second.start()).rejects.toMatchObject({ code: "EADDRINUSE" });
  await second.stop();
  await database.close();
});
