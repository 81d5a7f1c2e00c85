import { createServer, Socket, type AddressInfo, type Server } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { decode, encode, type CmppVersion, type Pdu } from "./cmpp-codec.ts";
import type { ReceivedDeliver } from "./cmpp-deliver.ts";
import { FieldError } from "./cmpp-fields.ts";
import { Framer } from "./cmpp-frames.ts";
import { encodeReceipt } from "./cmpp-receipt.ts";
import {
  CmppSession,
  SessionNotReady,
  type OutgoingSubmit,
  type SessionOptions,
  type SubmitAnswer,
} from "./cmpp-session.ts";

const opened: (() => void)[] = [];
afterEach(() => {
  for (const close of opened.splice(0)) close();
});

/** A peer whose every byte the test decides: it logs in whoever asks and remembers what it read. */
class Peer {
  readonly read: Pdu[] = [];
  readonly version: CmppVersion;
  socket: Socket | undefined;
  hungUp = false;
  readonly #server: Server;
  readonly #answerLogin: (peer: Peer, sequenceId: number) => void;

  constructor(version: CmppVersion, answerLogin: (peer: Peer, sequenceId: number) => void = accept) {
    this.version = version;
    this.#answerLogin = answerLogin;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    opened.push(() => {
      this.socket?.destroy();
      this.#server.close();
    });
    return (this.#server.address() as AddressInfo).port;
  }

  send(...pdus: Pdu[]): void {
    this.socket?.write(Buffer.concat(pdus.map((pdu) => encode(pdu, this.version))));
  }

  of<C extends Pdu["command"]>(command: C): (Pdu & { command: C })[] {
    return this.read.filter((pdu): pdu is Pdu & { command: C } => pdu.command === command);
  }

  #serve(socket: Socket): void {
    this.socket = socket;
    const framer = new Framer();
    socket.on("error", () => undefined);
    socket.on("close", () => (this.hungUp = true));
    socket.on("data", (chunk) => {
      for (const frame of framer.push(chunk).frames) {
        const decoded = decode(frame, this.version);
        if (!decoded.ok) throw new Error(decoded.why);
        this.read.push(decoded.pdu);
        if (decoded.pdu.command === "connect") this.#answerLogin(this, decoded.pdu.sequenceId);
      }
    });
  }
}

function connectResp(sequenceId: number, status: number): Pdu {
  return { command: "connect_resp", sequenceId, status, authenticator: Buffer.alloc(16), version: 0x30 };
}

function accept(peer: Peer, sequenceId: number): void {
  peer.send(connectResp(sequenceId, 0));
}

class Recorder {
  readonly answers: SubmitAnswer<string>[] = [];
  readonly unansweredKeys: string[] = [];
  readonly delivers: ReceivedDeliver[] = [];
  readonly closings: { why: string; unanswered: string[] }[] = [];
  readonly ignoredThings: string[] = [];
  freed = 0;
  handleDeliver: () => Promise<void> = () => Promise.resolve();

  response(answer: SubmitAnswer<string>): void {
    this.answers.push(answer);
  }
  unanswered(key: string): void {
    this.unansweredKeys.push(key);
  }
  deliver(deliver: ReceivedDeliver): Promise<void> {
    this.delivers.push(deliver);
    return this.handleDeliver();
  }
  closed(why: string, unanswered: string[]): void {
    this.closings.push({ why, unanswered });
  }
  windowFree(): void {
    this.freed++;
  }
  ignored(what: string): void {
    this.ignoredThings.push(what);
  }
}

const text: OutgoingSubmit = {
  srcId: "10690001",
  destination: "13800138000",
  msgFmt: 0,
  content: Buffer.from("hello"),
};

function sessionTo(port: number, options: Partial<SessionOptions> = {}) {
  const events = new Recorder();
  const session = new CmppSession<string>(
    {
      host: "127.0.0.1",
      port,
      version: "3.0",
      spId: "910001",
      secret: "s3cr3t",
      window: 4,
      responseTimeoutMs: 5_000,
      connectTimeoutMs: 2_000,
      heartbeatIdleMs: 60_000,
      heartbeatTimeoutMs: 60_000,
      ...options,
    },
    events,
  );
  opened.push(() => session.destroy());
  return { session, events };
}

