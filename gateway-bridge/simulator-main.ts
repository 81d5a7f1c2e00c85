/**
 * The simulator as a process of its own: options from WAYBILL_SIMULATOR (one JSON document), health and
 * metrics beside it, and a clean end.
 */
import { createServer, type Server } from "node:http";
import { pino } from "pino";
import { Gauge, Registry } from "prom-client";
import { z } from "zod";
import { deviations } from "./simulator-deviations.ts";
import { startSimulator, type Simulator } from "./simulator.ts";

const port = z.int().min(0).max(65_535);
const simulatorOptions = z.strictObject({
  dataDir: z.string().min(1),
  host: z.string().min(1).default("127.0.0.1"),
  receiptDelayMs: z.union([z.int().min(0), z.array(z.int().min(0)).min(1)]).default(300),
  timeScale: z.number().positive().default(1),
  loginTimeoutMs: z.int().min(1).default(10_000),
  deliverWindow: z.int().min(1).default(500),
  suppliers: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[\w-]+$/),
        version: z.enum(["2.0", "3.0"]),
        cmppPort: port,
        logPort: port,
        spId: z.string().min(1).max(6),
        secret: z.string().min(1),
        window: z.int().min(1).default(16),
        rate: z.int().min(1).default(200),
        connections: z.int().min(1).default(1),
        deviations: deviations.default({}),
      }),
    )
    .min(1),
});

const log = pino({ level: process.env["WAYBILL_LOG_LEVEL"] ?? "info" });

await main();

async function main(): Promise<void> {
  const options = readOptions(process.env["WAYBILL_SIMULATOR"]);
  if (options === undefined) {
    log.error({}, "WAYBILL_SIMULATOR holds no valid options");
    process.exitCode = 2;
    return;
  }
  const simulator = await startSimulator(options).catch(cannotStart);
  if (simulator === undefined) return;
  const health = await serveHealth(simulator);
  for (const { name, version, cmppPort, logUrl } of simulator.suppliers) {
    log.info({ supplier: name, version, cmppPort, logUrl }, "simulated supplier is up");
  }
  await askedToStop();
  await simulator.stop();
  health?.close();
  health?.closeAllConnections();
  log.info({}, "simulator stopped");
  // A tethered process still has its stdin open, which would keep it alive.
  process.exit(0);
}

/** Most often a port that another process holds (EADDRINUSE). */
function cannotStart(error: NodeJS.ErrnoException): undefined {
  log.error({ error: error.code ?? error.name }, "the simulated suppliers cannot start");
  process.exitCode = 1;
}

function readOptions(text: string | undefined): z.infer<typeof simulatorOptions> | undefined {
  try {
    return simulatorOptions.safeParse(JSON.parse(text ?? "")).data;
  } catch {
    return undefined;
  }
}

/** SIGTERM, SIGINT, or, for a tethered process, the end of whoever started it. */
function askedToStop(): Promise<void> {
  return new Promise((resolve) => {
    process.once("SIGTERM", () => resolve());
    process.once("SIGINT", () => resolve());
    if (process.env["WAYBILL_TETHERED"] !== "1") return;
    process.stdin.once("end", () => resolve());
    process.stdin.once("error", () => resolve());
    process.stdin.resume();
  });
}

async function serveHealth(simulator: Simulator): Promise<Server | undefined> {
  const metricsPort = process.env["WAYBILL_METRICS_PORT"];
  if (metricsPort === undefined) return undefined;
  const registry = metricsOf(simulator);
  const server = createServer((request, response) => {
    if (request.url === "/livez" || request.url === "/readyz") {
      // It listens before this server does: to be reachable is to be ready.
      response.end("ok\n");
      return;
    }
    if (request.url !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { "content-type": registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(Number(metricsPort), process.env["WAYBILL_HOST"] ?? "127.0.0.1", resolve);
  });
  return server;
}

/** The numbers of `stats`, read when asked for. */
function metricsOf(simulator: Simulator): Registry {
  const registry = new Registry();
  const gauge = new Gauge({
    name: "waybill_simulator",
    help: "Counts of a simulated supplier since its log began",
    labelNames: ["supplier", "count"],
    registers: [registry],
    collect() {
      for (const supplier of simulator.suppliers) {
        for (const [count, value] of Object.entries(supplier.stats())) {
          if (typeof value === "number") gauge.set({ supplier: supplier.name, count }, value);
        }
      }
    },
  });
  return registry;
}
