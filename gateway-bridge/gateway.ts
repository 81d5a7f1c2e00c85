/** The gateway of a group of suppliers: links, slots, readers and recorder put together, with one life. */
import { randomUUID } from "node:crypto";
import type { Database } from "../db/client.ts";
import { heartbeat, readSuppliers, type SupplierRow } from "../db/connections.ts";
import { errorName, every, type Log, type Loop, loop, type Service } from "../workers/service.ts";
import { createEventRecorder } from "./events.ts";
import { LockKeeper } from "./lock-keeper.ts";
import { Slot } from "./slots.ts";
import { createStreamReader } from "./stream-reader.ts";
import { openBlockingReader, openProducer, type Streams } from "./streams.ts";
import { SupplierLink } from "./supplier-link.ts";

export interface GatewayDeps {
  database: Database;
  databaseUrl: string;
  redisUrl: string;
  prefix: string;
  streams: Streams;
  log: Log;
  onAnswer: (channelId: string, answer: string) => void;
}

const BEAT_MS = 2_000;
const LOCK_CHECK_MS = 1_000;
const EDITS_MS = 1_000;
/** Less than a role has to stop; what is unanswered then is unknown. */
const DRAIN_MS = 12_000;
const COMMIT_MS = 5_000;

/** One supplier account as this process serves it. */
interface Served {
  link: SupplierLink;
  slots: Slot[];
  reader: Loop;
  close: () => void;
}

export interface Gateway extends Service {
  /** Grows and shrinks with the suppliers. */
  loops(): Loop[];
  /** Connections that are up, of all that this process owns. */
  connected(): number;
}

export function createGateway(deps: GatewayDeps): Gateway {
  const owner = `gateway-${randomUUID()}`;
  const locks = new LockKeeper(deps.databaseUrl);
  const recorder = createEventRecorder(deps);
  const writer = openProducer(deps.redisUrl);
  const served = new Map<string, Served>();
  /** Slots that a person took away and that still end. */
  const leaving = new Set<Slot>();
  const loops: Loop[] = [];
  let started = false;
  let stopped: Promise<void> | undefined;

  const slots = (): Slot[] => [...[...served.values()].flatMap((it) => it.slots), ...leaving];
  const beat = oneAtATime(() => beatOnce(deps.database, owner, slots()));
  const changed = (): void => {
    beat().catch((error: unknown) => {
      deps.log.warn({ error: errorName(error) }, "a connection's state could not be published; next beat");
    });
  };
  const slotDeps = { ...deps, recorder, owner, locks, changed };

  async function serve(row: SupplierRow): Promise<void> {
    const link = new SupplierLink(row);
    if (link.refusal !== null) sayRefused(link);
    const redis = openBlockingReader(deps.redisUrl);
    const reader = createStreamReader({ ...deps, link, reader: redis, writer, consumer: owner });
    loops.push(reader);
    const it: Served = { link, slots: [], reader, close: () => redis.disconnect() };
    served.set(row.id, it);
    fitSlots(it);
    await reader.start();
  }

  /** As many slots as the profile says; of too many the last ones end as at a shutdown. */
  function fitSlots({ link, slots }: Served): void {
    while (slots.length < link.connections) {
      const slot = new Slot(slotDeps, link, slots.length);
      slots.push(slot);
      slot.start();
    }
    for (const slot of slots.splice(link.connections)) {
      leaving.add(slot);
      retire(slot).catch((error: unknown) => {
        deps.log.warn({ supplier: link.id, error: errorName(error) }, "a slot was not released cleanly");
      });
    }
  }

  async function retire(slot: Slot): Promise<void> {
    try {
      await slot.stop(DRAIN_MS);
      await beat();
      await slot.release();
    } finally {
      leaving.delete(slot);
    }
  }

  /** What a person edits takes effect within a second or so, and without a restart. */
  async function followEdits(): Promise<void> {
    for (const row of await readSuppliers(deps.database)) {
      const known = served.get(row.id);
      if (known === undefined) {
        await serve(row);
        continue;
      }
      const before = known.link.refusal;
      if (known.link.edit(row) === "renew_connections") {
        deps.log.info({ supplier: row.id }, "a supplier was edited: its connections are made anew");
        for (const slot of known.slots) slot.renew(DRAIN_MS);
      }
      fitSlots(known);
      if (known.link.refusal === before) continue;
      if (known.link.refusal !== null) sayRefused(known.link);
      changed();
    }
  }

  /** Notices lost locks, and leaves slots to processes that have fewer. */
  async function keepLocks(): Promise<void> {
    await locks.check();
    const processes = await locks.processes();
    for (const { link, slots } of served.values()) {
      const most = link.shareWith(processes);
      for (const slot of slots.filter((it) => it.isOwned).slice(most)) slot.cede(DRAIN_MS);
    }
  }

  function sayRefused(link: SupplierLink): void {
    deps.log.error({ supplier: link.id, why: link.refusal }, "a supplier's profile is refused");
  }

  async function drainAndStop(): Promise<void> {
    const all = [...served.values()];
    const [edits, ...beside] = ownLoops;
    await edits?.stop();
    // Nothing is taken from here on; what was written gets its answers while we say so.
    const drained = Promise.all(slots().map((slot) => slot.stop(DRAIN_MS)));
    changed();
    await Promise.all(all.map(({ reader }) => reader.stop()));
    await drained;
    await recorder.drain(COMMIT_MS);
    await Promise.all(beside.map((it) => it.stop()));
    // Says "not connected" before the locks go, so that nothing is planned for us.
    await beat().catch((error: unknown) => {
      deps.log.warn({ error: errorName(error) }, "the last state of the connections was not published");
    });
    await locks.close();
    for (const { close } of all) close();
    writer.disconnect();
  }

  const ownLoop = (name: string, ms: number, work: () => Promise<unknown>): Loop =>
    loop({
      name,
      log: deps.log,
      pause: every(ms),
      turn: () => work().then(() => ({ did: 0, full: false })),
    });
  const ownLoops = [
    ownLoop("supplier_edits", EDITS_MS, followEdits),
    ownLoop("heartbeat", BEAT_MS, beat),
    ownLoop("slot_locks", LOCK_CHECK_MS, keepLocks),
  ];

  return {
    name: "gateway",
    loops: () => loops,
    connected: () => slots().filter((slot) => slot.state?.connected === true).length,
    async start() {
      if (started) return;
      started = true;
      loops.push(...ownLoops);
      await followEdits();
      for (const it of ownLoops) await it.start();
    },
    stop() {
      stopped ??= drainAndStop();
      return stopped;
    },
  };
}

/** Writes the states of all slots in one statement; whoever is told apart by its epoch begins anew. */
async function beatOnce(database: Database, owner: string, slots: readonly Slot[]): Promise<void> {
  const said = slots.flatMap((slot) => (slot.state === undefined ? [] : [{ slot, state: slot.state }]));
  if (said.length === 0) return;
  const kept = await heartbeat(
    database,
    owner,
    said.map(({ state }) => state),
  );
  const epochs = new Map(kept.map((it) => [`${it.supplierId}/${it.slot}`, it.epoch]));
  for (const { slot, state } of said) {
    if (epochs.get(`${state.supplierId}/${state.slot}`) !== state.epoch) slot.overtaken(state.epoch);
  }
}

/** Calls made meanwhile share the next run: an older state never overwrites a newer one. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running = work().finally(() => (running = undefined));
    return running;
  };
  return () => {
    if (running === undefined) return run();
    next ??= running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return run();
      });
    return next;
  };
}
