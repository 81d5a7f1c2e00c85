/**
 * The whole chain in one process on real servers: API, intake and worker, results, notifier, sweeper,
 * gateway, and simulated suppliers with their witness logs.
 */
import { createServer, type Server } from "node:http";
import { mkdtemp } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createActivities } from "../activities/index.ts";
import { createLingers } from "../activities/linger.ts";
import { createApiService } from "../api/service.ts";
import { type Database, openDatabase, statement } from "../db/client.ts";
import { newToken, newWebhookSecret } from "../db/keys.ts";
import { books } from "../db/ledger.ts";
import { seedDemo } from "../db/seed.ts";
import { createGateway, type Gateway } from "../gateway-bridge/gateway.ts";
import { type Simulator, startSimulator } from "../gateway-bridge/simulator.ts";
import { openStreams, openStreamSurvey, type Streams } from "../gateway-bridge/streams.ts";
import { createAttemptWorker } from "../workers/attempt-worker.ts";
import { type Config, readConfig } from "../workers/config.ts";
import { listenForDue, openDueCalls } from "../workers/due-calls.ts";
import { createIntake } from "../workers/intake.ts";
import { createMetrics } from "../workers/metrics.ts";
import { createNotifier } from "../workers/notifier.ts";
import { createResults } from "../workers/results.ts";
import { createReviewSignal } from "../workers/review-signal.ts";
import type { Log, Service } from "../workers/service.ts";
import { createSweeper } from "../workers/sweeper.ts";
import { createTells } from "../workers/tells.ts";
import { connectTemporal, type Temporal } from "../workers/temporal.ts";
import { DATA_KEYS, freshDatabase, servers, uniqueName, until, vault } from "./servers.ts";

export interface Story {
  id: string;
  status: string;
  reason?: string | null;
  attempts: { id: string; channelId: string; outcome: string | null; segments: object[] }[];
  [name: string]: unknown;
}

export interface Webhook {
  headers: Record<string, string>;
  body: string;
}

export interface Witnessed {
  to: string;
  part: number;
  parts: number;
  textHex: string;
  result: number | null;
  supplier: string;
}

export interface ChainOptions {
  receiptDelayMs?: number;
  /** Factor on the seconds of the simulator's fates. */
  timeScale?: number;
  responseTimeoutMs?: number;
  /** Counted tries of a step before a person looks. */
  tries?: number;
  /** How many of each background role run at once. */
  copies?: number;
  /** What the roles log; nothing is kept where it is not given. */
  log?: Log;
  /** How long a first workflow task may stay open for a decision. */
  lingerMs?: number;
  /** The worker does not hear when results calls. */
  deaf?: boolean;
}

export class Chain {
  readonly database: Database;
  readonly config: Config;
  readonly temporal: Temporal;
  readonly streams: Streams;
  readonly webhooks: Webhook[] = [];
  readonly webhookSecret: string;
  readonly #apiKey: string;
  readonly #opsToken: string;
  readonly #simulator: Simulator;
  readonly #services: Service[];
  readonly #worker: Service;
  readonly #receiver: Server;
  readonly #newGateway: () => Gateway;
  /** What a role would serve on /metrics. */
  readonly metricsText: () => Promise<string>;
  #gateway: Gateway | undefined;
  #api = "";

