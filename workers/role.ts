/** What every process has in common: it reads its config, serves its health, and ends when it is told. */
import { openVault, type Vault } from "../db/vault.ts";
import { type Config, readConfig } from "./config.ts";
import { openLog } from "./log.ts";
import { createHealthServer, createMetrics, type Health, type Metrics } from "./metrics.ts";
import { errorName, type Log, type Service } from "./service.ts";

/** What a role is made of. Started in this order, stopped in the opposite one. */
export interface RoleParts extends Health {
  services: Service[];
}

export interface RoleFrame {
  config: Config;
  log: Log;
  metrics: Metrics;
  /** One a process. */
  vault: Vault;
  /** Ends the process cleanly, because something that it cannot go on without has ended. */
  quit: () => void;
}

/** Leaves a little less than a supervisor waits before it kills. */
const STOP_DEADLINE_MS = 25_000;
const QUIT = 70;

export async function runRole(
  role: string,
  assemble: (frame: RoleFrame) => Promise<RoleParts>,
): Promise<void> {
  const config = readConfig(process.env);
  const log = openLog(role, config.logLevel);
  const metrics = createMetrics();
  let quit: () => void = () => undefined;
  const quitting = new Promise<"quit">((resolve) => (quit = () => resolve("quit")));
  // Before anything is put together: who is told to stop meanwhile must stop afterwards.
  const asked = askedToStop(config.tethered);

  const parts = await assemble({
    config,
    log,
    metrics,
    vault: openVault(config.dataKeys),
    quit: () => quit(),
  });
  const health = createHealthServer({ host: config.host, port: config.metricsPort }, metrics.registry, parts);
  for (const service of parts.services) await service.start();
  // Last: whoever finds it ready may send work at once.
  await health.start();
  log.info({ metricsPort: health.port(), pid: process.pid }, "role started");

  const why = await Promise.race([asked, quitting]);
  log.info({ why }, "role stops");
  setTimeout(() => process.exit(QUIT), STOP_DEADLINE_MS).unref();
  for (const service of [...parts.services].reverse()) {
    await service.stop().catch((error: unknown) => {
      log.error({ service: service.name, error: errorName(error) }, "a service did not stop cleanly");
    });
  }
  await health.stop();
  log.info({}, "role stopped");
  // A tethered process still has its standard input open, which would keep it alive.
  process.exit(why === "quit" ? QUIT : 0);
}

function askedToStop(tethered: boolean): Promise<string> {
  return new Promise((resolve) => {
    process.once("SIGTERM", () => resolve("SIGTERM"));
    process.once("SIGINT", () => resolve("SIGINT"));
    if (!tethered) return;
    process.stdin.once("end", () => resolve("supervisor gone"));
    process.stdin.once("error", () => resolve("supervisor gone"));
    process.stdin.resume();
  });
}