async function connected(peer: Peer, options: Partial<SessionOptions> = {}) {
  const port = await peer.listen();
  const made = sessionTo(port, { version: peer.version, ...options });
  expect(await made.session.connect()).toMatchObject({ ok: true });
  return { ...made, port };
}

const until = (condition: () => void): Promise<void> =>
  vi.waitFor(condition, { timeout: 5_000, interval: 5 });
/** Waits until it is asked. */
async function answerActiveTest(peer: Peer): Promise<void> {
  await until(() => expect(peer.of("active_test").length).toBeGreaterThan(0));
  peer.send({ command: "active_test_resp", sequenceId: peer.of("active_test").at(-1)?.sequenceId ?? 0 });
}
const answerTo = (sequenceId: number, msgId = "00000000000000aa", result = 0): Pdu => ({
  command: "submit_resp",
  sequenceId,
  msgId,
  result,
});

const receiptPdu = (sequenceId: number): Pdu => ({
  command: "deliver",
  sequenceId,
  msgId: "00000000000000dd",
  destId: "10690001",
  serviceId: "",
  tpPid: 0,
  udhi: 0,
  msgFmt: 0,
  sourceNumber: "13800138000",
  sourceType: 0,
  registeredDelivery: 1,
  content: encodeReceipt(
    {
      msgId: "00000000000000aa",
      stat: "DELIVRD",
      submitTime: null,
      doneTime: null,
      number: "13800138000",
      smscSequence: 1,
    },
    "3.0",
  ),
  linkId: "",
});

