/**
 * The simulated suppliers: CMPP servers whose behaviour the number decides, with a witness log (interfaces
 * §6). One process serves all of them. They share the codec with the gateway, and nothing else.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fates } from "./simulator-fates.ts";
import { LogServer } from "./simulator-log-server.ts";
import { SimulatedSupplier, type SupplierOptions, type SupplierStats } from "./simulator-supplier.ts";

export interface SimulatorOptions {
  /** Witness logs and owed receipts; a second start on the same folder goes on with them. */
  dataDir: string;
  suppliers: SupplierOptions[];
  /** 127.0.0.1 when not said. */
  host?: string;
  /** From the SUBMIT to its receipt; 300 when not said. Of several, each number has one for ever. */
  receiptDelayMs?: number | readonly number[];
  /** Factor on the seconds of the fates and of redelivery; 1 when not said. */
  timeScale?: number;
  /** Time for a connection to log in; 10 s when not said. */
  loginTimeoutMs?: number;
  /** Unanswered DELIVERs on a connection; 500 when not said. */
  deliverWindow?: number;
}

export interface RunningSupplier {
  name: string;
  version: SupplierOptions["version"];
  cmppPort: number;
  logUrl: string;
  stats(): SupplierStats;
}

export interface Simulator {
  suppliers: RunningSupplier[];
  /** Twice does no harm. */
  stop(): Promise<void>;
}

const REDELIVER_AFTER_MS = 60_000;
/** Of the 22 bits of a gateway code: those that tell suppliers apart, beside the number of the run. */
const MAX_SUPPLIERS = 64;
const MAX_RUNS = 65_536;

/** Starts all suppliers or none: a port that is taken rejects, after what was started has stopped. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  if (options.suppliers.length > MAX_SUPPLIERS) throw new Error("at most 64 simulated suppliers");
  const host = options.host ?? "127.0.0.1";
  const timeScale = options.timeScale ?? 1;
  const fates = new Fates({ receiptDelayMs: options.receiptDelayMs ?? 300, timeScale });
  const run = nextRun(options.dataDir);
  const started: { stop(): Promise<void> }[] = [];
  let stopping: Promise<unknown> | undefined;
  const stop = async (): Promise<void> => {
    stopping ??= Promise.all(started.map((each) => each.stop()));
    await stopping;
  };
  try {
    // All logs are read before the first port opens: fates remember over all suppliers.
    const suppliers = options.suppliers.map((supplier, i) => {
      const simulated = new SimulatedSupplier(supplier, {
        host,
        folder: options.dataDir,
        fates,
        gatewayCode: run * MAX_SUPPLIERS + i,
        loginTimeoutMs: options.loginTimeoutMs ?? 10_000,
        deliverWindow: options.deliverWindow ?? 500,
        redeliverAfterMs: REDELIVER_AFTER_MS * timeScale,
        timeScale,
      });
      started.push(simulated);
      return { simulated, supplier };
    });
    const running: RunningSupplier[] = [];
    for (const { simulated, supplier } of suppliers) {
      const log = new LogServer(simulated);
      started.push(log);
      running.push({
        name: supplier.name,
        version: supplier.version,
        cmppPort: await simulated.listen(),
        logUrl: await log.listen(host, supplier.logPort),
        stats: () => simulated.stats(),
      });
    }
    return { suppliers: running, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Runs are counted, so that no run issues a Msg_Id of an earlier one within the same second. */
function nextRun(dataDir: string): number {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "runs");
  const run = (readRuns(path) + 1) % MAX_RUNS;
  writeFileSync(path, `${run}\n`);
  return run;
}

function readRuns(path: string): number {
  try {
    return Number.parseInt(readFileSync(path, "utf8"), 10) || 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
    throw error;
  }
}
