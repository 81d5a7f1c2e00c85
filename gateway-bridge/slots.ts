/**
 * One connection slot of a supplier: owned under a PostgreSQL session lock, connected, kept, connected
 * again with back-off; its state is a row that planning reads (B4, design §6).
 */
import type { Database } from "../db/client.ts";
import { beginEpoch, heartbeat, SlotLocks, type SlotState } from "../db/connections.ts";
import { delay, errorName, type Log } from "../workers/service.ts";
import { CmppSession, type WhyNotConnected } from "./cmpp-session.ts";
import { type CommandInHand, Lane, type LaneDeps, type SupplierQueue, type Write } from "./commands.ts";
import type { Pace } from "./pace.ts";
import { deliverEvent } from "./supplier-events.ts";
import type { Supplier } from "./supplier.ts";

/** Everything that the connections of one supplier account share. */
export interface SupplierLink {
  supplier: Supplier;
  channelIds: string[];
  queue: SupplierQueue;
  pace: Pace;
  /** Commands read and not acknowledged, by submit id. */
  inHand: Map<string, CommandInHand>;
  lanes: Set<Lane>;
}

export interface SlotDeps extends LaneDeps {
  owner: string;
  locks: LockKeeper;
  /** Read anew before each connect, so that an edited profile counts from the next connection on. */
  supplierNow: (supplierId: string) => Promise<Supplier | undefined>;
  log: Log;
  /** Publishes the changed state without waiting for the next beat. */
  changed: () => void;
}

const LOCK_RETRY_MS = 1_000;
const BACKOFF_MS = { first: 500, last: 30_000 };
/** Hammering with a wrong secret gets an address banned; too many means an old one is still held. */
const PATIENT = new Set<WhyNotConnected>(["auth", "too_many"]);
const PATIENT_MS = 60_000;

export class Slot {
  readonly #deps: SlotDeps;
  readonly #link: SupplierLink;
  readonly #slot: number;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #session: CmppSession<Write> | undefined;
  #lane: Lane | undefined;
  #epoch: bigint | undefined;
  #lastError: string | null = null;

