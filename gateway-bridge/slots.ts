/**
 * One connection slot of a supplier: owned under a PostgreSQL session lock, connected, kept, connected
 * again with back-off; its state is a row that planning reads (B4, design §6).
 */
import type { Database } from "../db/client.ts";
import { beginEpoch, type SlotState } from "../db/connections.ts";
import type { Holder } from "../db/takes.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import { CmppSession, type WhyNotConnected } from "./cmpp-session.ts";
import type { Write } from "./command-queue.ts";
import { Lane, type LaneDeps } from "./commands.ts";
import type { LockKeeper } from "./lock-keeper.ts";
import { seldom } from "./seldom.ts";
import { deliverEvent } from "./supplier-events.ts";
import type { SupplierLink } from "./supplier-link.ts";
import type { Supplier } from "./supplier.ts";

export interface SlotDeps extends LaneDeps {
  database: Database;
  owner: string;
  locks: LockKeeper;
  log: Log;
  /** Publishes the changed state without waiting for the next beat. */
  changed: () => void;
}

type Outcome = "not_ours" | "no_profile" | "lived" | "ended" | WhyNotConnected;

const LOCK_RETRY_MS = 1_000;
const BACKOFF_MS = { first: 500, last: 30_000 };
/** A link that flaps is asked again within this time: what it refuses is not our login. */
const FLAPPING_LAST_MS = 5_000;
/** A connection that lived for so long was a good one. */
const LIVED_MS = 10_000;
/** Hammering with a wrong secret gets an address banned; too many means an old one is still held. */
const PATIENT = new Set<Outcome>(["auth", "too_many"]);
const PATIENT_MS = 60_000;
const DRAIN_LOOK_MS = 20;

