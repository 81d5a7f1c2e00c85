/**
 * One simulated supplier account: who may log in, what becomes of each SUBMIT, and what disturbs it.
 * Everything a SUBMIT leads to is in the files before its answer leaves.
 */
import { createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { versionByte, type CmppVersion, type Connect, type DeliverResp, type Submit } from "./cmpp-codec.ts";
import { loginMatches } from "./cmpp-login.ts";
import { MsgIdSource, NO_MSG_ID } from "./cmpp-msg-id.ts";
import { handsetNumber } from "./cmpp-receipt.ts";
import { readUserData } from "./cmpp-text.ts";
import { Connection, spokenVersion, type ConnectionOwner } from "./simulator-connection.ts";
import { Deliveries, type DeliveryOptions } from "./simulator-deliveries.ts";
import { deviantPlan, isThrottledNow, type Deviations } from "./simulator-deviations.ts";
import type { Fates, Plan, PlannedAnswer, PlannedReceipt, SeenSubmit } from "./simulator-fates.ts";
import { InboundTexts, type InboundRequest } from "./simulator-inbound.ts";
import { SlidingSecond } from "./simulator-limits.ts";
import { OwedReceipts, type OwedReceipt } from "./simulator-owed.ts";
import { Timers } from "./simulator-timers.ts";
import { Witness, type SubmitRecord, type WitnessStats } from "./simulator-witness.ts";

export interface SupplierOptions {
  /** Letters, digits, `-` and `_`: it names the folder. */
  name: string;
  version: CmppVersion;
  /** 0: a free one. */
  cmppPort: number;
  logPort: number;
  spId: string;
  secret: string;
  /** Submits that one connection may have unanswered. */
  window: number;
  /** Submits a second over all connections. */
  rate: number;
  connections: number;
  /** None when not said. */
  deviations?: Deviations;
}

export interface SupplierSurroundings extends Omit<DeliveryOptions, "deviations"> {
  host: string;
  folder: string;
  fates: Fates;
  /** 22 bits, of no other supplier and no earlier run (cmpp §10). */
  gatewayCode: number;
  loginTimeoutMs: number;
  timeScale: number;
}

/** What can be disturbed; a value that is left out stays as it is. */
export interface Faults {
  /** Ends all connections, now. */
  cut?: boolean;
  /** Nothing is read and nothing answered, on connections old and new, until it is false again. */
  blackhole?: boolean;
  /** True is status 3; a number is that status. */
  refuseLogin?: boolean | number;
  /** Added before each answer to a submit. */
  delayMs?: number;
  /** Another limit than the configured one; null takes it back. */
  rate?: number | null;
}

export interface SupplierStats extends WitnessStats {
  /** Logged in. */
  connections: number;
  /** Logged in or not. */
  openConnections: number;
  logins: number;
  refusedLogins: number;
  receiptsOwed: number;
  receiptsAcknowledged: number;
  deviations: Deviations;
  faults: { blackhole: boolean; refuseLogin: boolean | number; delayMs: number; rate: number | null };
}

const LOGIN_REFUSED = { source: 2, digest: 3, version: 4, tooMany: 56 } as const;
const RESULT = {
  accepted: 0,
  structure: 1,
  serviceId: 7,
  flowControl: 8,
  srcId: 10,
  msgSrc: 11,
  number: 13,
} as const;
/**
 * A rate is judged by when a submit is read, and a busy machine reads late and then several at once.
 * Without some room an honest pace would count as a violation.
 */
const RATE_ROOM = 1.1;
const THROTTLED: Plan = {
  answer: { result: RESULT.flowControl, afterMs: 0, times: 1, msgId: "zero" },
  receipts: [],
};
/** An answer that comes later than this is one that clients give up on, and their slot with it. */
const HELD_SLOT_MS = 5_000;
/** How long the parts of a text wait for each other before they are answered in reverse order. */
const GATHER_MS = 1_000;

export class SimulatedSupplier implements ConnectionOwner {
  readonly name: string;
  readonly #options: SupplierOptions;
  readonly #around: SupplierSurroundings;
  readonly #server: Server;
  readonly #witness: Witness;
  readonly #owed: OwedReceipts;
  readonly #deliveries: Deliveries;
  readonly #timers = new Timers();
  readonly #inbound: InboundTexts;
  readonly #ids: MsgIdSource;
  readonly #run = Date.now().toString(36);
  /** Every open connection, logged in or not, with the slots of its window that are taken. */
  readonly #connections = new Map<Connection, number>();
  readonly #admitted = new SlidingSecond();
  readonly #gathered = new Map<string, (() => void)[]>();
  readonly #toFlush = new Set<Connection>();
  #deviations: Deviations;
  #submits = 0;
  #flushPlanned = false;
  #connectionCount = 0;
  #logins = 0;
  #refusedLogins = 0;
  #faults = {
    blackhole: false,
    refuseLogin: false as boolean | number,
    delayMs: 0,
    rate: null as number | null,
  };

  constructor(options: SupplierOptions, around: SupplierSurroundings) {
    if (!/^[\w-]+$/.test(options.name)) throw new Error("a supplier's name has letters, digits, - and _");
    this.name = options.name;
    this.#options = options;
    this.#around = around;
    this.#deviations = options.deviations ?? {};
    this.#ids = new MsgIdSource(around.gatewayCode);
    const folder = join(around.folder, options.name);
    this.#witness = new Witness(folder, (record) => this.#remember(record));
    this.#owed = new OwedReceipts(folder);
    const deviations = (): Deviations => this.#deviations;
    this.#deliveries = new Deliveries(this.#owed, this.#witness, this.#timers, { ...around, deviations });
    this.#inbound = new InboundTexts(this.#timers, around.redeliverAfterMs);
    this.#server = createServer((socket) => this.#accept(socket));
  }

  get witness(): Pick<Witness, "submits" | "receipts"> {
    return this.#witness;
  }

  /** Answers the port. */
  async listen(): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#options.cmppPort, this.#around.host, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#timers.stop();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const connection of this.#connections.keys()) connection.cut();
    if (this.#server.listening) await closed;
    this.#timers.stop();
    this.#witness.close();
    this.#owed.close();
  }

  stats(): SupplierStats {
    return {
      ...this.#witness.stats(),
      ...this.#deliveries.stats(),
      connections: this.#readyCount(),
      openConnections: this.#connections.size,
      logins: this.#logins,
      refusedLogins: this.#refusedLogins,
      deviations: this.#deviations,
      faults: { ...this.#faults },
    };
  }

  deviations(): Deviations {
    return this.#deviations;
  }

  /** From now on; those of a connection's beginning from the next one on. */
  deviate(deviations: Deviations): void {
    this.#deviations = deviations;
  }

  disturb(faults: Faults): void {
    const { cut, blackhole, refuseLogin, delayMs, rate } = faults;
    if (refuseLogin !== undefined) this.#faults.refuseLogin = refuseLogin;
    if (delayMs !== undefined) this.#faults.delayMs = delayMs;
    if (rate !== undefined) this.#faults.rate = rate;
    if (cut === true) for (const connection of this.#connections.keys()) connection.cut();
    if (blackhole === undefined) return;
    this.#faults.blackhole = blackhole;
    for (const connection of this.#connections.keys()) connection.silence(blackhole);
    if (blackhole) return;
    this.#deliveries.pump();
    this.#inbound.pump();
  }

  /** A recipient writes. Answers the Msg_Ids of what is sent, in order. */
  receive(request: InboundRequest): string[] {
    return this.#inbound.add(request, () => this.#ids.next());
  }

  login(_connection: Connection, pdu: Connect): { version: CmppVersion } | { status: number } {
    const status = this.#refusal(pdu);
    if (status !== undefined) {
      this.#refusedLogins++;
      return { status };
    }
    this.#logins++;
    return { version: spokenVersion(pdu.version) ?? this.#options.version };
  }

  loggedIn(connection: Connection): void {
    this.#deliveries.loggedIn(connection);
    this.#inbound.loggedIn(connection);
  }

  submit(connection: Connection, pdu: Submit): void {
    const refused = refusedResult(pdu, this.#deviations);
    if (refused !== undefined) return this.#refuse(connection, pdu, refused);
    const at = Date.now();
    const violation = this.#violation(connection, at);
    const record = this.#recordOf(connection, pdu, at);
    const seen = seenSubmit(this.name, record);
    if (violation !== undefined) {
      const throttled = { ...record, msgId: NO_MSG_ID, result: RESULT.flowControl, violation };
      this.#witness.recordSubmit(throttled);
      this.#remember(throttled);
      return this.#refuse(connection, pdu, RESULT.flowControl);
    }
    this.#admitted.add(at);
    const { answer, receipts } = this.#plan(seen);
    const result = typeof answer === "string" ? null : answer.result;
    const decided = { ...record, result, msgId: result === null || result === 0 ? record.msgId : NO_MSG_ID };
    this.#witness.recordSubmit(decided);
    this.#remember(decided);
    if (pdu.registeredDelivery !== 0) {
      this.#deliveries.add(receipts.map((receipt) => this.#owedReceipt(receipt, record, pdu, at)));
    }
    if (answer === "cut") connection.cut();
    else if (answer !== "none") this.#answer(connection, pdu, record, answer);
    this.#planFlush();
  }

  #plan(seen: SeenSubmit): Plan {
    if (isThrottledNow(this.#submits++, this.#deviations)) return THROTTLED;
    return deviantPlan(this.#around.fates.plan(seen), seen, this.#deviations);
  }

  delivered(connection: Connection, pdu: DeliverResp): void {
    if (!this.#inbound.answered(connection, pdu)) this.#deliveries.answered(connection, pdu);
    this.#planFlush();
  }

  closed(connection: Connection): void {
    this.#connections.delete(connection);
    this.#deliveries.closed(connection);
    this.#inbound.closed(connection);
  }

  wantsFlush(connection: Connection): void {
    this.#toFlush.add(connection);
    this.#planFlush();
  }

  #accept(socket: ConstructorParameters<typeof Connection>[1]): void {
    const id = `${this.#run}-${++this.#connectionCount}`;
    const { version, secret } = this.#options;
    const connection = new Connection(id, socket, this, {
      version,
      secret,
      loginTimeoutMs: this.#around.loginTimeoutMs,
    });
    this.#connections.set(connection, 0);
    if (this.#faults.blackhole) connection.silence(true);
  }

  #refusal(pdu: Connect): number | undefined {
    const { refuseLogin } = this.#faults;
    if (refuseLogin !== false) return refuseLogin === true ? LOGIN_REFUSED.digest : refuseLogin;
    const version = spokenVersion(pdu.version);
    const highest = versionByte(this.#options.version) >> 4;
    if (version === undefined || pdu.version >> 4 > highest) return LOGIN_REFUSED.version;
    if (pdu.sourceAddr !== this.#options.spId) return LOGIN_REFUSED.source;
    const { shortLogin } = this.#deviations;
    if (!loginMatches(pdu, this.#options.secret, shortLogin)) return LOGIN_REFUSED.digest;
    if (this.#readyCount() >= this.#options.connections) return LOGIN_REFUSED.tooMany;
    return undefined;
  }

  #readyCount(): number {
    let count = 0;
    for (const connection of this.#connections.keys()) if (connection.ready) count++;
    return count;
  }

  #refuse(connection: Connection, pdu: Submit, result: number): void {
    connection.send({ command: "submit_resp", sequenceId: pdu.sequenceId, msgId: NO_MSG_ID, result });
  }

  #violation(connection: Connection, at: number): "rate" | "window" | undefined {
    if ((this.#connections.get(connection) ?? 0) >= this.#options.window) return "window";
    const limit = this.#faults.rate ?? this.#options.rate;
    return this.#admitted.count(at) + 1 > Math.ceil(limit * RATE_ROOM) ? "rate" : undefined;
  }

  #recordOf(connection: Connection, pdu: Submit, at: number): SubmitRecord {
    const { part } = readUserData(pdu.content, pdu.udhi);
    return {
      at: new Date(at).toISOString(),
      connection: connection.id,
      sequenceId: pdu.sequenceId,
      msgId: this.#ids.next(),
      to: handsetNumber(pdu.destinations[0] ?? ""),
      srcId: pdu.srcId,
      part: part?.number ?? Math.max(1, pdu.pkNumber),
      parts: part?.total ?? Math.max(1, pdu.pkTotal),
      ref: part?.reference ?? null,
      textHex: pdu.content.toString("hex"),
      result: null,
    };
  }

  #remember(record: SubmitRecord): void {
    this.#around.fates.remember(seenSubmit(this.name, record), {
      at: Date.parse(record.at),
      result: record.result,
      violated: record.violation !== undefined,
    });
  }

  #owedReceipt(planned: PlannedReceipt, record: SubmitRecord, pdu: Submit, at: number): OwedReceipt {
    return {
      deliverMsgId: this.#ids.next(),
      msgId: planned.msgId === "own" ? record.msgId : this.#ids.next(),
      stat: planned.stat,
      to: record.to,
      srcId: record.srcId,
      serviceId: pdu.serviceId,
      submittedAt: at,
      dueAt: at + planned.afterMs,
      place: planned.place,
      connection: record.connection,
    };
  }

  #answer(connection: Connection, pdu: Submit, record: SubmitRecord, answer: PlannedAnswer): void {
    const msgId = answer.msgId === "own" ? record.msgId : NO_MSG_ID;
    const send = (): void => {
      for (let i = 0; i < answer.times; i++) {
        const { sequenceId } = pdu;
        connection.send({ command: "submit_resp", sequenceId, msgId, result: answer.result });
      }
    };
    const afterMs = answer.afterMs + this.#faults.delayMs;
    const release = afterMs <= HELD_SLOT_MS * this.#around.timeScale ? this.#takeSlot(connection) : () => {};
    const act = (): void => {
      release();
      send();
    };
    if (answer.reversed === true) this.#gather(connection, record, act);
    else if (afterMs > 0) this.#timers.after(afterMs, act);
    else act();
  }

  #takeSlot(connection: Connection): () => void {
    this.#connections.set(connection, (this.#connections.get(connection) ?? 0) + 1);
    return () => {
      const taken = this.#connections.get(connection);
      if (taken !== undefined) this.#connections.set(connection, taken - 1);
    };
  }

  /** Answers the parts of a text when all are there, the last first; or what is there after a while. */
  #gather(connection: Connection, record: SubmitRecord, act: () => void): void {
    const key = `${connection.id} ${record.to} ${record.ref}`;
    const waiting = this.#gathered.get(key) ?? [];
    waiting.push(act);
    const answerAll = (): void => {
      if (this.#gathered.get(key) !== waiting) return;
      this.#gathered.delete(key);
      for (const answer of waiting.toReversed()) answer();
    };
    if (waiting.length === 1) {
      this.#gathered.set(key, waiting);
      this.#timers.after(GATHER_MS * this.#around.timeScale, answerAll);
    }
    if (waiting.length >= record.parts) answerAll();
  }

  /** At the end of the turn: first to the files, then to the wire. */
  #planFlush(): void {
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    setImmediate(() => {
      this.#flushPlanned = false;
      this.#witness.flush();
      this.#owed.flush();
      for (const connection of this.#toFlush) connection.flush();
      this.#toFlush.clear();
    });
  }
}

function seenSubmit(supplier: string, record: SubmitRecord): SeenSubmit {
  const { to, part, parts, textHex } = record;
  return { supplier, number: to, part, parts, contentHex: textHex };
}

/** What could not even be told about in a receipt. */
function refusedResult(pdu: Submit, { msgSrc }: Deviations): number | undefined {
  const printable = /^[\x20-\x7e]*$/;
  if (pdu.destinations.length !== 1) return RESULT.structure;
  if (!/^\+?\d{1,20}$/.test(pdu.destinations[0] ?? "")) return RESULT.number;
  if (!printable.test(pdu.srcId)) return RESULT.srcId;
  if (msgSrc !== undefined && pdu.msgSrc !== msgSrc) return RESULT.msgSrc;
  return printable.test(pdu.serviceId) ? undefined : RESULT.serviceId;
}