  constructor(it: {
    database: Database;
    config: Config;
    temporal: Temporal;
    streams: Streams;
    apiKey: string;
    opsToken: string;
    webhookSecret: string;
    simulator: Simulator;
    services: Service[];
    worker: Service;
    newGateway: () => Gateway;
    metricsText: () => Promise<string>;
  }) {
    this.database = it.database;
    this.config = it.config;
    this.temporal = it.temporal;
    this.streams = it.streams;
    this.webhookSecret = it.webhookSecret;
    this.#apiKey = it.apiKey;
    this.#opsToken = it.opsToken;
    this.#simulator = it.simulator;
    this.#services = it.services;
    this.#worker = it.worker;
    this.#newGateway = it.newGateway;
    this.metricsText = it.metricsText;
    this.#receiver = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
      request.on("end", () => {
        this.webhooks.push({ headers: request.headers as Record<string, string>, body });
        response.writeHead(204).end();
      });
    });
  }

  async start(apiUrl: () => string): Promise<void> {
    await new Promise<void>((resolve) => this.#receiver.listen(0, "127.0.0.1", () => resolve()));
    for (const service of this.#services) await service.start();
    this.#api = apiUrl();
    await this.startGateway();
  }

  async startGateway(): Promise<void> {
    this.#gateway = this.#newGateway();
    await this.#gateway.start();
    await until("every connection is up", async () => {
      const [row] = await this.database.run(CONNECTED);
      return row !== undefined && row.count >= 6;
    });
  }

  async audit(subject: string): Promise<string[]> {
    return (await this.database.run(AUDIT, [subject])).map((row) => row.effect);
  }

  async stopGateway(): Promise<void> {
    await this.#gateway?.stop();
  }

  stopWorker(): Promise<void> {
    return this.#worker.stop();
  }

  startWorker(): Promise<void> {
    return this.#worker.start();
  }

  /** Planning believes in a gateway that is not there: what is published waits in the stream. */
  async pretendToBeConnected(): Promise<void> {
    await this.database.run(PRETEND);
  }

  async stop(): Promise<void> {
    await this.stopGateway();
    for (const service of [...this.#services].reverse()) await service.stop();
    await this.#simulator.stop();
    await this.streams.close();
    await this.temporal.connection.close();
    await this.database.close();
    await new Promise<void>((resolve) => this.#receiver.close(() => resolve()));
  }

  async call(
    method: string,
    url: string,
    body?: unknown,
    token = url.startsWith("/ops/") ? this.#opsToken : this.#apiKey,
  ): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(this.#api + url, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  /** Posts a message that asks for a webhook, and answers its id. */
  async send(to: string, text = "hello", more: object = {}): Promise<string> {
    const { port } = this.#receiver.address() as AddressInfo;
    const webhookUrl = `http://127.0.0.1:${port}/hook`;
    const answer = await this.call("POST", "/v1/messages", { to, text, webhookUrl, ...more });
    if (answer.status !== 202) throw new Error(`not accepted: ${JSON.stringify(answer.body)}`);
    return String(answer.body["id"]);
  }

  async story(id: string): Promise<Story> {
    const answer = await this.call("GET", `/v1/messages/${id}`);
    if (answer.status !== 200) throw new Error(`no such message: ${answer.status}`);
    return answer.body as Story;
  }

  /** The story once the message is final. */
  untilFinal(id: string, patienceMs?: number): Promise<Story> {
    return this.untilStory(id, `${id} is final`, (it) => FINAL.has(it.status), patienceMs);
  }

  untilStory(
    id: string,
    what: string,
    holds: (story: Story) => boolean,
    patienceMs?: number,
  ): Promise<Story> {
    return until(
      what,
      async () => {
        const story = await this.story(id);
        return holds(story) && story;
      },
      patienceMs,
    );
  }

  /** What came over the wire to any supplier for this number, by the suppliers' own logs. */
  async witnessed(to: string): Promise<Witnessed[]> {
    const logs = await Promise.all(
      this.#simulator.suppliers.map(async ({ name, logUrl }) => {
        const response = await fetch(`${logUrl}/submits?to=${to}`);
        const submits = (await response.json()) as Omit<Witnessed, "supplier">[];
        return submits.map((it) => ({ ...it, supplier: name }));
      }),
    );
    return logs.flat();
  }

  untilWebhook(messageId: string): Promise<Webhook> {
    return until(`${messageId} was told to its webhook`, () =>
      Promise.resolve(this.webhooks.find((it) => it.body.includes(messageId))),
    );
  }

  books() {
    return books(this.database);
  }
}

const FINAL = new Set(["delivered", "undelivered", "failed", "refused", "expired", "canceled"]);

export async function startChain(options: ChainOptions = {}): Promise<Chain> {
  const databaseUrl = await freshDatabase();
  const log = options.log ?? silent;
  const config = lingering(options.lingerMs, {
    DATABASE_URL: databaseUrl,
    REDIS_URL: servers.redisUrl(),
    TEMPORAL_ADDRESS: servers.temporalAddress(),
    WAYBILL_DATA_KEYS: DATA_KEYS,
    WAYBILL_KEY_PREFIX: `${uniqueName("test")}:`,
    WAYBILL_TASK_QUEUE: uniqueName("attempts"),
    WAYBILL_WORKFLOW_BUNDLE: servers.workflowBundle(),
    WAYBILL_WEBHOOK_ALLOW_LOOPBACK: "true",
  });
  const database = openDatabase(databaseUrl, "operations", 20, vault);
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const accounts = (["3.0", "3.0", "2.0"] as const).map((version, index) => ({
    id: `sup_${index + 1}`,
    name: `supplier-${index + 1}`,
    version,
    spId: `90000${index + 1}`,
    secret: "secret",
  }));
  const simulator = await startSimulator({
    dataDir: await mkdtemp(path.join(tmpdir(), "waybill-simulator-")),
    receiptDelayMs: options.receiptDelayMs ?? 50,
    timeScale: options.timeScale ?? 0.1,
    suppliers: accounts.map(({ name, version, spId, secret }) => ({
      name,
      version,
      spId,
      secret,
      cmppPort: 0,
      logPort: 0,
      window: 16,
      rate: 1_000,
      connections: 2,
    })),
  });
  const [apiKey, opsToken, webhookSecret] = [newToken("wbk"), newToken("wbo"), newWebhookSecret()];
  await seedDemo(database, {
    apiKey,
    opsToken,
    viewerToken: newToken("wbv"),
    webhookSecret,
    suppliers: accounts.map((it, index) => ({
      ...it,
      host: "127.0.0.1",
      port: simulator.suppliers[index]?.cmppPort ?? 0,
    })),
  });
  await database.run(TIMEOUT, [options.responseTimeoutMs ?? 10_000]);

  const metrics = createMetrics();
  const shared = { database, streams, temporal, metrics, log };
  const copies = Array.from({ length: options.copies ?? 1 });
  const tells = createTells({ temporal, metrics, log }, config.temporal.results);
  const reviews = createReviewSignal(config, database);
  const api = createApiService({
    database,
    log,
    version: "test",
    runFile: undefined,
    openSurvey: () => openStreamSurvey(config.redisUrl, config.keyPrefix),
    resolveReview: (attemptId, resolution) => reviews.resolve(attemptId, resolution),
    mayCallWebhook: () => true,
    host: "127.0.0.1",
    port: 0,
  });
  const lingers = createLingers({ room: config.temporal.worker.lingering, rememberMs: 20_000 });
  const calls = openDueCalls(config.redisUrl, config.keyPrefix);
  const activities = createActivities({
    planning: database,
    settlement: database,
    publisher: database,
    streams,
    lingers,
    coalesce: config.temporal.coalesce,
    tries: { inAll: options.tries ?? 12, local: config.temporal.policy.local.tries },
  });
  // Temporal allows one worker of a queue in a process.
  const worker = createAttemptWorker({
    config,
    temporal,
    activities,
    lingers,
    log,
    died: () => undefined,
  });
  const newGateway = (): Gateway =>
    createGateway({
      database,
      databaseUrl,
      redisUrl: config.redisUrl,
      prefix: config.keyPrefix,
      streams,
      log,
      onAnswer: () => undefined,
    });
  const chain = new Chain({
    database,
    config,
    temporal,
    streams,
    apiKey,
    opsToken,
    webhookSecret,
    simulator,
    worker,
    newGateway,
    metricsText: () => metrics.registry.metrics(),
    services: [
      reviews,
      api,
      tells,
      calls,
      ...(options.deaf === true ? [] : [listenForDue(config.redisUrl, config.keyPrefix, lingers)]),
      worker,
      ...copies.flatMap(() => [
        createIntake(shared, config.temporal),
        createResults({ ...shared, calls, tells }, config.temporal),
        createNotifier({ database, log, allowLoopback: true, pollMs: 50 }),
        ...createSweeper({ ...shared, tells }, { everyMs: 500, batch: 32 }),
      ]),
    ],
  });
  await chain.start(() => api.url());
  return chain;
}

function lingering(lingerMs: number | undefined, env: NodeJS.ProcessEnv): Config {
  const config = readConfig(env);
  const { temporal } = config;
  if (lingerMs === undefined) return config;
  const taskTimeoutMs = Math.max(temporal.workflow.taskTimeoutMs, 3 * lingerMs);
  return {
    ...config,
    temporal: {
      ...temporal,
      workflow: { ...temporal.workflow, taskTimeoutMs },
      policy: { ...temporal.policy, lingerMs },
    },
  };
}

const silent: Log =
  process.env["WAYBILL_TEST_LOG"] === undefined
    ? { info: () => undefined, warn: () => undefined, error: () => undefined }
    : { info: print, warn: print, error: print };

function print(fields: object, what: string): void {
  process.stderr.write(`${what} ${JSON.stringify(fields)}\n`);
}

const CONNECTED = statement<{ count: number }>(
  "test.connected",
  `SELECT count(*)::int AS count FROM connections WHERE connected`,
);

const AUDIT = statement<{ effect: string }>(
  "test.audit",
  `SELECT effect FROM audit_log WHERE subject = $1 ORDER BY id`,
);

const PRETEND = statement<Record<string, never>>(
  "test.pretend",
  `UPDATE connections SET owner = 'nobody', connected = true, heartbeat_at = now() + interval '1 hour'`,
);

const TIMEOUT = statement<Record<string, never>>(
  "test.timeout",
  `UPDATE suppliers SET profile = profile || jsonb_build_object('responseTimeoutMs', $1::int, 'throttleBackoffMs', 100)`,
);
