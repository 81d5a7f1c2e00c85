/** The gateway of a group of suppliers: slots, streams and recorder put together, with one life. */
import { randomUUID } from "node:crypto";
import type { Database } from "../db/client.ts";
import { readSuppliers, type SupplierRow } from "../db/connections.ts";
import { every, type Log, type Loop, loop, type Service } from "../workers/service.ts";
import { SupplierQueue } from "./commands.ts";
import { createEventRecorder } from "./events.ts";
import { createPace } from "./pace.ts";
import { beat, LockKeeper, Slot, type SupplierLink } from "./slots.ts";
import { createStreamReader } from "./stream-reader.ts";
import { openBlockingReader, openProducer, type Streams } from "./streams.ts";
import { type Supplier, supplierProfile } from "./supplier.ts";

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

export interface Gateway extends Service {
  loops(): Loop[];
  /** Connections that are up, of all that this process owns. */
  connected(): number;
}

export function createGateway(deps: GatewayDeps): Gateway {
  const owner = `gateway-${randomUUID()}`;
  const locks = new LockKeeper(deps.databaseUrl);
  const recorder = createEventRecorder(deps);
  const writer = openProducer(deps.redisUrl);
  const readers: ReturnType<typeof openBlockingReader>[] = [];
  const slots: Slot[] = [];
  let loops: Loop[] = [];
  let drainMs = 0;
  let stopped: Promise<void> | undefined;

  const beatNow = () => beat(deps.database, owner, slots);

  async function supplierNow(id: string): Promise<Supplier | undefined> {
    const row = (await readSuppliers(deps.database)).find((it) => it.id === id);
    return row === undefined ? undefined : toSupplier(row);
  }

  function openLink(row: SupplierRow): void {
    const supplier = toSupplier(row);
    const link: SupplierLink = {
      supplier,
      channelIds: row.channelIds,
      queue: new SupplierQueue(),
      pace: createPace(supplier.profile.ratePerSecond, () => performance.now()),
      inHand: new Map(),
      lanes: new Set(),
    };
    const slotDeps = {
      ...deps,
      recorder,
      owner,
      locks,
      supplierNow,
      changed: () => void beatNow().catch(() => undefined),
    };
    for (let slot = 0; slot < supplier.profile.connections; slot++) {
      slots.push(new Slot(slotDeps, link, slot));
    }
    const reader = openBlockingReader(deps.redisUrl);
    readers.push(reader);
    loops.push(createStreamReader({ ...deps, link, reader, writer, consumer: owner }));
    drainMs = Math.max(drainMs, supplier.profile.responseTimeoutMs + 1_000);
  }

  async function drainAndStop(): Promise<void> {
    await Promise.all(loops.map((it) => it.stop()));
    await Promise.all(slots.map((slot) => slot.stop(drainMs)));
    await recorder.drain(5_000);
    // Says "not connected" before the locks go, so that nothing is planned for us.
    await beatNow().catch(() => undefined);
    await locks.close();
    for (const redis of [writer, ...readers]) redis.disconnect();
  }

  return {
    name: "gateway",
    loops: () => loops,
    connected: () => slots.filter((slot) => slot.state?.connected === true).length,
    async start() {
      if (loops.length > 0) return;
      for (const row of await readSuppliers(deps.database)) openLink(row);
      loops.push(
        loop({
          name: "heartbeat",
          log: deps.log,
          pause: every(BEAT_MS),
          turn: () => beatNow().then(() => ({ did: slots.length, full: false })),
        }),
        loop({
          name: "slot_locks",
          log: deps.log,
          pause: every(LOCK_CHECK_MS),
          turn: () => locks.check().then(() => ({ did: 0, full: false })),
        }),
      );
      for (const slot of slots) slot.start();
      for (const it of loops) await it.start();
    },
    stop() {
      stopped ??= drainAndStop();
      return stopped;
    },
  };
}

/** Throws a readable sentence where a stored profile is not valid. */
function toSupplier(row: SupplierRow): Supplier {
  const profile = supplierProfile.safeParse(row.profile);
  if (!profile.success)
    throw new Error(`the profile of supplier ${row.id} is not valid: ${profile.error.message}`);
  return { id: row.id, name: row.name, secret: row.secret, profile: profile.data };
}