describe("login", () => {
  it.each([
    [2, "auth"],
    [3, "auth"],
    [57, "auth"],
    [4, "version"],
    [55, "too_many"],
    [56, "too_many"],
    [1, "rejected"],
    [58, "rejected"],
  ])("that is refused with status %i says %s and closes", async (status, why) => {
    const peer = new Peer("3.0", (to, sequenceId) => to.send(connectResp(sequenceId, status)));
    const { session, events } = sessionTo(await peer.listen());
    expect(await session.connect()).toEqual({ ok: false, why, status });
    await until(() => expect(peer.hungUp).toBe(true));
    expect(session.ready).toBe(false);
    expect(events.closings).toEqual([]);
  });

  it("accepts an answer in the size of the other version (cmpp §14, 2)", async () => {
    for (const [spoken, answered] of [
      ["2.0", "3.0"],
      ["3.0", "2.0"],
    ] as const) {
      const peer = new Peer(spoken, (to, sequenceId) =>
        to.socket?.write(encode(connectResp(sequenceId, 0), answered)),
      );
      const { session } = sessionTo(await peer.listen(), { version: spoken });
      expect(await session.connect()).toMatchObject({ ok: true, serverAuthenticated: false });
    }
  });

  it("says refused where nobody listens", async () => {
    const peer = new Peer("3.0");
    const port = await peer.listen();
    for (const close of opened.splice(0)) close();
    expect(await sessionTo(port).session.connect()).toEqual({ ok: false, why: "refused" });
  });

  it("says timeout when no answer comes, and closes", async () => {
    const peer = new Peer("3.0", () => undefined);
    const { session } = sessionTo(await peer.listen(), { connectTimeoutMs: 50 });
    expect(await session.connect()).toEqual({ ok: false, why: "timeout" });
    await until(() => expect(peer.hungUp).toBe(true));
  });

  it("says closed when the peer hangs up, and malformed when it speaks no CMPP", async () => {
    const rude = new Peer("3.0", (to) => to.socket?.destroy());
    expect(await sessionTo(await rude.listen()).session.connect()).toEqual({ ok: false, why: "closed" });
    const web = new Peer("3.0", (to) => to.socket?.write("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect(await sessionTo(await web.listen()).session.connect()).toEqual({ ok: false, why: "malformed" });
  });

  it("passes over what comes before its answer", async () => {
    const peer = new Peer("3.0", (to, sequenceId) => {
      to.send(receiptPdu(5), connectResp(sequenceId, 0), connectResp(sequenceId, 0));
    });
    const { events } = await connected(peer);
    expect(events.delivers).toEqual([]);
    expect(events.ignoredThings).toEqual(["unexpected_pdu", "unexpected_pdu"]);
  });

  it("hears what follows the answer in the same chunk", async () => {
    const peer = new Peer("3.0", (to, sequenceId) =>
      to.send(connectResp(sequenceId, 0), { command: "active_test", sequenceId: 77 }),
    );
    await connected(peer);
    await until(() =>
      expect(peer.of("active_test_resp")).toEqual([{ command: "active_test_resp", sequenceId: 77 }]),
    );
  });
});

describe("submits", () => {
  it("of one turn leave in one socket write, in order", async () => {
    const peer = new Peer("3.0");
    const { session } = await connected(peer);
    const writev = vi.spyOn(Socket.prototype as unknown as { _writev(chunks: unknown[]): void }, "_writev");
    opened.push(() => writev.mockRestore());
    for (const key of ["a", "b", "c"]) session.submit(key, { ...text, content: Buffer.from(key) });
    await until(() => expect(peer.of("submit")).toHaveLength(3));
    expect(peer.of("submit").map((pdu) => pdu.content.toString())).toEqual(["a", "b", "c"]);
    expect(writev.mock.calls.map(([chunks]) => chunks.length)).toEqual([3]);
    expect(peer.of("submit")[0]).toMatchObject({ msgSrc: "910001", registeredDelivery: 1, feeUserType: 2 });
  });

  it("never exceed the window, and a slot is freed once however often it is answered", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { window: 2 });
    session.submit("a", text);
    session.submit("b", text);
    expect(session.freeWindow).toBe(0);
    expect(() => session.submit("c", text)).toThrow(expect.objectContaining({ code: "window_full" }));
    await until(() => expect(peer.of("submit")).toHaveLength(2));
    const [a] = peer.of("submit");
    if (a === undefined) throw new Error("unreachable");
    peer.send(answerTo(a.sequenceId), answerTo(a.sequenceId), answerTo(a.sequenceId));
    await until(() => expect(events.answers).toHaveLength(3));
    expect(events.answers.map(({ key, late }) => [key, late])).toEqual([
      ["a", false],
      ["a", true],
      ["a", true],
    ]);
    expect(session.inUse).toBe(1);
    expect(session.freeWindow).toBe(1);
    expect(events.freed).toBe(1);
  });

  it("are told as unanswered after the timeout, and their answer as late (D14)", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { responseTimeoutMs: 60, window: 1 });
    session.submit("a", text);
    await until(() => expect(events.unansweredKeys).toEqual(["a"]));
    expect(session.inUse).toBe(0);
    expect(events.freed).toBe(1);
    await answerActiveTest(peer);
    await until(() => expect(session.freeWindow).toBe(1));
    session.submit("b", text);
    await until(() => expect(events.unansweredKeys).toEqual(["a", "b"]));
    const [a] = peer.of("submit");
    if (a === undefined) throw new Error("unreachable");
    peer.send(answerTo(a.sequenceId, "00000000000000bb"));
    await until(() => expect(events.answers).toHaveLength(1));
    expect(events.answers[0]).toMatchObject({ key: "a", late: true, msgId: "00000000000000bb", result: 0 });
    expect(events.answers[0]?.raw.length).toBe(24);
    expect(session.inUse).toBe(0);
  });

  it("wait while a supplier that left one unanswered is asked whether it is there at all", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { responseTimeoutMs: 60, window: 2 });
    session.submit("a", text);
    await until(() => expect(events.unansweredKeys).toEqual(["a"]));

    await until(() => expect(peer.of("active_test")).toHaveLength(1));
    expect(session.freeWindow).toBe(0);
    expect(() => session.submit("b", text)).toThrow(SessionNotReady);

    const before = events.freed;
    await answerActiveTest(peer);
    await until(() => expect(session.freeWindow).toBe(2));
    expect(events.freed).toBe(before + 1);
  });

  it("go on where the supplier left one unanswered and says other things", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { responseTimeoutMs: 60, window: 2 });
    session.submit("a", text);
    const chatter = setInterval(() => peer.send({ command: "active_test", sequenceId: 9 }), 10);
    opened.push(() => clearInterval(chatter));
    await until(() => expect(events.unansweredKeys).toEqual(["a"]));

    expect(session.freeWindow).toBe(2);
    expect(peer.of("active_test")).toHaveLength(0);
  });

  it("are not confused with those of an earlier connection, whose answers come on this one", async () => {
    const peer = new Peer("3.0");
    const earlier = await connected(peer);
    earlier.session.submit("a", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));
    earlier.session.destroy();
    const { session, events } = sessionTo(earlier.port);
    expect(await session.connect()).toMatchObject({ ok: true });
    session.submit("b", text);
    await until(() => expect(peer.of("submit")).toHaveLength(2));
    const [a, b] = peer.of("submit").map((it) => it.sequenceId);
    peer.send(answerTo(a ?? 0, "00000000000000aa"), answerTo(b ?? 0, "00000000000000bb"));
    await until(() => expect(events.answers).toHaveLength(2));
    expect(events.answers).toMatchObject([
      { key: undefined, late: true, msgId: "00000000000000aa" },
      { key: "b", late: false, msgId: "00000000000000bb" },
    ]);
  });

  it("that were answered in time are not called unanswered because this process was held up", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { responseTimeoutMs: 100 });
    session.submit("a", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));
    await new Promise<void>((resolve) => {
      peer.socket?.write(encode(answerTo(peer.of("submit")[0]?.sequenceId ?? 0), "3.0"), () => resolve());
      // Whatever else there is to do waits.
      for (const until = performance.now() + 200; performance.now() < until;);
    });
    await until(() => expect(events.answers).toMatchObject([{ key: "a", late: false }]));
    expect(events.unansweredKeys).toEqual([]);
  });

  it("leave answers to what was never sent without a key", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer);
    peer.send(answerTo(4711));
    await until(() => expect(events.answers).toMatchObject([{ key: undefined, late: true }]));
  });

  it("with a value that does not fit write nothing and take no slot", async () => {
    const peer = new Peer("3.0");
    const { session } = await connected(peer);
    expect(() => session.submit("a", { ...text, srcId: "1".repeat(22) })).toThrow(FieldError);
    expect(session.inUse).toBe(0);
    session.submit("b", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));
  });

  it("come back when the connection ends, once, and only those that nobody has told of", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer);
    session.submit("a", text);
    session.submit("b", text);
    await until(() => expect(peer.of("submit")).toHaveLength(2));
    const [a] = peer.of("submit");
    if (a === undefined) throw new Error("unreachable");
    peer.send(answerTo(a.sequenceId));
    peer.socket?.end();
    await until(() => expect(events.closings).toEqual([{ why: "peer_closed", unanswered: ["b"] }]));
    expect(events.answers).toHaveLength(1);
    expect(session.inUse).toBe(0);
    expect(session.freeWindow).toBe(0);
    expect(() => session.submit("c", text)).toThrow(expect.objectContaining({ code: "not_ready" }));
    session.destroy();
    expect(events.closings).toHaveLength(1);
  });
});

