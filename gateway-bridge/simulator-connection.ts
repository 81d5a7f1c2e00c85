/**
 * One TCP connection to a simulated supplier, seen from the server: framing, login, answers, goodbye
 * (cmpp §12). What a SUBMIT leads to is decided by its owner.
 */
import type { Socket } from "node:net";
import {
  commandName,
  decode,
  statusBytes,
  versionByte,
  type CmppVersion,
  type Connect,
  type DeliverResp,
  type Pdu,
  type Submit,
} from "./cmpp-codec.ts";
import { Framer } from "./cmpp-frames.ts";
import { serverAuthenticator } from "./cmpp-login.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";
import { takeProxyHeader } from "./proxy-header.ts";
import { deviantBytes, type Deviations } from "./simulator-deviations.ts";

export interface ConnectionOwner {
  /** The version to speak from here on, or the status that refuses the login. */
  login(connection: Connection, pdu: Connect): { version: CmppVersion } | { status: number };
  loggedIn(connection: Connection): void;
  submit(connection: Connection, pdu: Submit): void;
  delivered(connection: Connection, pdu: DeliverResp): void;
  closed(connection: Connection): void;
  /** As of now: they may change while a connection is up. */
  deviations(): Deviations;
  /** Something waits to be written: call `flush` at the end of the turn. */
  wantsFlush(connection: Connection): void;
}

const RESULT_STRUCTURE = 1;
const RESULT_LENGTH = 4;
const NOT_CANCELED = 1;
const STATUS_STRUCTURE = 1;

export class Connection {
  readonly id: string;
  readonly #socket: Socket;
  readonly #owner: ConnectionOwner;
  readonly #secret: string;
  readonly #framer = new Framer();
  readonly #loginTimer: NodeJS.Timeout;
  #manners: NodeJS.Timeout[] = [];
  /** What came before a PROXY header was whole; undefined once it was taken off, or none is expected. */
  #preface: Buffer | undefined;
  #version: CmppVersion;
  #state: "login" | "ready" | "closing" | "closed" = "login";
  #corked = false;
  /** What waits to be written a byte at a time. */
  readonly #drips: Buffer[] = [];
  #isDripping = false;
  #silenced = false;
  #sequenceId = 0;
  #loggedInAt = 0;

