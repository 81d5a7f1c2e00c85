import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, vi } from "vitest";
import { CmppSession } from "./cmpp-session.ts";

/** It has no types of its own. From below the range of outgoing connections: a restart finds it free. */
const PORTS: string = "../scripts/ports.mjs";
const { freePorts } = (await import(PORTS)) as { freePorts: () => (what: string) => Promise<number> };

const MAIN = fileURLToPath(new URL("./simulator-main.ts", import.meta.url));

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean();
});

/** The role as its supervisor starts it, with its stdin held open. */
function startRole(environment: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, ["--import", "tsx", MAIN], {
    env: { ...process.env, WAYBILL_LOG_LEVEL: "silent", ...environment },
    stdio: ["pipe", "ignore", "inherit"],
  });
  cleanups.push(() => child.kill("SIGKILL"));
  return child;
}

async function roleWithOneSupplier(extra: Record<string, string> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "simulator-"));
  cleanups.push(() => rmSync(dataDir, { recursive: true }));
  const choose = freePorts();
  const [cmppPort, logPort, metricsPort] = [
    await choose("cmpp"),
    await choose("log"),
    await choose("metrics"),
  ];
  const supplier = { name: "first", version: "3.0", cmppPort, logPort, spId: "910001", secret: "s3cr3t" };
  const environment = {
    WAYBILL_SIMULATOR: JSON.stringify({ dataDir, receiptDelayMs: 0, suppliers: [supplier] }),
    WAYBILL_METRICS_PORT: String(metricsPort),
    ...extra,
  };
  const health = `http://127.0.0.1:${metricsPort}`;
  return { child: startRole(environment), environment, cmppPort, logPort, health };
}

const reachable = (address: string): Promise<void> =>
  vi.waitFor(async () => expect((await fetch(address)).status).toBe(200), { timeout: 10_000, interval: 20 });

describe("the simulator's process", () => {
  it("goes on after kill -9 with what it had answered and still owes (interfaces §6)", async () => {
    const { child, environment, cmppPort, logPort, health } = await roleWithOneSupplier();
    await reachable(`${health}/readyz`);
    const received: string[] = [];
    const answered: string[] = [];
    const connect = async (store: () => Promise<void>) => {
      const session = new CmppSession<string>(
        {
          host: "127.0.0.1",
          port: cmppPort,
          version: "3.0",
          spId: "910001",
          secret: "s3cr3t",
          window: 16,
          responseTimeoutMs: 5_000,
          connectTimeoutMs: 5_000,
          heartbeatIdleMs: 60_000,
          heartbeatTimeoutMs: 60_000,
        },
        {
          response: ({ msgId }) => answered.push(msgId),
          unanswered: () => undefined,
          closed: () => undefined,
          deliver: (deliver) => {
            if (deliver.kind === "receipt") received.push(deliver.msgId);
            return store();
          },
        },
      );
      expect(await session.connect()).toMatchObject({ ok: true });
      cleanups.push(() => session.destroy());
      return session;
    };

    const session = await connect(() => Promise.reject(new Error("not stored")));
    session.submit("key", {
      srcId: "10690001",
      destination: "13800138000",
      msgFmt: 0,
      content: Buffer.from("hello"),
    });
    await vi.waitFor(() => expect(answered).toHaveLength(1), { timeout: 5_000, interval: 1 });
    child.kill("SIGKILL");
    await once(child, "exit");

    received.length = 0;
    startRole(environment);
    await reachable(`${health}/livez`);
    await connect(() => Promise.resolve());
    await vi.waitFor(() => expect(received).toEqual(answered), { timeout: 5_000 });
    const submits = await fetch(`http://127.0.0.1:${logPort}/submits?to=13800138000`);
    expect(await submits.json()).toMatchObject([{ msgId: answered[0], result: 0 }]);
    const metrics = await (await fetch(`${health}/metrics`)).text();
    expect(metrics).toContain('waybill_simulator{supplier="first",count="accepted"} 1');
  });

  it("ends cleanly when asked to", async () => {
    const { child, health } = await roleWithOneSupplier();
    await reachable(`${health}/readyz`);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("ends with whoever started it when tethered", async () => {
    const { child, health } = await roleWithOneSupplier({ WAYBILL_TETHERED: "1" });
    await reachable(`${health}/readyz`);
    child.stdin?.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it.each([
    ["a port that is taken", 1],
    ["options that are none", 2],
  ])("says no to %s", async (what, code) => {
    const holder = createServer().listen(0, "127.0.0.1");
    await once(holder, "listening");
    cleanups.push(() => holder.close());
    const dataDir = mkdtempSync(join(tmpdir(), "simulator-"));
    cleanups.push(() => rmSync(dataDir, { recursive: true }));
    const { port } = holder.address() as AddressInfo;
    const supplier = { name: "a", version: "2.0", cmppPort: port, logPort: 0, spId: "1", secret: "s" };
    const options = what.startsWith("a port")
      ? { dataDir, suppliers: [supplier] }
      : { dataDir, suppliers: [] };
    const child = startRole({ WAYBILL_SIMULATOR: JSON.stringify(options) });
    expect(await once(child, "exit")).toEqual([code, null]);
  });
});