  constructor(deps: SlotDeps, link: SupplierLink, slot: number) {
    this.#deps = deps;
    this.#link = link;
    this.#slot = slot;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Undefined while another process owns the slot. */
  get state(): SlotState | undefined {
    if (this.#epoch === undefined) return undefined;
    return {
      supplierId: this.#link.supplier.id,
      slot: this.#slot,
      epoch: this.#epoch,
      connected: this.#session?.ready ?? false,
      windowInUse: this.#session?.inUse ?? 0,
      lastError: this.#lastError,
    };
  }

  /** Another process has the slot now: two of us would be one connection too many. */
  yield(): void {
    this.#epoch = undefined;
    this.#session?.destroy();
  }

  /** Takes nothing new, waits for the answers to what was written, says goodbye (C3). */
  async stop(drainMs: number): Promise<void> {
    this.#closeLane();
    const giveUp = Date.now() + drainMs;
    while ((this.#session?.inUse ?? 0) > 0 && Date.now() < giveUp) await delay(20);
    this.#stopping.abort();
    await this.#session?.terminate();
    await this.#running;
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      try {
        const outcome = await this.#connectOnce();
        failures = outcome === "ended" ? 0 : failures + 1;
        await delay(pauseAfter(outcome, failures), this.#stopping.signal);
      } catch (error) {
        failures++;
        this.#deps.log.warn(
          { ...this.#name(), error: errorName(error) },
          "a connection slot could not be worked",
        );
        await delay(pauseAfter("unreachable", failures), this.#stopping.signal);
      }
    }
  }

  async #connectOnce(): Promise<"not_ours" | "ended" | WhyNotConnected> {
    const supplier = await this.#deps.supplierNow(this.#link.supplier.id);
    if (supplier === undefined) return "not_ours";
    const key = { supplierId: supplier.id, slot: this.#slot };
    if (!(await this.#deps.locks.hold(key, () => this.yield()))) return "not_ours";
    const epoch = await beginEpoch(this.#deps.database, supplier.id, this.#slot, this.#deps.owner);
    this.#epoch = epoch;
    return this.#keep(supplier, epoch);
  }

  async #keep(supplier: Supplier, epoch: bigint): Promise<"ended" | WhyNotConnected> {
    const holder = { owner: this.#deps.owner, supplierId: supplier.id, slot: this.#slot, epoch };
    const ended = withResolvers<void>();
    const lane = (): Lane | undefined => this.#lane;
    const session = new CmppSession<Write>(
      { ...supplier.profile, secret: supplier.secret },
      {
        response: (answer) => lane()?.onResponse(answer),
        unanswered: (write) => lane()?.onNoResponse(write),
        windowFree: () => lane()?.pump(),
        deliver: (deliver) => this.#deps.recorder.record(deliverEvent(holder, deliver)),
        ignored: (what) => this.#deps.log.warn({ ...this.#name(), what }, "something read was left aside"),
        closed: (why, unanswered) => {
          this.#lastError = why;
          for (const write of unanswered) lane()?.onNoResponse(write);
          ended.resolve();
        },
      },
    );
    this.#session = session;
    // Before the login's answer: deliveries may follow it in the same packet.
    this.#lane = new Lane(this.#deps, { ...this.#link, profile: supplier.profile, holder, session });
    const connected = await session.connect();
    if (!connected.ok) {
      this.#closeLane();
      this.#lastError = connected.why;
      this.#deps.changed();
      this.#deps.log.warn({ ...this.#name(), why: connected.why, status: connected.status }, "not connected");
      return connected.why;
    }
    this.#lastError = null;
    this.#deps.log.info({ ...this.#name(), epoch: String(epoch) }, "connected");
    this.#link.lanes.add(this.#lane);
    this.#deps.changed();
    this.#lane.pump();
    await ended.promise;
    this.#closeLane();
    this.#deps.changed();
    this.#deps.log.warn({ ...this.#name(), why: this.#lastError }, "connection ended");
    return "ended";
  }

  #closeLane(): void {
    if (this.#lane === undefined) return;
    this.#link.lanes.delete(this.#lane);
    this.#lane.close();
  }

  #name() {
    return { supplier: this.#link.supplier.id, slot: this.#slot };
  }
}

function pauseAfter(outcome: "not_ours" | "ended" | WhyNotConnected, failures: number): number {
  if (outcome === "not_ours") return LOCK_RETRY_MS;
  if (outcome === "ended") return BACKOFF_MS.first;
  if (PATIENT.has(outcome)) return PATIENT_MS;
  const backoff = Math.min(BACKOFF_MS.first * 2 ** (failures - 1), BACKOFF_MS.last);
  return backoff * (0.75 + Math.random() / 2);
}

interface SlotKey {
  supplierId: string;
  slot: number;
}

/**
 * Holds the slots' locks on one connection. When that connection breaks every lock is gone with it;
 * they are taken again at once, and a slot that somebody else got meanwhile is yielded.
 */
export class LockKeeper {
  readonly #open: () => Promise<SlotLocks>;
  #locks: SlotLocks | undefined;
  readonly #held = new Map<string, { key: SlotKey; lost: () => void }>();
  #opening: Promise<SlotLocks> | undefined;

  constructor(databaseUrl: string) {
    this.#open = () => SlotLocks.open(databaseUrl);
  }

  /** True when the slot is ours, now or already. */
  async hold(key: SlotKey, lost: () => void): Promise<boolean> {
    const locks = await this.#current();
    const name = `${key.supplierId}/${key.slot}`;
    if (this.#held.has(name)) return true;
    if (!(await locks.tryLock(key.supplierId, key.slot))) return false;
    this.#held.set(name, { key, lost });
    return true;
  }

  /** To be called every second or so: notices a broken connection and takes the locks again. */
  async check(): Promise<void> {
    await (await this.#current()).check();
  }

  async close(): Promise<void> {
    this.#held.clear();
    await this.#locks?.close();
  }

  async #current(): Promise<SlotLocks> {
    if (this.#locks?.lost === false) return this.#locks;
    this.#opening ??= this.#reopen().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #reopen(): Promise<SlotLocks> {
    const locks = await this.#open();
    for (const [name, { key, lost }] of this.#held) {
      if (await locks.tryLock(key.supplierId, key.slot)) continue;
      this.#held.delete(name);
      lost();
    }
    this.#locks = locks;
    return locks;
  }
}

/** Writes the states of all slots of a process in one statement. */
export async function beat(database: Database, owner: string, slots: readonly Slot[]): Promise<void> {
  const states = slots.flatMap((slot) => slot.state ?? []);
  if (states.length > 0) await heartbeat(database, owner, states);
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => (resolve = done));
  return { promise, resolve };
}
