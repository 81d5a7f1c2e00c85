/**
 * `waybill load --gateway-only`: what one gateway process can do against a simulated supplier, with nothing
 * else of Waybill running (interfaces §9). The gateway runs in this process, which does nothing else
 * meanwhile, so that its CPU time and memory are the gateway's.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { openDatabase } from "../db/client.ts";
import type { AttemptId } from "../domain/ids.ts";
import { CmppSession } from "../gateway-bridge/cmpp-session.ts";
import { createGateway, type Gateway } from "../gateway-bridge/gateway.ts";
import { commandStream, openProducer, openStreams, type Streams } from "../gateway-bridge/streams.ts";
import type { PrepareOwn } from "../scripts/own-system.ts";
import { delay } from "../workers/service.ts";
import { codecFramesPerSecond } from "./codec-frames.ts";
import { CHANNEL, type GatewayServers, SUPPLIER, untilTrue, withGatewayServers } from "./gateway-servers.ts";
import {
  countTakes,
  editProfile,
  isMeasured,
  pretendConnected,
  publishTexts,
  queueTexts,
  takesPerSecond,
} from "./gateway-texts.ts";

export interface GatewayFigures {
  /** Durable: each taken in PostgreSQL before it is written, its answer and receipt stored. */
  submitsPerSecond: number;
  /** The same sessions and window, with no PostgreSQL and no Redis behind them. */
  withoutTakePerSecond: number;
  framesPerSecond: number;
  /** User and system time of the gateway process, receipts included. */
  cpuMsPerSubmit: number;
  /** Answers 50 ms after each submit, window 16, one connection. */
  longWayPerSecond: number;
  /** Live memory in the last third of the time in which links are cut, compared with the first third. */
  memoryGrowth: number;
  lost: number;
  doubled: number;
}

const PREFIX = "gateway-only:";
const ASIDE = "gateway-only-aside:";
const THROTTLED = 8;
const CONNECTIONS = 4;
const WINDOW = 32;
const TEXTS = { durable: 30_000, longWay: 3_000, warmUp: 2_000 };
const BARE_MS = 5_000;
const LONG_WAY = { delayMs: 50, window: 16 };
const FLAPPING = { shortMs: 45_000, soakMs: 30 * 60_000, cutEveryMs: 1_000, textsEach: 40 };

export async function measureGateway(
  prepare: PrepareOwn,
  { soak }: { soak: boolean },
): Promise<GatewayFigures> {
  return withGatewayServers(prepare, "gateway-only", async (servers) => {
    const { steps } = servers;
    const figures: Partial<GatewayFigures> = {};
    await steps.step("codec", async () => {
      figures.framesPerSecond = codecFramesPerSecond();
      return `${figures.framesPerSecond} frames a second`;
    });
    await steps.step("sessions alone", async () => {
      figures.withoutTakePerSecond = await bareSubmitsPerSecond(servers);
      return `${figures.withoutTakePerSecond} submits a second`;
    });
    const rig = await Rig.open(servers);
    try {
      await steps.step("texts are queued", () => rig.queue(TEXTS.warmUp + TEXTS.durable + TEXTS.longWay));
      await steps.step("durable submits", async () => {
        await rig.profile({ connections: CONNECTIONS, window: WINDOW });
        await rig.send(TEXTS.warmUp);
        const { perSecond, cpuMs } = await rig.send(TEXTS.durable);
        figures.submitsPerSecond = perSecond;
        figures.cpuMsPerSubmit = Math.round((cpuMs / TEXTS.durable) * 1_000) / 1_000;
        return `${perSecond} a second, ${figures.cpuMsPerSubmit} ms of CPU each`;
      });
      await steps.step(`answers after ${LONG_WAY.delayMs} ms`, async () => {
        await rig.profile({ connections: 1, window: LONG_WAY.window });
        await servers.supplier.disturb({ delayMs: LONG_WAY.delayMs });
        const { perSecond } = await rig.send(TEXTS.longWay);
        await servers.supplier.disturb({ delayMs: 0 });
        figures.longWayPerSecond = perSecond;
        return `${perSecond} a second`;
      });
      await steps.step("links that flap", async () => {
        await rig.profile({ connections: CONNECTIONS, window: WINDOW });
        figures.memoryGrowth = await rig.flap(soak ? FLAPPING.soakMs : FLAPPING.shortMs);
        return `memory × ${figures.memoryGrowth}`;
      });
      await steps.step("nothing is lost or doubled", async () => {
        Object.assign(figures, await rig.verify());
        return `${figures.lost} lost, ${figures.doubled} doubled`;
      });
    } finally {
      await rig.close();
    }
    return figures as GatewayFigures;
  });
}

