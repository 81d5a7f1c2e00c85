/**
 * The low-cardinality metrics of rule K, and the three addresses every role serves: /metrics, /livez
 * (its loops get round) and /readyz (what it needs is there). No number or id is ever a label.
 */
import { createServer, type Server } from "node:http";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Database } from "../db/client.ts";
import type { Loop, Service } from "./service.ts";

export interface Metrics {
  readonly registry: Registry;
  readonly batchSize: Histogram<"step">;
  readonly starts: Counter<"kind">;
  readonly lingers: Counter<"outcome">;
  readonly events: Counter<"fate">;
  readonly tells: Counter<"outcome">;
  readonly recoveries: Counter<"kind">;
  readonly webhooks: Counter<"outcome">;
  readonly retired: Counter<"what">;
  readonly waitingSlices: Gauge;
  readonly submits: Counter<"channel" | "answer">;
  /** Shows open, idle and waited-for connections of a pool. */
  watchPool(name: string, database: Database): void;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const pools = new Map<string, Database>();
  const pool = new Gauge({
    name: "waybill_pool_connections",
    help: "PostgreSQL connections of a pool",
    labelNames: ["pool", "state"] as const,
    registers,
    collect() {
      for (const [name, database] of pools) {
        for (const [state, value] of Object.entries(database.use())) this.set({ pool: name, state }, value);
      }
    },
  });
  return {
    registry,
    watchPool(name, database) {
      pools.set(name, database);
      pool.set({ pool: name, state: "total" }, 0);
    },
    batchSize: new Histogram({
      name: "waybill_batch_size",
      help: "Items in one realised batch of a step",
      labelNames: ["step"] as const,
      buckets: [1, 2, 4, 8, 16, 32, 64],
      registers,
    }),
    starts: new Counter({
      name: "waybill_workflow_starts_total",
      help: "Attempt workflows started by intake: eager, normal, already running",
      labelNames: ["kind"] as const,
      registers,
    }),
    lingers: new Counter({
      name: "waybill_lingers_total",
      help: "First workflow tasks kept open: hit (the decision came in time), miss, no_room, ended. Hits depend on how soon suppliers report",
      labelNames: ["outcome"] as const,
      registers,
    }),
    events: new Counter({
      name: "waybill_supplier_events_total",
      help: "Supplier events by what folding made of them",
      labelNames: ["fate"] as const,
      registers,
    }),
    tells: new Counter({
      name: "waybill_tells_total",
      help: "Workflows told that a decision is due",
      labelNames: ["outcome"] as const,
      registers,
    }),
    recoveries: new Counter({
      name: "waybill_recoveries_total",
      help: "What the sweeper put right",
      labelNames: ["kind"] as const,
      registers,
    }),
    webhooks: new Counter({
      name: "waybill_webhook_tries_total",
      help: "Webhook tries by outcome",
      labelNames: ["outcome"] as const,
      registers,
    }),
    retired: new Counter({
      name: "waybill_retired_total",
      help: "Slices dropped and rows purged because they are old, by what they were",
      labelNames: ["what"] as const,
      registers,
    }),
    waitingSlices: new Gauge({
      name: "waybill_slices_waiting",
      help: "Slices past their time that are kept, because something in them is open or their tables are locked",
      registers,
    }),
    submits: new Counter({
      name: "waybill_submits_total",
      help: "Parts written to suppliers by channel and answer",
      labelNames: ["channel", "answer"] as const,
      registers,
    }),
  };
}

/** What a role says of its own health. */
export interface Health {
  loops: Loop[];
  /** Throws, or answers false, where something it needs is not there. */
  ready: () => Promise<boolean>;
}

/** A loop that has not got round for so long is stuck, whatever the process looks like. */
const STUCK_AFTER_MS = 60_000;

export function createHealthServer(
  where: { host: string; port: number },
  registry: Registry,
  health: Health,
): Service & { port(): number } {
  let server: Server | undefined;
  return {
    name: "health",
    port: () => {
      const address = server?.address();
      return typeof address === "object" && address !== null ? address.port : where.port;
    },
    async start() {
      const opened = createServer((request, response) => {
        void answer(request.url ?? "/", registry, health).then(({ status, type, body }) => {
          response.writeHead(status, { "content-type": type }).end(body);
        });
      });
      await new Promise<void>((resolve, reject) => {
        opened.once("error", reject).listen(where.port, where.host, () => resolve());
      });
      server = opened;
    },
    async stop() {
      const closing = server;
      server = undefined;
      closing?.closeAllConnections();
      await new Promise<void>((resolve) =>
        closing === undefined ? resolve() : closing.close(() => resolve()),
      );
    },
  };
}

async function answer(
  url: string,
  registry: Registry,
  health: Health,
): Promise<{ status: number; type: string; body: string }> {
  switch (url.replace(/\?.*$/, "")) {
    case "/metrics":
      return { status: 200, type: registry.contentType, body: await registry.metrics() };
    case "/livez": {
      const stuck = health.loops.filter((it) => Date.now() - it.lastTurnAt() > STUCK_AFTER_MS);
      return json(stuck.length === 0 ? 200 : 503, { stuck: stuck.map((it) => it.name) });
    }
    case "/readyz": {
      const ready = await health.ready().catch(() => false);
      return json(ready ? 200 : 503, { ready });
    }
    default:
      return json(404, { error: "not_found" });
  }
}

const json = (status: number, body: object) => ({
  status,
  type: "application/json",
  body: JSON.stringify(body),
});
