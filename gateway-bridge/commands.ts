/**
 * One connection's share of a supplier's commands: handed out by window and pace, taken in PostgreSQL,
 * written once, and acknowledged when nothing is left to write (C3, C4, B5).
 *
 * The order is fixed: read command, window slot and permit, take, write, record. Nothing is ever taken
 * that cannot be written now.
 */
import type { Database } from "../db/client.ts";
import { markDead } from "../db/outbox.ts";
import { giveBackTakes, type Holder, partStates, type PartWrite, take, writeKey } from "../db/takes.ts";
import { MAX_WRITES } from "../domain/fold.ts";
import { atPoint, isArmed, reach } from "../fault-points/at-point.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import { FieldError } from "./cmpp-fields.ts";
import { type CmppSession, SessionNotReady, type SubmitAnswer } from "./cmpp-session.ts";
import { type CommandQueue, done, type Write } from "./command-queue.ts";
import type { EventRecorder } from "./events.ts";
import { outgoingText } from "./outgoing-text.ts";
import type { Pace } from "./pace.ts";
import { seldom } from "./seldom.ts";
import { noResponseEvent, responseEvent } from "./supplier-events.ts";
import { answerBy, type SupplierProfile } from "./supplier.ts";

export interface LaneDeps {
  database: Database;
  recorder: EventRecorder;
  log: Log;
  onAnswer: (channelId: string, answer: string) => void;
}

const RETRY_MS = 500;
/**
 * A take that is older was held up, by PostgreSQL or because this process was stopped: the sweeper, who
 * calls writes unknown from three seconds on, may have been there first.
 */
const TAKE_GOOD_FOR_MS = 2_500;

