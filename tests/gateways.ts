/**
 * Gateways as they run, in this process and as processes of their own, with simulated suppliers, and
 * commands made by the statements of the chain. No worker runs: what a test wants folded it folds.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { type Database, openDatabase } from "../db/client.ts";
import { storeEvents } from "../db/events.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { seedDemo } from "../db/seed.ts";
import { overdueWrites } from "../db/takes.ts";
import { type AttemptId, noResponseEventKey, submitIdOf } from "../domain/ids.ts";
import { orderFile } from "../fault-points/at-point.ts";
import type { Mode, Order, PointName } from "../fault-points/points.ts";
import { createGateway, type Gateway } from "../gateway-bridge/gateway.ts";
import { type Simulator, startSimulator } from "../gateway-bridge/simulator.ts";
import type { SupplierOptions, SupplierStats } from "../gateway-bridge/simulator-supplier.ts";
import type { SubmitRecord } from "../gateway-bridge/simulator-witness.ts";
import { commandStream, GATEWAY_GROUP, openStreams, type Streams } from "../gateway-bridge/streams.ts";
import { ask, only, queuedAttempt } from "./facts.ts";
import { DATA_KEYS, freshDatabase, servers, uniqueName, until, vault } from "./servers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface Taken {
  part: number;
  write_number: number;
  kind: string;
  answer: string | null;
}

export interface Connection {
  slot: number;
  owner: string;
  connected: boolean;
  last_error: string | null;
}

/** A way to a server on which things get lost. */
export interface Way {
  url: string;
  cut: (isCut: boolean) => void;
  /** The next request with these words is heard and done, and its asker never learns it. */
  loseAnswerTo: (words: string) => void;
  lost: () => boolean;
}

/** Suppliers sup_1, sup_2 … with channels chn_demo_1, chn_demo_2 … */
export class Surroundings {
  readonly databaseUrl: string;
  readonly database: Database;
  readonly prefix = `${uniqueName("gateways")}:`;
  readonly redis = new Redis(servers.redisUrl());
  readonly streams: Streams;
  readonly simulator: Simulator;
  readonly #folder: string;
  readonly #processes = new Set<ChildProcess>();
  readonly #ways = new Set<Server>();
  readonly #gateways = new Set<{ gateway: Gateway; database: Database }>();

  constructor(it: { databaseUrl: string; database: Database; simulator: Simulator; folder: string }) {
    this.databaseUrl = it.databaseUrl;
    this.database = it.database;
    this.simulator = it.simulator;
    this.#folder = it.folder;
    this.streams = openStreams(servers.redisUrl(), this.prefix);
  }