describe("delivers", () => {
  it("are answered when their promise resolves and not before (D2)", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer);
    let store = (): void => undefined;
    events.handleDeliver = () => new Promise((resolve) => (store = resolve));
    peer.send(receiptPdu(5), { command: "active_test", sequenceId: 6 });
    // The heartbeat's answer shows that the receipt before it has been read.
    await until(() => expect(peer.of("active_test_resp")).toHaveLength(1));
    expect(events.delivers).toMatchObject([
      {
        kind: "receipt",
        msgId: "00000000000000aa",
        stat: "DELIVRD",
        number: "13800138000",
        srcId: "10690001",
      },
    ]);
    expect(peer.of("deliver_resp")).toEqual([]);
    store();
    await until(() => expect(peer.of("deliver_resp")).toHaveLength(1));
    expect(peer.of("deliver_resp")[0]).toMatchObject({ sequenceId: 5, msgId: "00000000000000dd", result: 0 });
  });

  it("whose promise rejects are not answered", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer);
    events.handleDeliver = () => Promise.reject(new Error("database away"));
    peer.send(receiptPdu(5), { command: "active_test", sequenceId: 6 });
    await until(() => expect(peer.of("active_test_resp")).toHaveLength(1));
    await until(() => expect(events.ignoredThings).toEqual(["deliver_not_handled"]));
    expect(peer.of("deliver_resp")).toEqual([]);
  });

  it("that cannot be read are handed over raw and answered, so that the supplier goes on", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer);
    const cut = Buffer.concat([encode(receiptPdu(5), "3.0").subarray(0, 40)]);
    cut.writeUInt32BE(cut.length, 0);
    peer.socket?.write(cut);
    await until(() => expect(peer.of("deliver_resp")).toMatchObject([{ sequenceId: 5, result: 0 }]));
    expect(events.delivers).toEqual([{ kind: "malformed", why: "body_cut", raw: cut }]);
  });

  it.each(["2.0", "3.0"] as const)("arrive whole byte by byte, in %s (cmpp §14, 14)", async (version) => {
    const peer = new Peer(version);
    const { session, events } = await connected(peer);
    session.submit("a", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));
    const [a] = peer.of("submit");
    if (a === undefined) throw new Error("unreachable");
    peer.socket?.setNoDelay(true);
    const bytes = Buffer.concat([answerTo(a.sequenceId), receiptPdu(5)].map((pdu) => encode(pdu, version)));
    for (const byte of bytes) {
      await new Promise((resolve) => peer.socket?.write(Buffer.from([byte]), resolve));
    }
    await until(() => expect(peer.of("deliver_resp")).toHaveLength(1));
    expect(events.answers).toMatchObject([{ key: "a", late: false, result: 0 }]);
    expect(events.delivers).toMatchObject([{ kind: "receipt", stat: "DELIVRD" }]);
  });
});