/** Sessions as the gateway opens them, submitting whenever a window has room. */
async function bareSubmitsPerSecond({ cmppPort }: GatewayServers): Promise<number> {
  let answers = 0;
  let position = 0;
  const fill = (session: CmppSession<number>): void => {
    while (session.freeWindow > 0) session.submit(position, bareText(position++));
  };
  const sessions = Array.from({ length: CONNECTIONS }, () => {
    const session: CmppSession<number> = new CmppSession<number>(
      { ...SESSION, port: cmppPort },
      {
        response: () => answers++,
        unanswered: () => undefined,
        deliver: () => Promise.resolve(),
        closed: () => undefined,
        windowFree: () => fill(session),
      },
    );
    return session;
  });
  await Promise.all(sessions.map((session) => session.connect()));
  const since = performance.now();
  for (const session of sessions) fill(session);
  await delay(BARE_MS);
  const perSecond = (answers * 1_000) / (performance.now() - since);
  for (const session of sessions) session.destroy();
  return Math.round(perSecond);
}

const SESSION = {
  host: "127.0.0.1",
  version: SUPPLIER.version,
  spId: SUPPLIER.spId,
  secret: SUPPLIER.secret,
  window: WINDOW,
  responseTimeoutMs: 10_000,
  connectTimeoutMs: 10_000,
  heartbeatIdleMs: 60_000,
  heartbeatTimeoutMs: 10_000,
};

const bareText = (position: number) => ({
  // Not among the numbers that are counted in the end.
  destination: `139${String(position).padStart(8, "0")}`,
  srcId: "10690001",
  msgFmt: 0,
  content: Buffer.from("hello"),
});

/** The gateway in this process, and the texts that it is given. */
class Rig {
  readonly #servers: GatewayServers;
  readonly #gateway: Gateway;
  readonly #redis: ReturnType<typeof openProducer>;
  /** Where commands are made ready: moved as a whole, so that making them costs nothing while it counts. */
  readonly #aside: Streams;
  readonly #live: Streams;
  readonly #close: () => Promise<void>;
  #queued: AttemptId[] = [];
  #made = 0;

  private constructor(
    servers: GatewayServers,
    it: {
      gateway: Gateway;
      redis: ReturnType<typeof openProducer>;
      aside: Streams;
      live: Streams;
      close: () => Promise<void>;
    },
  ) {
    this.#servers = servers;
    this.#gateway = it.gateway;
    this.#redis = it.redis;
    this.#aside = it.aside;
    this.#live = it.live;
    this.#close = it.close;
  }

  static async open(servers: GatewayServers): Promise<Rig> {
    const { databaseUrl, redisUrl, vault } = servers;
    const database = openDatabase(databaseUrl, "gateway", undefined, vault);
    const streams = openStreams(redisUrl, PREFIX);
    const aside = openStreams(redisUrl, ASIDE);
    const redis = openProducer(redisUrl);
    const quiet = (): void => undefined;
    const gateway = createGateway({
      database,
      databaseUrl,
      redisUrl,
      prefix: PREFIX,
      streams,
      log: { info: quiet, warn: quiet, error: quiet },
      onAnswer: quiet,
    });
    await pretendConnected(servers.database);
    const close = async (): Promise<void> => {
      await gateway.stop();
      redis.disconnect();
      await aside.close();
      await streams.close();
      await database.close();
    };
    return new Rig(servers, { gateway, redis, aside, live: streams, close });
  }

