/**
 * Commands of one supplier on their way to its connections: handed out by window and pace, taken in
 * PostgreSQL, written once, and acknowledged when nothing is left to write (C3, C4, B5).
 *
 * The order is fixed: read command, window slot and permit, take, write, record. Nothing is ever taken
 * that cannot be written now.
 */
import type { Database } from "../db/client.ts";
import { isAway } from "../db/client.ts";
import { markDead } from "../db/outbox.ts";
import { giveBackTakes, type Holder, partStates, type PartWrite, take, writeKey } from "../db/takes.ts";
import type { SubmitCommand } from "../domain/command.ts";
import { MAX_WRITES } from "../domain/fold.ts";
import { answerOf } from "../domain/supplier-codes.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import { FieldError } from "./cmpp-fields.ts";
import type { CmppSession, SubmitAnswer } from "./cmpp-session.ts";
import type { EventRecorder } from "./events.ts";
import type { Pace } from "./pace.ts";
import { noResponseEvent, responseEvent } from "./supplier-events.ts";
import type { SupplierProfile } from "./supplier.ts";

/** A command that this process has read and not acknowledged. */
export interface CommandInHand {
  command: SubmitCommand;
  /** Parts that may still have to be written, or whose outcome is not recorded. */
  openParts: Set<number>;
  acknowledge: () => void;
}

/** One write of one part: what a session is given as its key. */
export interface Write extends PartWrite {
  hand: CommandInHand;
}

export interface LaneDeps {
  database: Database;
  recorder: EventRecorder;
  log: Log;
  onAnswer: (channelId: string, answer: string) => void;
}

/** Writes that wait for a connection, in order; parts of one command stand together (cmpp §8, 4). */
export class SupplierQueue {
  #items: Write[][] = [];
  readonly #waiters = new Set<() => void>();

  get length(): number {
    return this.#items.length;
  }
  offer(writes: Write[]): void {
    this.#items.push(writes);
    this.#wake();
  }
  /** For what a connection that ended did not write. */
  putBack(writes: Write[]): void {
    if (writes.length === 0) return;
    this.#items.unshift(writes);
    this.#wake();
  }
  next(): Write[] | undefined {
    return this.#items.shift();
  }
  onOffer(wake: () => void): () => void {
    this.#waiters.add(wake);
    return () => this.#waiters.delete(wake);
  }
  #wake(): void {
    for (const wake of this.#waiters) wake();
  }
}

const RETRY_MS = 500;
/** Somebody wrote it and nobody knows yet: the sweeper calls it unknown in time. */
const RECHECK_MS = 2_000;