describe("a peer that floods", () => {
  const flood = (pdu: Pdu, count: number): Buffer => {
    const one = encode(pdu, "3.0");
    return Buffer.alloc(one.length * count, one);
  };
  const RECEIPTS = 40_000;

  it("with DELIVERs is read no further than can be stored, and all of them in the end (cmpp §14, 22)", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { responseTimeoutMs: 300, heartbeatIdleMs: 300 });
    const receipts = flood(receiptPdu(5), RECEIPTS);
    let store = (): void => undefined;
    const stored = new Promise<void>((resolve) => (store = resolve));
    events.handleDeliver = () => stored;
    session.submit("a", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));

    peer.socket?.write(receipts);
    // Its answer stands behind them: unread, and not unanswered.
    peer.send(answerTo(peer.of("submit")[0]?.sequenceId ?? 0));
    await until(() => expect(events.delivers.length).toBeGreaterThanOrEqual(1_000));
    // Longer than an answer may take, and than silence may last.
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(events.delivers.length).toBeLessThan(2_000);
    expect(peer.socket?.writableLength).toBeGreaterThan(1_000_000);
    expect([events.unansweredKeys, events.closings]).toEqual([[], []]);

    store();
    await until(() => expect(events.delivers).toHaveLength(RECEIPTS));
    await until(() => expect(events.answers.map((it) => it.key)).toEqual(["a"]));
  }, 20_000);

  it("with questions and reads no answer gets no submit, is read no further, and ends", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { heartbeatIdleMs: 300, heartbeatTimeoutMs: 300 });
    peer.socket?.pause();
    peer.socket?.write(flood({ command: "active_test", sequenceId: 1 }, 1_500_000));
    await until(() => expect(session.freeWindow).toBe(0));
    expect(() => session.submit("a", text)).toThrow(SessionNotReady);
    await vi.waitFor(
      () => expect(events.closings.map((it) => it.why)).toEqual(["heartbeat_timeout"]),
      15_000,
    );
    expect(peer.socket?.writableLength).toBeGreaterThan(1_000_000);
  }, 20_000);
});