  close(): Promise<void> {
    return this.#close();
  }

  async queue(count: number): Promise<string> {
    this.#queued.push(...(await queueTexts(this.#servers.database, this.#made, count)));
    this.#made += count;
    return `${count}`;
  }

  /** Connects with this profile, and only with it. */
  async profile(changes: { connections: number; window: number }): Promise<void> {
    const { supplier, database, signal } = this.#servers;
    const before = await supplier.stats();
    await editProfile(database, { ...changes, ratePerSecond: 10_000 });
    await this.#gateway.start();
    await untilTrue(
      "the gateway is connected",
      async () => {
        const { logins, connections } = await supplier.stats();
        return logins >= before.logins + changes.connections && connections === changes.connections;
      },
      { signal },
    );
  }

  /** Gives the gateway that many at once, and waits until each has its answer and its receipt. */
  async send(count: number): Promise<{ perSecond: number; cpuMs: number }> {
    const { database, supplier, signal } = this.#servers;
    const attempts = this.#queued.splice(0, count);
    await publishTexts(database, this.#aside, attempts);
    const { accepted: acceptedBefore } = await supplier.stats();
    const before = process.cpuUsage();
    await this.#redis.rename(commandStream(ASIDE, CHANNEL), commandStream(PREFIX, CHANNEL));
    await untilTrue(
      "every text has its answer and its receipt",
      async () => {
        const { accepted, receiptsOwed } = await supplier.stats();
        return accepted >= acceptedBefore + count && receiptsOwed === 0;
      },
      { signal },
    );
    const { user, system } = process.cpuUsage(before);
    await untilTrue("every answer is stored", async () => (await countTakes(database)).open === 0, {
      signal,
    });
    return { perSecond: await takesPerSecond(database, attempts), cpuMs: (user + system) / 1_000 };
  }

  /** Cuts all links again and again while texts go on. Answers how much live memory grew. */
  async flap(forMs: number): Promise<number> {
    const { database, supplier, signal } = this.#servers;
    const begun = performance.now();
    const samples: number[] = [];
    while (performance.now() - begun < forMs) {
      const attempts = await queueTexts(database, this.#made, FLAPPING.textsEach);
      this.#made += attempts.length;
      await publishTexts(database, this.#live, attempts);
      await supplier.disturb({ cut: true });
      samples.push(liveBytes());
      await delay(FLAPPING.cutEveryMs, signal);
      signal.throwIfAborted();
    }
    await untilTrue(
      "what was cut off is answered or unknown",
      async () => {
        const { accepted, unknown, open } = await countTakes(database);
        return open === 0 && accepted + unknown >= this.#made;
      },
      { signal },
    );
    const third = Math.ceil(samples.length / 3);
    return Math.round((mean(samples.slice(-third)) / mean(samples.slice(0, third))) * 1_000) / 1_000;
  }

  /** By the supplier's own log, and by what PostgreSQL holds. */
  async verify(): Promise<{ lost: number; doubled: number }> {
    const times = new Map<string, number>();
    for (const { to, result } of await this.#servers.supplier.submits()) {
      if (result !== THROTTLED && isMeasured(to)) times.set(to, (times.get(to) ?? 0) + 1);
    }
    const { accepted, unknown } = await countTakes(this.#servers.database);
    const doubled = [...times.values()].filter((count) => count > 1).length;
    const neverAnswered = this.#made - accepted - unknown;
    const acceptedByNobody = Math.max(0, accepted - times.size);
    return { lost: neverAnswered + acceptedByNobody, doubled };
  }
}

/** What is alive, so that it does not matter when the collector last ran. */
function liveBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

const mean = (samples: readonly number[]): number =>
  samples.reduce((sum, bytes) => sum + bytes, 0) / samples.length;
