/**
 * Every deviation of cmpp §14 that a simulated supplier can be told to have: seen on the wire by a tap
 * between, and got over by the session.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type CmppVersion, decode, encode, type Pdu, versionByte } from "./cmpp-codec.ts";
import type { ReceivedDeliver } from "./cmpp-deliver.ts";
import { Framer } from "./cmpp-frames.ts";
import { sourceAuthenticator } from "./cmpp-login.ts";
import { CmppSession, type OutgoingSubmit, type SessionOptions, type SubmitAnswer } from "./cmpp-session.ts";
import { takeProxyHeader } from "./proxy-header.ts";
import { startSimulator } from "./simulator.ts";
import type { Deviations } from "./simulator-deviations.ts";

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function deviant(
  version: CmppVersion,
  deviations: Deviations,
  more: { spId?: string; deliverWindow?: number } = {},
) {
  const dataDir = mkdtempSync(join(tmpdir(), "waybill-deviant-"));
  const simulator = await startSimulator({
    dataDir,
    receiptDelayMs: 10,
    timeScale: 0.01,
    deliverWindow: more.deliverWindow ?? 500,
    suppliers: [
      {
        name: "deviant",
        version,
        cmppPort: 0,
        logPort: 0,
        spId: more.spId ?? "910001",
        secret: "s3cr3t",
        window: 100,
        rate: 10_000,
        connections: 4,
        deviations,
      },
    ],
  });
  cleanups.push(
    () => rmSync(dataDir, { recursive: true, force: true }),
    () => simulator.stop(),
  );
  const [supplier] = simulator.suppliers;
  if (supplier === undefined) throw new Error("no supplier");
  return { supplier, tap: await tapBefore(supplier.cmppPort) };
}

/** Passes everything on, and keeps what the supplier says. */
async function tapBefore(target: number) {
  const chunks: number[] = [];
  const frames: Buffer[] = [];
  const server = createServer((near) => {
    const framer = new Framer();
    const far = connect(target, "127.0.0.1");
    const ends: [Socket, Socket][] = [
      [near, far],
      [far, near],
    ];
    for (const [one, other] of ends) {
      one.setNoDelay(true).on("error", () => undefined);
      one.once("close", () => other.destroy());
      one.pipe(other);
    }
    far.on("data", (chunk: Buffer) => {
      chunks.push(chunk.length);
      frames.push(...framer.push(chunk).frames.map((it) => Buffer.from(it)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => void server.close());
  const of = (commandId: number): Buffer[] => frames.filter((it) => it.readUInt32BE(4) === commandId);
  return { port: (server.address() as AddressInfo).port, chunks, frames, of };
}
const CONNECT_RESP = 0x8000_0001;
const SUBMIT_RESP = 0x8000_0004;
const DELIVER = 0x0000_0005;
const ACTIVE_TEST_RESP = 0x8000_0008;

async function login(port: number, version: CmppVersion, options: Partial<SessionOptions> = {}) {
  const answers: SubmitAnswer<string>[] = [];
  const delivers: ReceivedDeliver[] = [];
  const endings: string[] = [];
  const store = { deliver: (): Promise<void> => Promise.resolve() };
  const session = new CmppSession<string>(
    {
      host: "127.0.0.1",
      port,
      version,
      spId: "910001",
      secret: "s3cr3t",
      window: 100,
      responseTimeoutMs: 5_000,
      connectTimeoutMs: 5_000,
      heartbeatIdleMs: 60_000,
      heartbeatTimeoutMs: 5_000,
      ...options,
    },
    {
      response: (answer) => answers.push(answer),
      unanswered: () => undefined,
      deliver: (deliver) => {
        delivers.push(deliver);
        return store.deliver();
      },
      closed: (why) => endings.push(why),
    },
  );
  cleanups.push(() => session.destroy());
  const connected = await session.connect();
  const send = (to: string, more: Partial<OutgoingSubmit> = {}): void =>
    session.submit(to, {
      destination: to,
      srcId: "10690001",
      msgFmt: 0,
      content: Buffer.from("hi"),
      ...more,
    });
  return { session, connected, answers, delivers, endings, store, send };
}

const until = (condition: () => void): Promise<void> =>
  vi.waitFor(condition, { timeout: 10_000, interval: 5 });

/** One text: accepted, and its receipt read as what it means. */
async function expectDelivered(client: Awaited<ReturnType<typeof login>>): Promise<void> {
  client.send("13800138000");
  await until(() => expect(client.delivers).toHaveLength(1));
  await until(() => expect(client.answers).toHaveLength(1));
  const [answer] = client.answers;
  expect(answer).toMatchObject({ key: "13800138000", result: 0 });
  expect(client.delivers).toMatchObject([
    { kind: "receipt", msgId: answer?.msgId, stat: "DELIVRD", number: "13800138000", srcId: "10690001" },
  ]);
}

describe("a supplier that writes otherwise", () => {
  it.each<[string, CmppVersion, Deviations, number, (frame: Buffer) => unknown, unknown]>([
    ["60-byte receipts in 3.0 (1)", "3.0", { receiptBytes: 60 }, DELIVER, (it) => it.length, 169],
    ["71-byte receipts in 2.0 (1)", "2.0", { receiptBytes: 71 }, DELIVER, (it) => it.length, 156],
    [
      "a login's answer of 2.0 in 3.0 (2)",
      "3.0",
      { loginAnswer: "2.0" },
      CONNECT_RESP,
      (it) => it.length,
      30,
    ],
    [
      "a login's answer of 3.0 in 2.0 (2)",
      "2.0",
      { loginAnswer: "3.0" },
      CONNECT_RESP,
      (it) => it.length,
      33,
    ],
    [
      "states in lower case (12)",
      "3.0",
      { stat: "lower_case" },
      DELIVER,
      (it) => it.includes("delivrd"),
      true,
    ],
    [
      "no times (13)",
      "3.0",
      { times: "zeros" },
      DELIVER,
      (it) => it.includes("DELIVRD" + "0".repeat(20)),
      true,
    ],
    [
      "blank times (13)",
      "2.0",
      { times: "blanks" },
      DELIVER,
      (it) => it.includes("DELIVRD" + " ".repeat(20)),
      true,
    ],
    ["a shorter tail (20)", "3.0", { tailBytes: 9 }, DELIVER, (it) => it.length, 169],
    ["a longer tail (20)", "3.0", { tailBytes: 31 }, DELIVER, (it) => it.length, 191],
    [
      "numbers with +86 (21)",
      "3.0",
      { numberPrefix: "+86" },
      DELIVER,
      (it) => it.includes("+8613800138000"),
      true,
    ],
    [
      "numbers with 0086 (21)",
      "2.0",
      { numberPrefix: "0086" },
      DELIVER,
      (it) => it.includes("008613800138000"),
      true,
    ],
  ])("%s", async (_, version, deviations, commandId, look, seen) => {
    const { tap } = await deviant(version, deviations);
    await expectDelivered(await login(tap.port, version));
    expect(tap.of(commandId).map(look)).toEqual([seen]);
  });

  it("heartbeats without a body (3)", async () => {
    const { tap } = await deviant("3.0", { bareActiveTestResp: true });
    const { session, endings } = await login(tap.port, "3.0", { heartbeatIdleMs: 30 });
    await until(() => expect(tap.of(ACTIVE_TEST_RESP).length).toBeGreaterThan(2));
    expect(new Set(tap.of(ACTIVE_TEST_RESP).map((it) => it.length))).toEqual(new Set([12]));
    expect([session.ready, endings]).toEqual([true, []]);
  });

  it("everything a byte at a time (14)", async () => {
    const { tap } = await deviant("3.0", { byteByByte: true });
    await expectDelivered(await login(tap.port, "3.0"));
    // 33 + 24 + 180 bytes; some meet on their way.
    expect(tap.chunks.length).toBeGreaterThan(100);
  });

  it("CANCEL_RESP in four bytes (18)", async () => {
    const { supplier } = await deviant("2.0", { wideCancelResp: true });
    const { frames } = await rawly(supplier.cmppPort, "2.0", [
      { command: "cancel", sequenceId: 9, msgId: "80a5e141e2400007" },
    ]);
    await until(() => expect(frames.map((it) => it.length)).toEqual([30, 16]));
    expect(decode(frames[1] ?? Buffer.alloc(0), "2.0")).toMatchObject({ ok: true, pdu: { result: 1 } });
  });
});

describe("a supplier that acts otherwise", () => {
  it("tells the receipt before the answer (5)", async () => {
    const { tap } = await deviant("3.0", { receiptFirst: true });
    await expectDelivered(await login(tap.port, "3.0"));
    const order = tap.frames
      .map((it) => it.readUInt32BE(4))
      .filter((it) => it === DELIVER || it === SUBMIT_RESP);
    expect(order).toEqual([DELIVER, SUBMIT_RESP]);
  });

  it("tells the receipt on another connection (6)", async () => {
    const { tap } = await deviant("3.0", { otherConnection: true });
    const [one, other] = [await login(tap.port, "3.0"), await login(tap.port, "3.0")];
    one.send("13800138000");
    await until(() => expect(other.delivers).toHaveLength(1));
    expect([one.answers.length, one.delivers.length]).toEqual([1, 0]);
  });

  it.each<[string, Deviations, string[]]>([
    ["three times", { receiptTimes: 3 }, ["1", "1", "1", "2", "2", "2"]],
    ["never", { receiptTimes: 0 }, []],
    ["for the first part alone", { onlyPart: "first" }, ["1"]],
    ["for the last part alone", { onlyPart: "last" }, ["2"]],
  ])("tells receipts %s (7)", async (_, deviations, parts) => {
    const { tap } = await deviant("3.0", deviations);
    const client = await login(tap.port, "3.0");
    for (const part of [1, 2]) {
      client.send("13800138000", {
        content: Buffer.from([5, 0, 3, 7, 2, part, 0x61]),
        udhi: true,
        pkTotal: 2,
        pkNumber: part,
      });
    }
    await until(() => expect(client.answers).toHaveLength(2));
    const partOf = new Map(client.answers.map(({ msgId }, index) => [msgId, String(index + 1)]));
    client.send("13800138001");
    await until(() => expect(client.answers).toHaveLength(3));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const told = client.delivers.flatMap((it) => (it.kind === "receipt" ? (partOf.get(it.msgId) ?? []) : []));
    expect(told.sort()).toEqual(parts);
  });

  it("answers late, three times, and a long text from behind (8)", async () => {
    const { tap } = await deviant("3.0", { answerTimes: 3, answerDelayMs: 60, answersReversed: true });
    const client = await login(tap.port, "3.0", { responseTimeoutMs: 20 });
    for (const part of [1, 2]) {
      client.session.submit(`part ${part}`, {
        destination: "13800138000",
        srcId: "10690001",
        msgFmt: 0,
        content: Buffer.from([5, 0, 3, 7, 2, part, 0x61]),
        udhi: true,
        pkTotal: 2,
        pkNumber: part,
      });
    }
    await until(() => expect(client.answers).toHaveLength(6));
    expect(client.answers.map(({ key }) => key)).toEqual([
      ...Array(3).fill("part 2"),
      ...Array(3).fill("part 1"),
    ]);
  });

  it.each(["padded", "bare"] as const)("wants a short login %s and no other way (9)", async (shortLogin) => {
    const { tap } = await deviant("3.0", { shortLogin }, { spId: "9101" });
    for (const tried of ["padded", "bare"] as const) {
      const { connected } = await login(tap.port, "3.0", { spId: "9101", shortLogin: tried });
      expect(connected.ok).toBe(tried === shortLogin);
    }
  });

  it("wants a Msg_src of its own (10)", async () => {
    const { tap } = await deviant("3.0", { msgSrc: "777777" });
    const client = await login(tap.port, "3.0");
    client.send("13800138000");
    client.send("13800138001", { msgSrc: "777777" });
    await until(() => expect(client.answers.map(({ result }) => result)).toEqual([11, 0]));
  });

  it("throttles in bursts (11)", async () => {
    const { tap } = await deviant("3.0", { throttleBursts: { after: 2, count: 3 } });
    const client = await login(tap.port, "3.0");
    for (let i = 0; i < 10; i++) client.send(`1380013800${i}`);
    await until(() => expect(client.answers).toHaveLength(10));
    expect(client.answers.map(({ result }) => result)).toEqual([0, 0, 8, 8, 8, 0, 0, 8, 8, 8]);
  });

  it("says goodbye at any time (15)", async () => {
    const { tap } = await deviant("3.0", { terminateAfterMs: 30 });
    const { endings } = await login(tap.port, "3.0");
    await until(() => expect(endings).toEqual(["peer_terminated"]));
  });

  it("asks whether we are there (16)", async () => {
    const { supplier } = await deviant("3.0", { activeTestEveryMs: 10 });
    const { session } = await login(supplier.cmppPort, "3.0");
    const { frames } = await rawly(supplier.cmppPort, "3.0", []);
    await until(() => expect(frames.length).toBeGreaterThan(3));
    expect(frames.slice(1).every((it) => it.readUInt32BE(4) === 8)).toBe(true);
    expect(session.ready).toBe(true);
  });

  it("sends receipts without waiting for any to be answered (22)", async () => {
    const { tap } = await deviant("3.0", { floods: true }, { deliverWindow: 2 });
    const client = await login(tap.port, "3.0");
    client.store.deliver = () => new Promise(() => undefined);
    for (let i = 0; i < 10; i++) client.send(`1380013800${i}`);
    await until(() => expect(client.delivers).toHaveLength(10));
  });

  it("stands behind a balancer that says who connects (24)", async () => {
    const { supplier } = await deviant("3.0", { proxyHeader: true });
    const v1 = Buffer.from("PROXY TCP4 192.0.2.1 192.0.2.2 50000 7890\r\n");
    const v2 = Buffer.concat([Buffer.from("0d0a0d0a000d0a515549540a2111000c", "hex"), Buffer.alloc(12)]);
    for (const header of [v1, v2]) {
      const { frames } = await rawly(supplier.cmppPort, "3.0", [], header);
      await until(() => expect(frames.map((it) => it.length)).toEqual([33]));
    }
    const { connected } = await login(supplier.cmppPort, "3.0");
    expect(connected).toEqual({ ok: false, why: "closed" });
  });
});

describe("a PROXY header", () => {
  const v1 = Buffer.from("PROXY UNKNOWN\r\n");
  const v2 = Buffer.from("0d0a0d0a000d0a515549540a20000000", "hex");
  const behind = Buffer.from("what follows");

  it.each([
    ["version 1", v1],
    ["version 2", v2],
  ])("of %s is found whole wherever it is cut, and nothing behind it is lost", (_, header) => {
    const bytes = Buffer.concat([header, behind]);
    for (let cut = 0; cut < header.length; cut++) {
      expect(takeProxyHeader(bytes.subarray(0, cut))).toEqual({ is: "incomplete" });
    }
    expect(takeProxyHeader(bytes)).toEqual({ is: "whole", rest: behind });
  });

  it.each([
    ["a CONNECT", encode({ command: "terminate", sequenceId: 1 }, "3.0")],
    ["a line without an end", Buffer.from("PROXY " + "x".repeat(200))],
    ["more addresses than there are", Buffer.from("0d0a0d0a000d0a515549540a2111ffff", "hex")],
  ])("is not seen in %s", (_, bytes) => {
    expect(takeProxyHeader(bytes)).toEqual({ is: "none" });
  });
});

/** Logs in and says these, with no session between; keeps every frame that is read. */
async function rawly(port: number, version: CmppVersion, pdus: Pdu[], header = Buffer.alloc(0)) {
  const frames: Buffer[] = [];
  const framer = new Framer();
  const socket = connect(port, "127.0.0.1");
  cleanups.push(() => void socket.destroy());
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => frames.push(...framer.push(chunk).frames.map((it) => Buffer.from(it))));
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  const timestamp = "0801093005";
  const authenticator = sourceAuthenticator("910001", "s3cr3t", timestamp);
  const hello: Pdu = {
    command: "connect",
    sequenceId: 1,
    sourceAddr: "910001",
    authenticator,
    version: versionByte(version),
    timestamp,
  };
  socket.write(header);
  socket.write(Buffer.concat([hello, ...pdus].map((pdu) => encode(pdu, version))));
  return { frames, socket };
}