describe("the life of a connection", () => {
  it("asks a silent peer, and ends when it stays silent (cmpp §4.8)", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { heartbeatIdleMs: 40, heartbeatTimeoutMs: 60 });
    session.submit("a", text);
    await until(() => expect(events.closings).toEqual([{ why: "heartbeat_timeout", unanswered: ["a"] }]));
    expect(peer.of("active_test")).toHaveLength(1);
  });

  it("goes on while the peer answers", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer, { heartbeatIdleMs: 20, heartbeatTimeoutMs: 2_000 });
    for (let asked = 1; asked <= 3; asked++) {
      await until(() => expect(peer.of("active_test")).toHaveLength(asked));
      const sequenceId = peer.of("active_test")[asked - 1]?.sequenceId ?? 0;
      peer.send({ command: "active_test_resp", sequenceId });
    }
    expect(session.ready).toBe(true);
    expect(events.closings).toEqual([]);
  });

  it("answers a TERMINATE of the peer and ends (cmpp §14, 15)", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer);
    session.submit("a", text);
    await until(() => expect(peer.of("submit")).toHaveLength(1));
    peer.send({ command: "terminate", sequenceId: 99 });
    await until(() => expect(events.closings).toEqual([{ why: "peer_terminated", unanswered: ["a"] }]));
    expect(peer.of("terminate_resp")).toEqual([{ command: "terminate_resp", sequenceId: 99 }]);
    expect(session.ready).toBe(false);
  });

  it("says goodbye, waits for the answer, and closes once", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer);
    const gone = session.terminate();
    expect(session.ready).toBe(false);
    await until(() => expect(peer.of("terminate")).toHaveLength(1));
    expect(events.closings).toEqual([]);
    peer.send({ command: "terminate_resp", sequenceId: peer.of("terminate")[0]?.sequenceId ?? 0 });
    await gone;
    expect(events.closings).toEqual([{ why: "terminated", unanswered: [] }]);
    await until(() => expect(peer.hungUp).toBe(true));
  });

  it("ends at bytes that are no CMPP", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer);
    peer.socket?.write("HTTP/1.1 200 OK\r\n\r\n");
    await until(() => expect(events.closings).toEqual([{ why: "broken_framing", unanswered: [] }]));
  });

  it("is not kept up by bytes that never make a PDU", async () => {
    const peer = new Peer("3.0");
    const { events } = await connected(peer, { heartbeatIdleMs: 60, heartbeatTimeoutMs: 60 });
    const endless = encode(receiptPdu(5), "3.0");
    const drip = setInterval(() => peer.socket?.write(endless.subarray(0, 1)), 10);
    opened.push(() => clearInterval(drip));
    // The first bytes are the length of a PDU that does not end within the patience of anybody.
    peer.socket?.write(endless.subarray(0, 100));
    await until(() => expect(events.closings.map((it) => it.why)).toEqual(["heartbeat_timeout"]));
  });

  it("ends when the peer hangs up for good, and at a reset", async () => {
    for (const [end, why] of [
      [(peer: Peer) => peer.socket?.end(), "peer_closed"],
      [(peer: Peer) => peer.socket?.resetAndDestroy(), "socket_error"],
    ] as const) {
      const peer = new Peer("3.0");
      const { session, events } = await connected(peer);
      session.submit("a", text);
      await until(() => expect(peer.of("submit")).toHaveLength(1));
      end(peer);
      await until(() => expect(events.closings).toEqual([{ why, unanswered: ["a"] }]));
    }
  });

  it("passes over PDUs that it does not know", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer);
    peer.socket?.write(Buffer.from("00000010000000990000000100000000", "hex"));
    await until(() => expect(events.ignoredThings).toEqual(["unknown_command"]));
    expect(session.ready).toBe(true);
  });

  it("is told at once when its owner destroys it", async () => {
    const peer = new Peer("3.0");
    const { session, events } = await connected(peer);
    session.submit("a", text);
    session.destroy();
    expect(events.closings).toEqual([{ why: "destroyed", unanswered: ["a"] }]);
  });
});
