/**
 * One CMPP connection to a supplier, as its client: login, window, heartbeat, submit, deliver, goodbye
 * (cmpp §12). It does not reconnect, pace or store: its owner does, and decides what an outcome means.
 *
 * A submit is given back exactly once: answered, unanswered after the response timeout, or in the list
 * of `closed`. What still arrives after that is told as late.
 */
import { isArmed, reach } from "../fault-points/at-point.ts";
import { randomInt } from "node:crypto";
import { connect as connectTcp, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import {
  decode,
  encode,
  submitFields,
  submitPdu,
  versionByte,
  type CmppVersion,
  type Connect,
  type ConnectResp,
  type Pdu,
  type SubmitFields,
  type SubmitResp,
} from "./cmpp-codec.ts";
import { readDeliver, type ReceivedDeliver } from "./cmpp-deliver.ts";
import { Framer } from "./cmpp-frames.ts";
import { serverMatches, sourceAuthenticator, type ShortLogin } from "./cmpp-login.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";
import type { ReceiptReading } from "./cmpp-receipt.ts";
import { loginTimestamp } from "./cmpp-time.ts";

export interface SessionOptions {
  host: string;
  port: number;
  version: CmppVersion;
  spId: string;
  secret: string;
  /** Submits written and not yet answered, at most. */
  window: number;
  responseTimeoutMs: number;
  /** For the TCP connection and the login together. */
  connectTimeoutMs: number;
  /** Silence of the supplier after which an ACTIVE_TEST is sent. */
  heartbeatIdleMs: number;
  /** Silence after the ACTIVE_TEST that ends the connection. */
  heartbeatTimeoutMs: number;
  /** How this supplier hashes a login of fewer than six characters; padded when not said. */
  shortLogin?: ShortLogin;
  /** How its receipts are read, asked for each: its profile may be edited while the connection is up. */
  reading?: () => ReceiptReading;
}

/** What differs from text to text; the rest has the defaults of cmpp §4.4. Msg_src is the login if unset. */
export type OutgoingSubmit = Pick<SubmitFields, "srcId" | "msgFmt" | "content"> & {
  destination: string;
} & Partial<Omit<SubmitFields, "srcId" | "msgFmt" | "content" | "destinations">>;

export interface SubmitAnswer<K> {
  /** Undefined when the Sequence_Id is not (or no longer) known to this connection. */
  key: K | undefined;
  result: number;
  /** 16 hex characters; of no meaning when `result` is not 0. */
  msgId: string;
  /** The whole PDU as read. */
  raw: Buffer;
  /** The slot was free already: it came after its timeout, or again. */
  late: boolean;
}

export interface SessionEvents<K> {
  response(answer: SubmitAnswer<K>): void;
  /** No answer within `responseTimeoutMs`: the outcome is unknown, the slot is free again. */
  unanswered(key: K, why: "timeout"): void;
  /** DELIVER_RESP 0 is sent when the promise resolves, and nothing when it rejects: the supplier repeats. */
  deliver(deliver: ReceivedDeliver): Promise<void>;
  /** Once, whatever ended a connection that was ready; the keys written and given back to nobody yet. */
  closed(why: WhyClosed, unanswered: K[]): void;
  /** After a slot became free by an answer or a timeout. */
  windowFree?(): void;
  /** Something was read and left aside, or a DELIVER could not be handled: for a counter and a log line. */
  ignored?(what: Ignored): void;
}

export type WhyClosed =
  | "peer_closed"
  | "socket_error"
  | "peer_terminated"
  | "terminated"
  | "destroyed"
  | "heartbeat_timeout"
  | "broken_framing"
  /** It reads nothing of what it makes us write. */
  | "peer_not_reading";

export type Ignored = "unknown_command" | "malformed_pdu" | "unexpected_pdu" | "deliver_not_handled";

export type Connected =
  | { ok: true; serverVersion: number; serverAuthenticated: boolean }
  | { ok: false; why: WhyNotConnected; status?: number };

export type WhyNotConnected =
  /** Nobody listens there. */
  | "refused"
  | "unreachable"
  | "timeout"
  /** The peer closed instead of answering. */
  | "closed"
  /** What came is no CMPP. */
  | "malformed"
  /** Statuses 2, 3, 57: login, secret or address. Hammering gets an address banned (cmpp §12). */
  | "auth"
  /** Statuses 55, 56: an old connection is probably still held. */
  | "too_many"
  /** Status 4. */
  | "version"
  /** Any other status. */
  | "rejected";

/** Thrown by `submit` when the caller did not look first. Nothing was written. */
export class SessionNotReady extends Error {
  override readonly name = "SessionNotReady";
  readonly code: "not_ready" | "window_full";

  constructor(code: SessionNotReady["code"]) {
    super(code);
    this.code = code;
  }
}

/** Answers that came late can still be told whose they are, for so many submits back. */
const REMEMBERED_SUBMITS = 10_000;
const GOODBYE_MS = 2_000;
const MAX_SEQUENCE_ID = 0xffff_ffff;
/**
 * Bytes that the peer does not take from us. Above the first nothing is submitted and nothing is read, so
 * that it cannot make us write more; above the second the connection ends. A full window is below both.
 */
const UNSENT_BYTES = { enough: 256 * 1024, most: 1024 * 1024 };
/** DELIVERs handed over and not stored: above it nothing is read until half of them are (cmpp §14, 22). */
const MOST_UNSTORED_DELIVERS = 1_000;

interface Pending<K> {
  key: K;
  /** On the monotonic clock: a wall clock set back must not postpone a timeout. */
  dueAt: number;
}

type State = "new" | "connecting" | "ready" | "terminating" | "closed";

export class CmppSession<K> {
  readonly #options: SessionOptions;
  readonly #events: SessionEvents<K>;
  readonly #framer = new Framer();
  #state: State = "new";
  #socket: Socket | undefined;
  #corked = false;
  /** Begins anywhere: what an old connection was never answered must not name a submit of this one. */
  #sequenceId = randomInt(MAX_SEQUENCE_ID);
  /** In the order of writing, which is that of their timeouts. */
  readonly #pending = new Map<number, Pending<K>>();
  readonly #settled = new Map<number, K>();
  #responseTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #lastReadAt = 0;
  #unstoredDelivers = 0;
  #reading = true;
  /** An ACTIVE_TEST was sent and nothing has been read since. */
  #asking = false;
  #closeReason: WhyClosed | undefined;
  #connectAnswered: ((pdu: ConnectResp) => void) | undefined;
  #connectFailed: ((why: WhyNotConnected) => void) | undefined;
  #goodbyeAnswered: (() => void) | undefined;

  constructor(options: SessionOptions, events: SessionEvents<K>) {
    this.#options = options;
    this.#events = events;
  }

  get ready(): boolean {
    return this.#state === "ready";
  }

  get inUse(): number {
    return this.#pending.size;
  }

  /**
   * None while the peer is being asked whether it is there, and while it does not take what was written:
   * what it never reads would be unknown.
   */
  get freeWindow(): number {
    const heard = this.ready && !this.#asking && this.#unsentBytes < UNSENT_BYTES.enough;
    return heard ? this.#options.window - this.#pending.size : 0;
  }

  /** Once per session. A connection that does not come to be ready says so here, and not in `closed`. */
  async connect(): Promise<Connected> {
    if (this.#state !== "new") throw new Error("a session connects once");
    this.#state = "connecting";
    const login = this.#login();
    const answer = await this.#exchangeLogin(login);
    if (typeof answer === "string") return { ok: false, why: answer };
    if (answer.status !== 0) return { ok: false, why: whyRefused(answer.status), status: answer.status };
    return {
      ok: true,
      serverVersion: answer.version,
      serverAuthenticated: serverMatches(answer, login.authenticator, this.#options.secret),
    };
  }

  /**
   * Writes one part and takes a slot, synchronously; several calls of one turn of the event loop leave in
   * one socket write. Throws SessionNotReady, or FieldError when a value does not fit: either way nothing
   * was written.
   */
  submit(key: K, fields: OutgoingSubmit): void {
    if (!this.ready) throw new SessionNotReady("not_ready");
    if (this.freeWindow <= 0) throw new SessionNotReady("window_full");
    const { destination, ...rest } = fields;
    const sequenceId = this.#nextSequenceId();
    const given = submitFields({ msgSrc: this.#options.spId, ...rest, destinations: [destination] });
    const bytes = encode(submitPdu(sequenceId, given), this.#options.version);
    // Before the write, which may end the connection: then the key is among what comes back.
    this.#pending.set(sequenceId, { key, dueAt: performance.now() + this.#options.responseTimeoutMs });
    this.#responseTimer ??= afterReading(() => this.#expirePending(), this.#options.responseTimeoutMs);
    if (isArmed("half_frame_written")) this.#writeInHalves(bytes);
    else this.#write(bytes);
  }

  /**
   * Says goodbye and closes, after the answer or two seconds. The owner drains the window first: what is
   * pending at the end comes back in `closed`.
   */
  async terminate(): Promise<void> {
    if (this.#state !== "ready") return this.destroy();
    this.#state = "terminating";
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, GOODBYE_MS);
      this.#goodbyeAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#send({ command: "terminate", sequenceId: this.#nextSequenceId() });
    });
    this.#close("terminated");
  }

  /** Closes at once. `closed` has been called when this returns. */
  destroy(): void {
    this.#close("destroyed");
  }

  #login(): Connect {
    const { spId, secret, version, shortLogin } = this.#options;
    // One reading of the clock for digest and field: they must agree to the second (cmpp §4.1).
    const timestamp = loginTimestamp(new Date());
    return {
      command: "connect",
      sequenceId: this.#nextSequenceId(),
      sourceAddr: spId,
      authenticator: sourceAuthenticator(spId, secret, timestamp, shortLogin),
      version: versionByte(version),
      timestamp,
    };
  }

  /** Everything that can go wrong before the login's answer ends here. */
  async #exchangeLogin(login: Connect): Promise<ConnectResp | WhyNotConnected> {
    const outcome = await new Promise<ConnectResp | WhyNotConnected>((resolve) => {
      const timer = setTimeout(() => this.#connectFailed?.("timeout"), this.#options.connectTimeoutMs);
      const settle = (answer: ConnectResp | WhyNotConnected): void => {
        clearTimeout(timer);
        this.#connectAnswered = undefined;
        this.#connectFailed = undefined;
        // In the same turn, because PDUs that follow the answer may be in the same chunk.
        if (typeof answer !== "string" && answer.status === 0) this.#becomeReady();
        resolve(answer);
      };
      this.#connectAnswered = settle;
      this.#connectFailed = settle;
      this.#open(login);
    });
    if (this.#state === "connecting") {
      this.#state = "closed";
      this.#socket?.destroy();
    }
    return outcome;
  }

  #open(login: Connect): void {
    const socket = connectTcp({ host: this.#options.host, port: this.#options.port, noDelay: true });
    this.#socket = socket;
    let connected = false;
    socket.once("connect", () => {
      connected = true;
      this.#send(login);
    });
    socket.on("data", (chunk) => this.#read(chunk));
    // What is submitted from here on could not leave any more.
    socket.once("end", () => {
      this.#stopSubmitting("peer_closed");
      this.#destroySoon();
    });
    socket.on("drain", () => this.#noteDrained());
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.#connectFailed?.(connected ? "closed" : whyUnconnected(error));
      this.#stopSubmitting("socket_error");
    });
    socket.once("close", () => {
      this.#connectFailed?.("closed");
      this.#close(this.#closeReason ?? "peer_closed");
    });
  }

  #becomeReady(): void {
    this.#state = "ready";
    this.#checkSilenceIn(this.#options.heartbeatIdleMs);
  }

  #read(chunk: Buffer): void {
    if (this.#state === "closed") return;
    const { frames, broken } = this.#framer.push(chunk);
    // Bytes that never make a PDU are no sign of life: one a second would keep a dead link up for ever.
    if (frames.length > 0) this.#noteLife();
    for (const frame of frames) this.#readFrame(frame);
    this.#readOnOrWait();
    if (broken === undefined) return;
    this.#connectFailed?.("malformed");
    this.#close("broken_framing");
  }

  #readFrame(frame: Buffer): void {
    if (this.#state === "closed") return;
    const decoded = decode(frame, this.#options.version);
    if (decoded.ok) return this.#receive(decoded.pdu, frame);
    if (decoded.why === "unknown_command") return this.#events.ignored?.("unknown_command");
    this.#events.ignored?.("malformed_pdu");
    if (decoded.commandId === DELIVER_ID) {
      this.#handleDeliver(decoded.sequenceId, NO_MSG_ID, { kind: "malformed", why: decoded.why, raw: frame });
    }
  }

  #receive(pdu: Pdu, frame: Buffer): void {
    switch (pdu.command) {
      case "connect_resp":
        return this.#receiveLoginAnswer(pdu);
      case "submit_resp":
        return this.#receiveAnswer(pdu, frame);
      case "deliver":
        return this.#handleDeliver(
          pdu.sequenceId,
          pdu.msgId,
          readDeliver(pdu, frame, this.#options.reading?.()),
        );
      case "active_test":
        return this.#send({ command: "active_test_resp", sequenceId: pdu.sequenceId });
      case "active_test_resp":
        // That something was read is all it says.
        return;
      case "terminate":
        return this.#obeyTerminate(pdu.sequenceId);
      case "terminate_resp":
        return this.#goodbyeAnswered?.();
      case "connect":
      case "submit":
      case "deliver_resp":
      case "query":
      case "query_resp":
      case "cancel":
      case "cancel_resp":
        return this.#events.ignored?.("unexpected_pdu");
    }
  }

  #receiveLoginAnswer(pdu: ConnectResp): void {
    if (this.#connectAnswered === undefined) this.#events.ignored?.("unexpected_pdu");
    else this.#connectAnswered(pdu);
  }

  #receiveAnswer(pdu: SubmitResp, raw: Buffer): void {
    const pending = this.#pending.get(pdu.sequenceId);
    const answer = { result: pdu.result, msgId: pdu.msgId, raw };
    if (pending === undefined) {
      this.#events.response({ key: this.#settled.get(pdu.sequenceId), ...answer, late: true });
      return;
    }
    this.#settle(pdu.sequenceId, pending.key);
    this.#events.response({ key: pending.key, ...answer, late: false });
    if (this.ready) this.#events.windowFree?.();
  }

  #handleDeliver(sequenceId: number, msgId: string, deliver: ReceivedDeliver): void {
    if (this.#state === "connecting") return this.#events.ignored?.("unexpected_pdu");
    this.#unstoredDelivers++;
    this.#events
      .deliver(deliver)
      .then(
        () => this.#send({ command: "deliver_resp", sequenceId, msgId, result: 0 }),
        () => this.#events.ignored?.("deliver_not_handled"),
      )
      .finally(() => {
        this.#unstoredDelivers--;
        this.#readOnOrWait();
      });
  }

  /**
   * Back-pressure to whoever floods us: what is not read here fills its own buffers. With one threshold
   * for either way it would stop and go with every PDU.
   */
  #readOnOrWait(): void {
    const { enough } = UNSENT_BYTES;
    if (this.#reading) {
      this.#reading = this.#unstoredDelivers < MOST_UNSTORED_DELIVERS && this.#unsentBytes < enough;
      if (!this.#reading) this.#socket?.pause();
    } else if (this.#unstoredDelivers <= MOST_UNSTORED_DELIVERS / 2 && this.#unsentBytes < enough) {
      this.#reading = true;
      // Our own silence is not the peer's.
      this.#lastReadAt = performance.now();
      this.#socket?.resume();
    }
  }

  /** What it says may lie unread for as long as we take to store what it said before. */
  get #isHeldUpByUs(): boolean {
    return !this.#reading && this.#unsentBytes < UNSENT_BYTES.enough;
  }

  get #unsentBytes(): number {
    return this.#socket?.writableLength ?? 0;
  }

  #noteDrained(): void {
    this.#readOnOrWait();
    if (this.ready) this.#events.windowFree?.();
  }

  #obeyTerminate(sequenceId: number): void {
    this.#send({ command: "terminate_resp", sequenceId });
    this.#stopSubmitting("peer_terminated");
    this.#uncork();
    this.#socket?.end();
    this.#destroySoon();
  }

  /** A peer that says goodbye and never hangs up, or reads nothing more, would hold the slot. */
  #destroySoon(): void {
    const socket = this.#socket;
    setTimeout(() => socket?.destroy(), GOODBYE_MS).unref();
  }

  #stopSubmitting(why: WhyClosed): void {
    if (this.#state === "ready") this.#state = "terminating";
    this.#closeReason ??= why;
  }

  #expirePending(): void {
    this.#responseTimer = undefined;
    if (this.#state === "closed") return;
    if (this.#isHeldUpByUs) {
      this.#responseTimer = afterReading(() => this.#expirePending(), this.#options.responseTimeoutMs);
      return;
    }
    const now = performance.now();
    let freed = 0;
    for (const [sequenceId, { key, dueAt }] of this.#pending) {
      if (dueAt > now) break;
      this.#settle(sequenceId, key);
      this.#events.unanswered(key, "timeout");
      freed++;
    }
    const oldest = this.#pending.values().next().value;
    if (oldest !== undefined) {
      this.#responseTimer ??= afterReading(() => this.#expirePending(), Math.max(1, oldest.dueAt - now));
    }
    if (freed === 0 || !this.ready) return;
    // Nothing at all for as long as an answer may take: a link that is half open would take more with it.
    if (now - this.#lastReadAt >= this.#options.responseTimeoutMs) this.#ask();
    this.#events.windowFree?.();
  }

  /** The one place where a slot becomes free before the end of the connection. */
  #settle(sequenceId: number, key: K): void {
    this.#pending.delete(sequenceId);
    this.#settled.set(sequenceId, key);
    if (this.#settled.size <= REMEMBERED_SUBMITS) return;
    const eldest = this.#settled.keys().next();
    if (eldest.done !== true) this.#settled.delete(eldest.value);
  }

  #checkSilence(): void {
    if (this.#state === "closed") return;
    const { heartbeatIdleMs } = this.#options;
    if (this.#isHeldUpByUs) return this.#checkSilenceIn(heartbeatIdleMs);
    if (this.#asking) return this.#close("heartbeat_timeout");
    const silentMs = performance.now() - this.#lastReadAt;
    if (silentMs < heartbeatIdleMs) return this.#checkSilenceIn(heartbeatIdleMs - silentMs);
    this.#ask();
  }

  #ask(): void {
    if (this.#asking) return;
    this.#asking = true;
    this.#send({ command: "active_test", sequenceId: this.#nextSequenceId() });
    this.#checkSilenceIn(this.#options.heartbeatTimeoutMs);
  }

  #checkSilenceIn(ms: number): void {
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = afterReading(() => this.#checkSilence(), ms);
  }

  /** Whatever is read shows that the peer is there, not only the answer to an ACTIVE_TEST. */
  #noteLife(): void {
    this.#lastReadAt = performance.now();
    if (!this.#asking) return;
    this.#asking = false;
    this.#checkSilenceIn(this.#options.heartbeatIdleMs);
    if (this.ready) this.#events.windowFree?.();
  }

  #nextSequenceId(): number {
    do {
      this.#sequenceId = this.#sequenceId === MAX_SEQUENCE_ID ? 0 : this.#sequenceId + 1;
    } while (this.#pending.has(this.#sequenceId) || this.#settled.has(this.#sequenceId));
    return this.#sequenceId;
  }

  #send(pdu: Pdu): void {
    this.#write(encode(pdu, this.#options.version));
  }

  /** Writes of one turn of the event loop leave together. */
  #write(bytes: Buffer): void {
    const socket = this.#socket;
    if (socket === undefined || this.#state === "closed" || socket.writableEnded) return;
    if (!this.#corked) {
      this.#corked = true;
      socket.cork();
      setImmediate(() => this.#uncork());
    }
    socket.write(bytes);
    if (socket.writableLength > UNSENT_BYTES.most) this.#close("peer_not_reading");
  }

  #writeInHalves(bytes: Buffer): void {
    this.#uncork();
    const half = Math.floor(bytes.length / 2);
    // What is written meanwhile has to wait behind the other half.
    this.#socket?.write(bytes.subarray(0, half), () => {
      reach("half_frame_written");
      this.#uncork();
    });
    this.#socket?.cork();
    this.#corked = true;
    this.#socket?.write(bytes.subarray(half));
  }

  #uncork(): void {
    if (!this.#corked) return;
    this.#corked = false;
    this.#socket?.uncork();
  }

  #close(why: WhyClosed): void {
    const wasReady = this.#state === "ready" || this.#state === "terminating";
    if (this.#state === "connecting") this.#connectFailed?.("closed");
    this.#state = "closed";
    clearTimeout(this.#responseTimer);
    clearTimeout(this.#heartbeatTimer);
    this.#goodbyeAnswered?.();
    this.#socket?.destroy();
    if (!wasReady) return;
    const unanswered = [...this.#pending.values()].map(({ key }) => key);
    this.#pending.clear();
    this.#settled.clear();
    this.#events.closed(why, unanswered);
  }
}

const DELIVER_ID = 0x0000_0005;

/**
 * A timer that lets the sockets speak first: after this process was held up, what came in time lies there
 * unread, and a timer would call it late.
 */
const afterReading = (act: () => void, ms: number): NodeJS.Timeout => setTimeout(() => setImmediate(act), ms);

const whyUnconnected = (error: NodeJS.ErrnoException): WhyNotConnected =>
  error.code === "ECONNREFUSED" ? "refused" : "unreachable";

function whyRefused(status: number): WhyNotConnected {
  switch (status) {
    case 2:
    case 3:
    case 57:
      return "auth";
    case 4:
      return "version";
    case 55:
    case 56:
      return "too_many";
    default:
      return "rejected";
  }
}