export class Slot {
  readonly slot: number;
  readonly #deps: SlotDeps;
  readonly #link: SupplierLink;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #pausing = new AbortController();
  #renewed = false;
  #ceding = false;
  #owned = false;
  #session: CmppSession<Write> | undefined;
  #lane: Lane | undefined;
  #epoch: bigint | undefined;
  #lastError: string | null = null;
  readonly #leftAside = seldom(
    (what, count) => this.#deps.log.warn({ ...this.#name(), what, count }, "something read was left aside"),
    () => performance.now(),
  );

  constructor(deps: SlotDeps, link: SupplierLink, slot: number) {
    this.#deps = deps;
    this.#link = link;
    this.slot = slot;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Undefined while another process owns the slot. */
  get state(): SlotState | undefined {
    if (this.#epoch === undefined) return undefined;
    return {
      supplierId: this.#link.id,
      slot: this.slot,
      epoch: this.#epoch,
      // One that drains is none to plan for.
      connected: this.#session?.ready === true && this.#lane?.isOpen === true,
      windowInUse: this.#session?.inUse ?? 0,
      lastError: this.#link.refusal ?? this.#lastError,
    };
  }

  /** Another process has the slot now, or may have it: two of us would be one connection too many. */
  lose(): void {
    this.#owned = false;
    this.#epoch = undefined;
    this.#link.disown(this.slot);
    this.#session?.destroy();
  }

  /** Another epoch than ours was begun: whoever did so had the slot, however briefly. Begins anew. */
  overtaken(epoch: bigint): void {
    if (this.#epoch !== epoch) return;
    this.#epoch = undefined;
    this.#session?.destroy();
  }

  /** Ends the connection as `stop` does and makes a new one, with the profile of now. */
  renew(drainMs: number): void {
    this.#renewed = true;
    this.#pausing.abort();
    this.#leave(drainMs).catch((error: unknown) => {
      this.#deps.log.warn({ ...this.#name(), error: errorName(error) }, "a connection did not end cleanly");
    });
  }

  get isOwned(): boolean {
    return this.#owned;
  }

  /** Ends the connection as `stop` does and leaves the slot to another process. */
  cede(drainMs: number): void {
    if (this.#ceding) return;
    this.#ceding = true;
    this.renew(drainMs);
  }

  /** Takes nothing new, waits for the answers to what was written, says goodbye (C3). Keeps the lock. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping.abort();
    this.#pausing.abort();
    await this.#leave(drainMs);
    await this.#running;
    this.#link.disown(this.slot);
  }

  /** For another process to take, once it is stopped. */
  async release(): Promise<void> {
    this.#owned = false;
    this.#epoch = undefined;
    this.#link.disown(this.slot);
    await this.#deps.locks.release(this.#key());
  }

  async #leave(drainMs: number): Promise<void> {
    const [session, lane] = [this.#session, this.#lane];
    this.#closeLane();
    let isIdle = false;
    const idle = Promise.resolve(lane?.idle()).then(() => (isIdle = true));
    const giveUp = performance.now() + drainMs;
    while ((!isIdle || (session?.inUse ?? 0) > 0) && performance.now() < giveUp) await delay(DRAIN_LOOK_MS);
    lane?.abandon();
    await session?.terminate();
    await idle;
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      if (this.#ceding) await this.#giveUp();
      this.#renewed = false;
      this.#pausing = new AbortController();
      const outcome = await this.#once().catch((error: unknown): Outcome => {
        this.#deps.log.warn(
          { ...this.#name(), error: errorName(error) },
          "a connection slot could not be worked",
        );
        return "unreachable";
      });
      failures = outcome === "lived" || outcome === "not_ours" || this.#renewed ? 0 : failures + 1;
      if (!this.#renewed && !this.#stopping.signal.aborted) {
        await delay(pauseAfter(outcome, failures), this.#pausing.signal);
      }
    }
  }

  /** A moment without the slot, in which whoever waits for it gets it. */
  async #giveUp(): Promise<void> {
    this.#ceding = false;
    await this.release().catch((error: unknown) => {
      this.#deps.log.warn({ ...this.#name(), error: errorName(error) }, "a slot was not released cleanly");
    });
    this.#deps.log.info({ ...this.#name() }, "a slot is left to another process");
    await delay(LOCK_RETRY_MS, this.#stopping.signal);
  }

  async #once(): Promise<Outcome> {
    if (!(await this.#own()) || this.#stopping.signal.aborted) return "not_ours";
    const supplier = this.#link.supplier;
    if (supplier === undefined) {
      // The slot's row says why.
      this.#epoch ??= await this.#begin();
      this.#deps.changed();
      return "no_profile";
    }
    const epoch = await this.#begin();
    // Lost, or told to stop, to leave or to begin anew meanwhile: whoever did so found no session to end.
    if (!this.#owned || this.#renewed || this.#stopping.signal.aborted) return "not_ours";
    this.#epoch = epoch;
    return this.#keep(supplier, epoch);
  }

  async #own(): Promise<boolean> {
    if (!this.#link.mayOwn(this.slot)) return false;
    if (!(await this.#deps.locks.hold(this.#key(), () => this.lose()))) return false;
    this.#owned = true;
    this.#link.own(this.slot);
    return true;
  }

  #begin(): Promise<bigint> {
    return beginEpoch(this.#deps.database, this.#link.id, this.slot, this.#deps.owner);
  }

  async #keep(supplier: Supplier, epoch: bigint): Promise<Outcome> {
    const holder: Holder = { owner: this.#deps.owner, supplierId: supplier.id, slot: this.slot, epoch };
    const { session, lane, ended } = this.#open(supplier, holder);
    const connected = await session.connect();
    if (!connected.ok) {
      this.#closeLane();
      this.#lastError = connected.why;
      this.#deps.changed();
      this.#deps.log.warn({ ...this.#name(), why: connected.why, status: connected.status }, "not connected");
      return connected.why;
    }
    const since = performance.now();
    this.#lastError = null;
    this.#deps.log.info({ ...this.#name(), epoch: String(epoch) }, "connected");
    // Closed already where it was lost, renewed or stopped in this very turn.
    if (lane.isOpen) this.#link.lanes.add(lane);
    this.#deps.changed();
    lane.pump();
    const why = await ended;
    this.#lastError = why;
    this.#closeLane();
    this.#deps.changed();
    this.#deps.log.warn({ ...this.#name(), why }, "connection ended");
    return performance.now() - since >= LIVED_MS ? "lived" : "ended";
  }

  /** The lane is there before the login's answer: deliveries may follow that in the same packet. */
  #open(
    supplier: Supplier,
    holder: Holder,
  ): { session: CmppSession<Write>; lane: Lane; ended: Promise<string> } {
    const profile = () => this.#link.supplier?.profile ?? supplier.profile;
    let end: (why: string) => void = () => undefined;
    const ended = new Promise<string>((resolve) => (end = resolve));
    const session: CmppSession<Write> = new CmppSession<Write>(
      { ...supplier.profile, secret: supplier.secret, reading: profile },
      {
        response: (answer) => lane.onResponse(answer),
        unanswered: (write) => lane.onNoResponse(write),
        windowFree: () => lane.pump(),
        deliver: (deliver) => this.#deps.recorder.record(deliverEvent(holder, profile(), deliver)),
        ignored: (what) => this.#leftAside.say(what),
        closed: (why, unanswered) => {
          for (const write of unanswered) lane.onNoResponse(write);
          end(why);
        },
      },
    );
    const { queue, pace } = this.#link;
    const lane = new Lane(this.#deps, { holder, profile, queue, pace, session });
    this.#session = session;
    this.#lane = lane;
    return { session, lane, ended };
  }

  #closeLane(): void {
    if (this.#lane === undefined) return;
    this.#link.lanes.delete(this.#lane);
    this.#lane.close();
  }

  #key() {
    return { supplierId: this.#link.id, slot: this.slot };
  }

  #name() {
    return { supplier: this.#link.id, slot: this.slot };
  }
}

function pauseAfter(outcome: Outcome, failures: number): number {
  if (outcome === "not_ours" || outcome === "no_profile") return LOCK_RETRY_MS;
  if (outcome === "lived") return BACKOFF_MS.first;
  // Apart from each other, so that the connections of an account do not come back all at once.
  if (PATIENT.has(outcome)) return PATIENT_MS * (1 + Math.random() / 4);
  const last = outcome === "ended" ? FLAPPING_LAST_MS : BACKOFF_MS.last;
  const backoff = Math.min(BACKOFF_MS.first * 2 ** Math.max(0, failures - 1), last);
  return backoff * (0.75 + Math.random() / 2);
}