  async close(): Promise<void> {
    for (const child of this.#processes) child.kill("SIGKILL");
    for (const { gateway, database } of this.#gateways) {
      await gateway.stop();
      await database.close();
    }
    for (const way of this.#ways) way.close();
    await this.simulator.stop();
    await this.streams.close();
    const keys = await this.redis.keys(`${this.prefix}*`);
    if (keys.length > 0) await this.redis.del(...keys);
    this.redis.disconnect();
    await this.database.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  // ---- gateways -----------------------------------------------------------------------------------

  /** In this process; stopped with the test. */
  async openGateway(by: { redisUrl?: string; databaseUrl?: string } = {}): Promise<Gateway> {
    const { redisUrl = servers.redisUrl(), databaseUrl = this.databaseUrl } = by;
    const database = openDatabase(databaseUrl, "gateway", undefined, vault);
    const gateway = createGateway({
      database,
      databaseUrl,
      redisUrl,
      prefix: this.prefix,
      streams: this.streams,
      log: LOG,
      onAnswer: () => undefined,
    });
    this.#gateways.add({ gateway, database });
    await gateway.start();
    return gateway;
  }

  /** A server by a way that can be cut; closed with the test. */
  async wayTo(server: string): Promise<Way> {
    const url = new URL(server);
    const { hostname, port } = url;
    const sockets = new Set<Socket>();
    let isCut = false;
    let unheard: string | undefined;
    const way = createServer((near) => {
      if (isCut) {
        near.destroy();
        return;
      }
      const far = connect(Number(port), hostname);
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(one);
        one.on("error", () => undefined).once("close", () => other.destroy());
        one.pipe(other);
      }
      near.on("data", (chunk) => {
        if (unheard === undefined || !chunk.includes(unheard)) return;
        unheard = undefined;
        far
          .unpipe(near)
          .once("data", () => near.destroy())
          .resume();
      });
    });
    await new Promise<void>((resolve) => way.listen(0, "127.0.0.1", () => resolve()));
    this.#ways.add(way);
    url.host = `127.0.0.1:${(way.address() as AddressInfo).port}`;
    return {
      url: url.href,
      loseAnswerTo: (words) => (unheard = words),
      lost: () => unheard === undefined,
      cut(wanted) {
        isCut = wanted;
        if (wanted) for (const socket of sockets) socket.destroy();
      },
    };
  }

  /** A process of its own, tethered to this one. It runs when this returns, and has no connection yet. */
  spawnGateway(fault?: { point: PointName; mode: Mode }): ChildProcess {
    const child = spawn(process.execPath, ["--import", "tsx", "gateway-bridge/main.ts"], {
      cwd: ROOT,
      env: {
        ...process.env,
        DATABASE_URL: this.databaseUrl,
        WAYBILL_DATA_KEYS: DATA_KEYS,
        REDIS_URL: servers.redisUrl(),
        WAYBILL_KEY_PREFIX: this.prefix,
        WAYBILL_METRICS_PORT: "0",
        WAYBILL_TETHERED: "true",
        WAYBILL_LOG_LEVEL: process.env["WAYBILL_TEST_LOG"] === undefined ? "silent" : "info",
        ...(fault === undefined ? {} : { WAYBILL_FAULT_POINTS: this.#order(fault) }),
      },
      stdio: ["pipe", "inherit", "inherit"],
    });
    this.#processes.add(child);
    return child;
  }

  /** A folder with this one order. */
  #order({ point, mode }: { point: PointName; mode: Mode }): string {
    const folder = mkdtempSync(path.join(this.#folder, "fault-"));
    const order: Order = { id: point, mode, hangMs: 0 };
    writeFileSync(orderFile(folder, point), JSON.stringify(order));
    return folder;
  }

  connections(supplierId: string): Promise<Connection[]> {
    return ask(
      this.database,
      `SELECT slot, owner, connected AND heartbeat_at > clock_timestamp() - interval '10 seconds' AS connected,
              last_error
         FROM connections WHERE supplier_id = $1 AND slot < 90 ORDER BY slot`,
      [supplierId],
    );
  }

  untilConnected(supplierId: string, count: number, patienceMs?: number): Promise<Connection[]> {
    return until(
      `${supplierId} has ${count} connections`,
      async () => {
        const up = (await this.connections(supplierId)).filter((it) => it.connected);
        return up.length === count && up;
      },
      patienceMs,
    );
  }

  editProfile(supplierId: string, changes: object): Promise<unknown> {
    return ask(this.database, `UPDATE suppliers SET profile = profile || $2::jsonb WHERE id = $1`, [
      supplierId,
      JSON.stringify(changes),
    ]);
  }

  // ---- commands -----------------------------------------------------------------------------------

  /** A queued attempt whose command is on its stream; on channel 1 where none is named. */
  async text(wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId> {
    const attempt = await queuedAttempt(this.database, wishes);
    await this.publish(attempt);
    return attempt;
  }

  async texts(count: number, wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId[]> {
    const attempts: AttemptId[] = [];
    for (let i = 0; i < count; i++) attempts.push(await this.text(wishes));
    return attempts;
  }

  /** All there before the first is on its stream: what is measured is not how fast they are made. */
  async burst(count: number, wishes: Parameters<typeof queuedAttempt>[1] = {}): Promise<AttemptId[]> {
    const attempts: AttemptId[] = [];
    for (let i = 0; i < count; i++) attempts.push(await queuedAttempt(this.database, wishes));
    await Promise.all(attempts.map((attempt) => this.publish(attempt)));
    return attempts;
  }

  /** Also a second time, as after a crash between XADD and "published". */
  async publish(attempt: AttemptId): Promise<void> {
    const row = await only<{ channel_id: string; payload: string; schema_version: number }>(
      this.database,
      `SELECT channel_id, payload, schema_version FROM submit_outbox WHERE submit_id = $1`,
      [submitIdOf(attempt)],
    );
    const [added] = await this.streams.add([
      {
        submitId: submitIdOf(attempt),
        channelId: row.channel_id,
        schemaVersion: row.schema_version,
        payload: row.payload,
      },
    ]);
    if (added === undefined || "error" in added) throw new Error("Redis did not take a command");
  }

  takesOf(attempt: AttemptId): Promise<Taken[]> {
    return ask(
      this.database,
      `SELECT part, write_number, kind, answer FROM takes WHERE attempt_id = $1 ORDER BY part, write_number`,
      [attempt],
    );
  }

  /** Waits until each of them is written to its end, or nobody will ever know (I). */
  async untilAnswered(attempts: readonly AttemptId[], patienceMs?: number): Promise<Map<string, number>> {
    await until(
      "every text has an answer",
      async () => {
        const rows = await ask<{ open: number }>(
          this.database,
          `SELECT count(*)::int AS open FROM segments s JOIN attempts a ON a.id = s.attempt_id
            WHERE a.id = ANY($1::text[])
              AND NOT EXISTS (SELECT 1 FROM takes k WHERE k.attempt_id = a.id AND k.part = s.part
                                AND k.answer IN ('accepted', 'rejected', 'unknown'))`,
          [attempts],
        );
        return rows[0]?.open === 0;
      },
      patienceMs,
    );
    const rows = await ask<{ answer: string; count: number }>(
      this.database,
      `SELECT answer, count(*)::int AS count FROM takes WHERE attempt_id = ANY($1::text[]) GROUP BY answer`,
      [attempts],
    );
    return new Map(rows.map((row) => [row.answer, row.count]));
  }

  /** What the sweeper does with writes that nobody answers; `olderThanMs` beside the response timeout. */
  async callUnknown(olderThanMs = 3_000): Promise<number> {
    const writes = await overdueWrites(this.database, olderThanMs, 1_000);
    await storeEvents(
      this.database,
      writes.map((it) => ({
        ...it,
        key: noResponseEventKey(it.submitId, it.part, it.writeNumber),
        kind: "no_response" as const,
      })),
    );
    return writes.length;
  }

  /** Entries on a channel's stream, delivered and not. */
  entries(channelId: string): Promise<number> {
    return this.redis.xlen(commandStream(this.prefix, channelId));
  }

  async pending(channelId: string): Promise<number> {
    const summary = await this.redis.xpending(commandStream(this.prefix, channelId), GATEWAY_GROUP);
    return Number(summary[0]);
  }

  /** How often the entry that was handed out most often was handed out. */
  async mostDeliveries(channelId: string): Promise<number> {
    const stream = commandStream(this.prefix, channelId);
    const pending = await this.redis.xpending(stream, GATEWAY_GROUP, "-", "+", 100);
    return Math.max(0, ...pending.map((it) => Number((it as unknown[])[3])));
  }

  untilEmpty(channelId: string, patienceMs?: number): Promise<true> {
    return until(
      `the stream of ${channelId} is empty`,
      async () => (await this.entries(channelId)) === 0 && (await this.pending(channelId)) === 0 && true,
      patienceMs,
    );
  }

  // ---- the suppliers' side ------------------------------------------------------------------------

  /** What supplier `position` read off the wire, in order. */
  async witnessed(position = 1): Promise<SubmitRecord[]> {
    const response = await fetch(`${this.#supplier(position).logUrl}/submits`);
    return (await response.json()) as SubmitRecord[];
  }

  /** How often each part of each text was read that was not told to come again (C3). */
  async timesByPart(position = 1): Promise<Map<string, number>> {
    const times = new Map<string, number>();
    for (const it of await this.witnessed(position)) {
      const key = `${it.to} ${it.part}/${it.parts}`;
      if (it.result !== THROTTLED) times.set(key, (times.get(key) ?? 0) + 1);
    }
    return times;
  }

  stats(position = 1): SupplierStats {
    return this.#supplier(position).stats();
  }

  async disturb(faults: object, position = 1): Promise<void> {
    const response = await fetch(`${this.#supplier(position).logUrl}/faults`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(faults),
    });
    if (!response.ok) throw new Error(`no such fault: ${response.status}`);
  }

  /** A recipient writes through supplier `position` (gateway-bridge/simulator-inbound.ts). */
  async inbound(request: object, position = 1): Promise<void> {
    const response = await fetch(`${this.#supplier(position).logUrl}/inbound`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request),
    });
    if (!response.ok) throw new Error(`no such text: ${response.status}`);
  }

  port(position: number): number {
    return this.#supplier(position).cmppPort;
  }

  #supplier(position: number): Simulator["suppliers"][number] {
    const supplier = this.simulator.suppliers[position - 1];
    if (supplier === undefined) throw new Error(`there is no supplier ${position}`);
    return supplier;
  }
}

const THROTTLED = 8;
const nothing = (): void => undefined;
const print = (fields: object, what: string): void => {
  process.stderr.write(`${what} ${JSON.stringify(fields)}\n`);
};
const LOG =
  process.env["WAYBILL_TEST_LOG"] === undefined
    ? { info: nothing, warn: nothing, error: nothing }
    : { info: print, warn: print, error: print };

export interface SurroundingsOptions {
  /** Beside what every supplier of the seed has; a supplier each. */
  profiles: object[];
  /** What the suppliers themselves allow, where it is not what the profile says. */
  allowed?: Partial<SupplierOptions>;
  receiptDelayMs?: number;
}

/** Ample, so that what a supplier refuses is the gateway's fault. */
const AMPLE = { version: "3.0", window: 512, rate: 10_000, connections: 16 } as const;

export async function openSurroundings(options: SurroundingsOptions): Promise<Surroundings> {
  const databaseUrl = await freshDatabase();
  const database = openDatabase(databaseUrl, "operations", 8, vault);
  const folder = await mkdtemp(path.join(tmpdir(), "waybill-gateways-"));
  const simulator = await startSimulator({
    dataDir: folder,
    receiptDelayMs: options.receiptDelayMs ?? 50,
    timeScale: 0.1,
    suppliers: options.profiles.map((_, index) => ({
      name: `supplier-${index + 1}`,
      spId: `90000${index + 1}`,
      secret: "secret",
      cmppPort: 0,
      logPort: 0,
      ...AMPLE,
      ...options.allowed,
    })),
  });
  await seedDemo(database, {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    suppliers: simulator.suppliers.map(({ name, version, cmppPort }, index) => ({
      id: `sup_${index + 1}`,
      name,
      version,
      host: "127.0.0.1",
      port: cmppPort,
      spId: `90000${index + 1}`,
      secret: "secret",
    })),
  });
  const surroundings = new Surroundings({ databaseUrl, database, simulator, folder });
  for (const [index, profile] of options.profiles.entries()) {
    await surroundings.editProfile(`sup_${index + 1}`, profile);
  }
  // So that attempts can be queued while no gateway runs.
  await ask(
    database,
    `INSERT INTO connections (supplier_id, slot, owner, epoch, connected, heartbeat_at)
     SELECT id, 99, 'nobody', 1, true, now() + interval '1 day' FROM suppliers`,
  );
  return surroundings;
}

export const exitOf = (child: ChildProcess): Promise<NodeJS.Signals | number | null> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.signalCode ?? child.exitCode);
    else child.once("exit", (code, signal) => resolve(signal ?? code));
  });