export class Lane {
  readonly #deps: LaneDeps;
  readonly #holder: Holder;
  readonly #profile: () => SupplierProfile;
  readonly #queue: CommandQueue;
  readonly #unknownAnswers = seldom(
    (_, count) =>
      this.#deps.log.warn({ supplier: this.#holder.supplierId, count }, "answers belong to no known submit"),
    () => performance.now(),
  );
  readonly #pace: Pace;
  readonly #session: CmppSession<Write>;
  readonly #forget: () => void;
  readonly #abandoned = new AbortController();
  #backlog: Write[] = [];
  #rounds = 0;
  #pausedUntil = 0;
  #pumping: Promise<void> | undefined;
  #again = false;
  #open = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    deps: LaneDeps,
    it: {
      holder: Holder;
      profile: () => SupplierProfile;
      queue: CommandQueue;
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
    if (this.#pumping !== undefined || !this.#open) return;
    // Behind whatever else this chunk answers: the slots that it frees are taken together.
    const begun = Promise.resolve().then(() => this.#pumpAll());
    this.#pumping = begun.finally(() => {
      this.#pumping = undefined;
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

  get isOpen(): boolean {
    return this.#open;
  }

  /** Resolves when no take is under way any more, written or given back. To be closed before. */
  async idle(): Promise<void> {
    await this.#pumping;
  }

  /** Takes that could not be given back until now stay: the sweeper calls them unknown. */
  abandon(): void {
    this.#abandoned.abort();
  }

  onResponse(answered: SubmitAnswer<Write>): void {
    reach("response_read");
    const write = answered.key;
    if (write === undefined) {
      this.#unknownAnswers.say("answer");
      return;
    }
    const answer = answerBy(this.#profile(), answered.result);
    this.#deps.onAnswer(write.hand.command.channelId, answer);
    // Said again, and again: what comes late was answered, or called unknown, before.
    const recorded = this.#deps.recorder.record(
      responseEvent(this.#holder, plain(write), { ...answered, answer }),
      answered.late,
    );
    recorded.then(
      () => {
        reach("result_committed");
        if (answered.late) return;
        if (answer === "throttled" && write.writeNumber < MAX_WRITES) this.#writeAgain(write);
        else done(write);
      },
      () => write.hand.letGo(),
    );
  }

  /** Also for every submit that a connection took with it: never written again, never guessed (I). */
  onNoResponse(write: Write): void {
    this.#deps.onAnswer(write.hand.command.channelId, "no_response");
    this.#deps.recorder.record(noResponseEvent(this.#holder, plain(write))).then(
      () => done(write),
      () => write.hand.letGo(),
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
        await delay(RETRY_MS, this.#abandoned.signal);
        this.#again = true;
      }
    }
  }

  /** One round: false when there is nothing to write, or no slot or permit to write it with. */
  async #writeOnce(): Promise<boolean> {
    const writes = this.#writable();
    if (writes.length === 0) return false;
    const round = this.#nextRound();
    const since = performance.now();
    const taken = await this.#take(round, writes);
    const { left, impossible } = this.#submit(
      writes.filter((write) => taken.has(writeKey(write))),
      since,
    );
    this.#pace.release(writes.length - taken.size + left.length + impossible.length);
    await this.#giveBack(round, [...left, ...impossible.map(([write]) => write)]);
    this.#putBack(left);
    for (const [write, code] of impossible) await this.#cannotBeWritten(write, code);
    for (const write of writes) if (!taken.has(writeKey(write))) await this.#lookInto(write);
    return true;
  }

  /** As many writes as slots and permits are free, off the backlog; their permits are reserved. */
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
    if (wanted <= 0) return [];
    const permits = this.#pace.reserve(wanted);
    if (permits === 0) return this.#later(this.#pace.waitMs());
    return this.#backlog.splice(0, permits);
  }

  #later(ms: number): [] {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.pump(), Math.max(1, Math.ceil(ms)));
    return [];
  }

  /** An owner's name of its own, so that giving back can never reach what another round has written. */
  #nextRound(): Holder {
    const { owner, slot, epoch } = this.#holder;
    return { ...this.#holder, owner: `${owner}/${slot}/${epoch}/${++this.#rounds}` };
  }

  /**
   * Whether a commit went through is not always known when the connection to PostgreSQL breaks. Nothing
   * was written yet, so what may have been taken is given back, and taken anew in another round.
   */
  async #take(round: Holder, writes: Write[]): Promise<Set<string>> {
    try {
      return await atPoint("take", () => take(this.#deps.database, round, writes));
    } catch (error) {
      this.#pace.release(writes.length);
      await this.#giveBack(round, writes);
      this.#putBack(writes);
      throw error;
    }
  }

  /** Synchronous: no time passes between looking at the connection and writing to it. */
  #submit(writes: Write[], since: number): { left: Write[]; impossible: [Write, string][] } {
    const impossible: [Write, string][] = [];
    for (const [index, write] of writes.entries()) {
      const stale = performance.now() - since > TAKE_GOOD_FOR_MS;
      if (stale || !this.#session.ready) return { left: writes.slice(index), impossible };
      try {
        this.#session.submit(write, this.#fields(write));
        this.#pace.spend();
      } catch (error) {
        if (error instanceof SessionNotReady) return { left: writes.slice(index), impossible };
        impossible.push([write, error instanceof FieldError ? error.code : errorName(error)]);
      }
    }
    // The session's own flush, planned in this turn, comes first.
    if (isArmed("all_written")) setImmediate(() => reach("all_written"));
    return { left: [], impossible };
  }

  /** Takes of which no byte was written (C3); asked until PostgreSQL has answered. */
  async #giveBack(round: Holder, writes: Write[]): Promise<void> {
    while (writes.length > 0) {
      try {
        return await giveBackTakes(this.#deps.database, round.owner, writes);
      } catch (error) {
        this.#deps.log.warn(
          { supplier: this.#holder.supplierId, error: errorName(error) },
          "takes could not be given back",
        );
        if (this.#abandoned.signal.aborted) return;
        await delay(RETRY_MS, this.#abandoned.signal);
      }
    }
  }

  #putBack(writes: Write[]): void {
    if (this.#open) this.#backlog.unshift(...writes);
    else this.#queue.putBack(writes);
  }

  /** A command that no supplier can be sent is dead and waits for a person (C7). */
  async #cannotBeWritten(write: Write, code: string): Promise<void> {
    this.#deps.log.error({ submitId: write.submitId, code }, "a command is dead");
    try {
      await markDead(this.#deps.database, write.submitId, code);
      done(write);
    } catch (error) {
      this.#letGo(write, error);
    }
  }

  /** Not taken: it was before, by this process or another, or nobody wants it written any more. */
  async #lookInto(write: Write): Promise<void> {
    try {
      const { wanted, parts } = await partStates(this.#deps.database, write.submitId);
      const last = parts.find((it) => it.part === write.part);
      if (last?.state === "open") {
        // Somebody wrote it and nobody knows yet: the sweeper calls it unknown in time.
        write.hand.letGo();
      } else if (!wanted || last?.state === "closed" || (last?.writeNumber ?? 0) >= MAX_WRITES) {
        done(write);
      } else {
        this.#putBack([{ ...write, writeNumber: (last?.writeNumber ?? 0) + 1 }]);
      }
    } catch (error) {
      this.#letGo(write, error);
    }
  }

  #letGo(write: Write, error: unknown): void {
    this.#deps.log.warn({ submitId: write.submitId, error: errorName(error) }, "a command is left for later");
    write.hand.letGo();
  }

  /** The supplier said "slower" and took nothing: the same part again, on this connection, later (C3). */
  #writeAgain(write: Write): void {
    const next = { ...write, writeNumber: write.writeNumber + 1 };
    if (!this.#open) return this.#queue.putBack([next]);
    // Not between the parts of a text of which some are written already (cmpp §8, 4).
    const begun = this.#backlog.findIndex((it) => it.part === 1 || it.writeNumber > 1);
    this.#backlog.splice(begun < 0 ? this.#backlog.length : begun, 0, next);
    this.#pausedUntil = performance.now() + this.#profile().throttleBackoffMs;
    this.pump();
  }

  #fields(write: Write) {
    const { command } = write.hand;
    const { serviceId, msgSrc, encoding } = this.#profile();
    const text = outgoingText(command, encoding);
    return {
      destination: command.to,
      srcId: command.srcId,
      msgFmt: text.msgFmt,
      content: text.contents[write.part - 1] ?? Buffer.alloc(0),
      pkTotal: command.parts.length,
      pkNumber: write.part,
      udhi: command.parts.length > 1,
      registeredDelivery: 1,
      serviceId,
      ...(msgSrc === undefined ? {} : { msgSrc }),
    };
  }
}

const plain = ({ submitId, attemptId, part, writeNumber }: Write): PartWrite => ({
  submitId,
  attemptId,
  part,
  writeNumber,
});