  constructor(
    id: string,
    socket: Socket,
    owner: ConnectionOwner,
    options: { version: CmppVersion; secret: string; loginTimeoutMs: number },
  ) {
    this.id = id;
    this.#socket = socket;
    this.#owner = owner;
    this.#version = options.version;
    this.#secret = options.secret;
    this.#loginTimer = setTimeout(() => this.#expectLogin(), options.loginTimeoutMs);
    if (owner.deviations().proxyHeader === true) this.#preface = Buffer.alloc(0);
    socket.setNoDelay(true);
    socket.on("data", (chunk) => this.#read(chunk));
    // The peer's reset says the same as its goodbye: `close` follows.
    socket.on("error", () => undefined);
    socket.once("close", () => this.#closed());
  }

  get ready(): boolean {
    return this.#state === "ready";
  }

  /** Whether a DELIVER sent now would reach the peer. */
  get reachable(): boolean {
    return this.ready && !this.#silenced;
  }

  /** Epoch milliseconds. */
  get loggedInAt(): number {
    return this.#loggedInAt;
  }

  get version(): CmppVersion {
    return this.#version;
  }

  nextSequenceId(): number {
    this.#sequenceId = (this.#sequenceId % 0xffff_ffff) + 1;
    return this.#sequenceId;
  }

  send(pdu: Pdu): void {
    if (this.#state === "closed" || this.#socket.writableEnded) return;
    const deviations = this.#owner.deviations();
    const bytes = deviantBytes(pdu, this.#version, deviations);
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      this.#owner.wantsFlush(this);
    }
    if (deviations.byteByByte === true) this.#drips.push(bytes);
    else this.#socket.write(bytes);
  }

  /** Lets what was sent in this turn leave together; a goodbye among it was the last. */
  flush(): void {
    if (!this.#corked || this.#silenced) return;
    this.#corked = false;
    this.#socket.uncork();
    if (this.#isDripping) return;
    if (this.#drips.length > 0) this.#drip();
    else if (this.#state === "closing") this.#socket.end();
  }

  /** One by one, each a turn after the one before has left: what leaves together arrives together. */
  #drip(): void {
    const [first] = this.#drips;
    this.#isDripping = first !== undefined;
    if (first === undefined) {
      if (this.#state === "closing") this.#socket.end();
      return;
    }
    if (first.length > 1) this.#drips[0] = first.subarray(1);
    else this.#drips.shift();
    this.#socket.write(first.subarray(0, 1), () => setImmediate(() => this.#drip()));
  }

  /** A black hole: nothing is read, nothing leaves, and nobody is told. Both wait for the end of it. */
  silence(silenced: boolean): void {
    this.#silenced = silenced;
    if (silenced) this.#socket.pause();
    else {
      this.#socket.resume();
      this.flush();
    }
  }

  cut(): void {
    this.#state = "closed";
    this.#socket.destroy();
  }

  #expectLogin(): void {
    if (this.#state === "login" && !this.#silenced) this.cut();
  }

  #read(received: Buffer): void {
    const chunk = this.#preface === undefined ? received : this.#takePreface(this.#preface, received);
    if (chunk === undefined) return;
    const { frames, broken } = this.#framer.push(chunk);
    for (const frame of frames) {
      if (this.#state === "closed" || this.#state === "closing") return;
      this.#readFrame(frame);
    }
    if (broken !== undefined) this.cut();
  }

  #takePreface(before: Buffer, received: Buffer): Buffer | undefined {
    const header = takeProxyHeader(Buffer.concat([before, received]));
    if (header.is === "none") this.cut();
    this.#preface = header.is === "incomplete" ? Buffer.concat([before, received]) : undefined;
    return header.is === "whole" ? header.rest : undefined;
  }

  #readFrame(frame: Buffer): void {
    const decoded = decode(frame, this.#version);
    if (!decoded.ok) return this.#refuse(decoded.why, decoded.commandId, decoded.sequenceId);
    if (this.#state === "ready") return this.#receive(decoded.pdu);
    if (decoded.pdu.command === "connect") return this.#login(decoded.pdu);
    this.cut();
  }

  #refuse(why: string, commandId: number, sequenceId: number): void {
    if (this.#state === "login") {
      if (commandName(commandId) !== "connect") return this.cut();
      this.#answerLogin(sequenceId, Buffer.alloc(16), STATUS_STRUCTURE);
      this.#state = "closing";
      return;
    }
    if (commandName(commandId) !== "submit") return;
    const result = why === "content_cut" ? RESULT_LENGTH : RESULT_STRUCTURE;
    this.send({ command: "submit_resp", sequenceId, msgId: NO_MSG_ID, result });
  }

  #login(pdu: Connect): void {
    const verdict = this.#owner.login(this, pdu);
    if ("status" in verdict) {
      // A client that is refused reads the answer in its own layout (cmpp §4.2).
      this.#version = spokenVersion(pdu.version) ?? this.#version;
      this.#answerLogin(pdu.sequenceId, pdu.authenticator, verdict.status);
      this.#state = "closing";
      return;
    }
    clearTimeout(this.#loginTimer);
    this.#version = verdict.version;
    this.#answerLogin(pdu.sequenceId, pdu.authenticator, 0);
    this.#state = "ready";
    this.#loggedInAt = Date.now();
    this.#owner.loggedIn(this);
    this.#takeManners();
  }

  /** What it does of itself while the connection lasts. */
  #takeManners(): void {
    const { terminateAfterMs, activeTestEveryMs } = this.#owner.deviations();
    const say = (command: "terminate" | "active_test") => (): void => {
      if (this.ready) this.send({ command, sequenceId: this.nextSequenceId() });
    };
    if (terminateAfterMs !== undefined) this.#manners.push(setTimeout(say("terminate"), terminateAfterMs));
    if (activeTestEveryMs !== undefined)
      this.#manners.push(setInterval(say("active_test"), activeTestEveryMs));
  }

  #answerLogin(sequenceId: number, source: Buffer, status: number): void {
    const version = this.#version;
    const authenticator =
      status === 0 ? serverAuthenticator(0, source, this.#secret, statusBytes(version)) : Buffer.alloc(16);
    this.send({ command: "connect_resp", sequenceId, status, authenticator, version: versionByte(version) });
  }

  #receive(pdu: Pdu): void {
    const { sequenceId } = pdu;
    switch (pdu.command) {
      case "submit":
        return this.#owner.submit(this, pdu);
      case "deliver_resp":
        return this.#owner.delivered(this, pdu);
      case "active_test":
        return this.send({ command: "active_test_resp", sequenceId });
      case "terminate":
        this.send({ command: "terminate_resp", sequenceId });
        this.#state = "closing";
        return;
      case "cancel":
        return this.send({ command: "cancel_resp", sequenceId, result: NOT_CANCELED });
      case "query":
        return this.send({ ...pdu, command: "query_resp", counts: Array.from({ length: 8 }, () => 0) });
      case "connect":
      case "connect_resp":
      case "submit_resp":
      case "deliver":
      case "query_resp":
      case "cancel_resp":
      case "active_test_resp":
      case "terminate_resp":
        // Answers to what was never asked, and a second login: no gateway reacts to those.
        return;
    }
  }

  #closed(): void {
    this.#state = "closed";
    clearTimeout(this.#loginTimer);
    for (const timer of this.#manners) clearTimeout(timer);
    this.#owner.closed(this);
  }
}

/** Minor versions share the layout of their major one; anything else has none here. */
export function spokenVersion(byte: number): CmppVersion | undefined {
  if (byte >> 4 === 2) return "2.0";
  if (byte >> 4 === 3) return "3.0";
  return undefined;
}
