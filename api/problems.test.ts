import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import { expect, it } from "vitest";
import { openDatabase } from "../db/client.ts";
import { newDataKeys, parseDataKeys } from "../db/data-keys.ts";
import { openVault } from "../db/vault.ts";
import { findMessages } from "./messages.ts";
import { problemEdge } from "./problems.ts";

/** Nobody listens there. */
const AWAY = "postgres://127.0.0.1:1/away";

it("answers 503 where a list finds no database, and logs the code without the values asked for", async () => {
  const database = openDatabase(AWAY, "api", 1, openVault(parseDataKeys(newDataKeys())));
  const logged: object[] = [];
  const log = { info: () => undefined, warn: () => undefined, error: (what: object) => logged.push(what) };
  const app = express();
  app.use((_request, response, next) => {
    response.locals["caller"] = { applicationId: "app_a" };
    next();
  });
  app.get("/", findMessages(database));
  app.use(problemEdge(log));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const answer = await fetch(`http://127.0.0.1:${port}/?to=13800000000`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ code: "temporarily_unavailable", retryable: true });
    expect(logged).toMatchObject([{ error: "ECONNREFUSED" }]);
    expect(JSON.stringify(logged)).not.toContain("13800000000");
  } finally {
    server.close();
    await database.close();
  }
});
