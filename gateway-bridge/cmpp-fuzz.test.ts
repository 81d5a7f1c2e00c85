/** What a supplier, or whoever answers in its place, may send: nothing of it leaves the connection it is on. */
import { createServer, type AddressInfo, type Socket } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { decode, encode, type CmppVersion, type Pdu } from "./cmpp-codec.ts";
import { Framer } from "./cmpp-frames.ts";
import { encodeReceipt } from "./cmpp-receipt.ts";
import { CmppSession } from "./cmpp-session.ts";

/** Logs everybody in and leaves the rest to the test. */
const sockets: Socket[] = [];
const server = createServer((socket) => {
  const framer = new Framer();
  sockets.push(socket);
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => {
    for (const frame of framer.push(chunk).frames) {
      const asked = decode(frame, "3.0");
      if (asked.ok && asked.pdu.command === "connect") socket.write(loginAnswer(asked.pdu.sequenceId));
    }
  });
});
const escaped: unknown[] = [];
const escape = (error: unknown): void => void escaped.push(error);

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  process.on("uncaughtException", escape);
  process.on("unhandledRejection", escape);
});
afterAll(() => {
  process.off("uncaughtException", escape);
  process.off("unhandledRejection", escape);
  for (const socket of sockets) socket.destroy();
  server.close();
});

const loginAnswer = (sequenceId: number): Buffer =>
  encode(
    { command: "connect_resp", sequenceId, status: 0, authenticator: Buffer.alloc(16), version: 0x30 },
    "3.0",
  );

interface Opened {
  session: CmppSession<number>;
  peer: Socket;
  delivers: () => number;
  closedWith: () => string | undefined;
}

async function open(version: CmppVersion): Promise<Opened> {
  let delivers = 0;
  let why: string | undefined;
  const session = new CmppSession<number>(
    {
      host: "127.0.0.1",
      port: (server.address() as AddressInfo).port,
      version,
      spId: "910001",
      secret: "s3cr3t",
      window: 16,
      responseTimeoutMs: 60_000,
      connectTimeoutMs: 5_000,
      heartbeatIdleMs: 60_000,
      heartbeatTimeoutMs: 60_000,
    },
    {
      response: () => undefined,
      unanswered: () => undefined,
      deliver: () => {
        delivers++;
        return Promise.resolve();
      },
      closed: (reason) => (why = reason),
    },
  );
  expect(await session.connect()).toMatchObject({ ok: true });
  const peer = sockets.at(-1);
  if (peer === undefined) throw new Error("nobody connected");
  return { session, peer, delivers: () => delivers, closedWith: () => why };
}

/** Written in these sizes, and on the wire when this resolves. */
async function pour(peer: Socket, bytes: Buffer, sizes: readonly number[]): Promise<void> {
  for (let at = 0, i = 0; at < bytes.length && !peer.destroyed; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    await new Promise((resolve) => peer.write(bytes.subarray(at, at + size), resolve));
    at += size;
  }
}

const PDUS: Pdu[] = [
  { command: "submit_resp", sequenceId: 2, msgId: "00000000000000aa", result: 0 },
  { command: "active_test", sequenceId: 3 },
  { command: "active_test_resp", sequenceId: 4 },
  { command: "cancel_resp", sequenceId: 5, result: 1 },
  { command: "query", sequenceId: 6, time: "20260801", queryType: 0, queryCode: "" },
  {
    command: "deliver",
    sequenceId: 7,
    msgId: "80a5f081e2400008",
    destId: "10690001",
    serviceId: "MT0001",
    tpPid: 0,
    udhi: 0,
    msgFmt: 0,
    sourceNumber: "13800138000",
    sourceType: 0,
    registeredDelivery: 1,
    content: encodeReceipt(
      {
        msgId: "80a5e141e2400007",
        stat: "DELIVRD",
        submitTime: null,
        doneTime: null,
        number: "13800138000",
        smscSequence: 1,
      },
      "3.0",
    ),
    linkId: "",
  },
];

const spoken = fc.constantFrom<CmppVersion[]>("2.0", "3.0");
const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 });

/** A frame of which bytes behind the length were changed: it stays one frame. */
const spoilt = fc
  .tuple(
    fc.constantFrom(...PDUS),
    spoken,
    fc.array(fc.tuple(fc.integer({ min: 4, max: 250 }), fc.nat(255)), { maxLength: 8 }),
  )
  .map(([pdu, version, spoils]) => {
    const bytes = encode(pdu, version);
    for (const [at, value] of spoils) if (at < bytes.length) bytes.writeUInt8(value, at);
    // A goodbye, however it came about, is obeyed: that is not what is asked here.
    return bytes.readUInt32BE(4) === 2 ? Buffer.alloc(0) : bytes;
  });
const noise = fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.from(bytes));

const NO_LENGTH = Buffer.from("ffffffff0000000500000001", "hex");

describe("a connection whose supplier sends anything at all", () => {
  it("stays up over frames with any content, and reads the one behind them whole (cmpp §2)", async () => {
    const heartbeat = encode({ command: "active_test", sequenceId: 77 }, "3.0");
    await fc.assert(
      fc.asyncProperty(fc.array(spoilt, { maxLength: 12 }), spoken, sizes, async (frames, version, cuts) => {
        const { session, peer, closedWith } = await open(version);
        const answered = new Promise<Buffer>((resolve) => {
          const framer = new Framer();
          peer.on("data", (chunk) => {
            for (const frame of framer.push(chunk).frames) if (frame.readUInt32BE(8) === 77) resolve(frame);
          });
        });
        await pour(peer, Buffer.concat([...frames, heartbeat]), cuts);
        // Also a spoilt frame may have this number; what it is answered with is a whole PDU all the same.
        expect(decode(await answered, version).ok).toBe(true);
        expect([session.ready, closedWith()]).toEqual([true, undefined]);
        session.destroy();
      }),
      { numRuns: 60 },
    );
    expect(escaped).toEqual([]);
  });

  it("ends alone where its bytes make no sense, whatever came before them (cmpp §2, 3)", async () => {
    const bystander = await open("3.0");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(spoilt, noise), { maxLength: 6 }), sizes, async (before, cuts) => {
        const { peer, closedWith } = await open("3.0");
        // Noise may have begun a frame of up to 4,096 bytes: that much is swallowed before the length is read.
        const filler = Buffer.alloc(4_096, 0xff);
        await pour(peer, Buffer.concat([...before, filler, NO_LENGTH]), [...cuts, 1_000]);
        await vi.waitFor(() => expect(closedWith()).toBe("broken_framing"), { timeout: 5_000, interval: 2 });
      }),
      { numRuns: 60 },
    );
    const before = bystander.delivers();
    bystander.peer.write(encode(PDUS[5] as Pdu, "3.0"));
    await vi.waitFor(() => expect(bystander.delivers()).toBe(before + 1), { timeout: 5_000, interval: 2 });
    expect([bystander.session.ready, bystander.closedWith(), escaped]).toEqual([true, undefined, []]);
    bystander.session.destroy();
  });
});