/** One connection's share of a supplier's commands. */
export class Lane {
  readonly #deps: LaneDeps;
  readonly #holder: Holder;
  readonly #profile: SupplierProfile;
  readonly #queue: SupplierQueue;
  readonly #pace: Pace;
  readonly #session: CmppSession<Write>;
  readonly #forget: () => void;
  #backlog: Write[] = [];
  #pausedUntil = 0;
  #pumping = false;
  #again = false;
  #open = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    deps: LaneDeps,
    it: {
      holder: Holder;
      profile: SupplierProfile;
      queue: SupplierQueue;
      pace: Pace;
      session: CmppSession<Write>;
    },
  ) {
    this.#deps = deps;
    this.#holder = it.holder;
    this.#profile = it.profile;
    this.#queue = it.queue;
    this.#pace = it.pace;
    this.#session = it.session;
    this.#forget = it.queue.onOffer(() => this.pump());
  }

  /** Takes and writes what can be written now. Called whenever something may have become possible. */
  pump(): void {
    this.#again = true;
    if (this.#pumping || !this.#open) return;
    this.#pumping = true;
    void this.#pumpAll().finally(() => {
      this.#pumping = false;
      if (this.#again) this.pump();
    });
  }

  /** Nothing new is taken from here on; what was not taken goes back to the other connections. */
  close(): void {
    this.#open = false;
    this.#again = false;
    this.#forget();
    clearTimeout(this.#timer);
    this.#queue.putBack(this.#backlog);
    this.#backlog = [];
  }

  onResponse(answered: SubmitAnswer<Write>): void {
    const write = answered.key;
    if (write === undefined) {
      this.#deps.log.warn({ supplier: this.#holder.supplierId }, "an answer belongs to no known submit");
      return;
    }
    const answer = answerOf(answered.result, this.#profile.throttleResults);
    this.#deps.onAnswer(write.hand.command.channelId, answer);
    const recorded = this.#deps.recorder.record(
      responseEvent(this.#holder, plain(write), { ...answered, answer }),
    );
    recorded.then(
      () => {
        if (answered.late) return;
        if (answer === "throttled" && write.writeNumber < MAX_WRITES) this.#writeAgain(write);
        else done(write);
      },
      () => undefined,
    );
  }

  /** Also for every submit that a connection took with it: never written again, never guessed (I). */
  onNoResponse(write: Write): void {
    this.#deps.onAnswer(write.hand.command.channelId, "no_response");
    this.#deps.recorder.record(noResponseEvent(this.#holder, plain(write))).then(
      () => done(write),
      () => undefined,
    );
  }

  async #pumpAll(): Promise<void> {
    while (this.#again && this.#open) {
      this.#again = false;
      try {
        while (this.#open && (await this.#writeOnce()));
      } catch (error) {
        this.#deps.log.warn(
          { supplier: this.#holder.supplierId, error: errorName(error) },
          "commands could not be taken; tried again",
        );
        await delay(RETRY_MS);
        this.#again = true;
      }
    }
  }

  /** One round: false when there is nothing to write, or no slot or permit to write it with. */
  async #writeOnce(): Promise<boolean> {
    const writes = this.#writable();
    if (writes.length === 0) return false;
    const taken = await this.#take(writes);
    const refused = writes.filter((write) => !taken.has(writeKey(write)));
    await this.#submit(writes.filter((write) => taken.has(writeKey(write))));
    for (const write of refused) await this.#lookInto(write);
    return true;
  }

  /** As many writes as slots and permits are free, off the backlog. */
  #writable(): Write[] {
    const now = performance.now();
    if (now < this.#pausedUntil) return this.#later(this.#pausedUntil - now);
    const slots = this.#session.freeWindow;
    while (this.#backlog.length < slots) {
      const next = this.#queue.next();
      if (next === undefined) break;
      this.#backlog.push(...next);
    }
    const wanted = Math.min(slots, this.#backlog.length);
    if (wanted === 0) return [];
    const permits = this.#pace.available(wanted);
    if (permits === 0) return this.#later(this.#pace.waitMs());
    this.#pace.use(permits);
    return this.#backlog.splice(0, permits);
  }

  #later(ms: number): [] {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.pump(), Math.max(1, Math.ceil(ms)));
    return [];
  }

  /**
   * Whether a commit went through is not always known when the connection to PostgreSQL breaks. Nothing
   * was written yet, so what may have been taken is given back first, and taken anew.
   */
  async #take(writes: Write[]): Promise<Set<string>> {
    for (let tries = 0; ; tries++) {
      try {
        if (tries > 0) await giveBackTakes(this.#deps.database, this.#holder.owner, writes);
        return await take(this.#deps.database, this.#holder, writes);
      } catch (error) {
        if (!isAway(error) && tries >= 3) {
          this.#backlog.unshift(...writes);
          throw error;
        }
        if (!this.#open) {
          this.#queue.putBack(writes);
          throw error;
        }
        await delay(RETRY_MS);
      }
    }
  }

  async #submit(writes: Write[]): Promise<void> {
    for (const [index, write] of writes.entries()) {
      try {
        if (!this.#session.ready) return await this.#unwritten(writes.slice(index));
        this.#session.submit(write, this.#fields(write));
      } catch (error) {
        await giveBackTakes(this.#deps.database, this.#holder.owner, [write]);
        if (!(error instanceof FieldError)) {
          await this.#unwritten(writes.slice(index + 1));
          this.#queue.putBack([write]);
          throw error;
        }
        await this.#cannotBeWritten(write, error);
      }
    }
  }

  /** Taken, and the connection ended before their first byte (C3). */
  async #unwritten(writes: Write[]): Promise<void> {
    if (writes.length === 0) return;
    await giveBackTakes(this.#deps.database, this.#holder.owner, writes);
    this.#queue.putBack(writes);
  }

  /** A command that no supplier can be sent is dead and waits for a person (C7). */
  async #cannotBeWritten(write: Write, error: FieldError): Promise<void> {
    this.#deps.log.error(
      { submitId: write.submitId, code: error.code, field: error.field },
      "a command is dead",
    );
    await markDead(this.#deps.database, write.submitId, error.code);
    done(write);
  }

  /** Not taken: it was before, by this process or another, or nobody wants it written any more. */
  async #lookInto(write: Write): Promise<void> {
    const { wanted, parts } = await partStates(this.#deps.database, write.submitId);
    const last = parts.find((it) => it.part === write.part);
    if (last?.state === "open") {
      setTimeout(() => this.#putBackAsIs(write), RECHECK_MS);
    } else if (!wanted || last?.state === "closed") {
      done(write);
    } else {
      this.#backlog.push({ ...write, writeNumber: (last?.writeNumber ?? 0) + 1 });
    }
  }

  #putBackAsIs(write: Write): void {
    this.#queue.offer([write]);
  }

  /** The supplier said "slower" and took nothing: the same part again, on this connection, later (C3). */
  #writeAgain(write: Write): void {
    const next = { ...write, writeNumber: write.writeNumber + 1 };
    if (!this.#open) return this.#queue.putBack([next]);
    this.#backlog.unshift(next);
    this.#pausedUntil = performance.now() + this.#profile.throttleBackoffMs;
    this.pump();
  }

  #fields(write: Write) {
    const { command } = write.hand;
    const content = Buffer.from(command.parts[write.part - 1] ?? "", "hex");
    return {
      destination: command.to,
      srcId: command.srcId,
      msgFmt: command.msgFmt,
      content,
      pkTotal: command.parts.length,
      pkNumber: write.part,
      udhi: command.parts.length > 1,
      registeredDelivery: 1,
      serviceId: this.#profile.serviceId,
      ...(this.#profile.msgSrc === undefined ? {} : { msgSrc: this.#profile.msgSrc }),
    };
  }
}

/** Every part of a fresh command, as first writes. */
export function firstWrites(hand: CommandInHand): Write[] {
  const { submitId, attemptId, parts } = hand.command;
  return parts.map((_, index) => ({ submitId, attemptId, part: index + 1, writeNumber: 1, hand }));
}

/** The part needs no more writing; the last one acknowledges the command (C4). */
function done(write: Write): void {
  write.hand.openParts.delete(write.part);
  if (write.hand.openParts.size === 0) write.hand.acknowledge();
}

const plain = ({ submitId, attemptId, part, writeNumber }: Write): PartWrite => ({
  submitId,
  attemptId,
  part,
  writeNumber,
});
