/** Looks at processes and at PostgreSQL once a second while a tier runs, and keeps the extremes. */
import { availableParallelism } from "node:os";
import type { Session } from "../db/client.ts";
import { type ServerActivity, readActivity } from "./facts.ts";
import { rounded } from "./latency.ts";
import { type Usage, machineCpuMs, usageOf } from "./processes.ts";

export interface Watched {
  /** CPU time of each process from begin to end, in milliseconds. */
  cpuMs: Record<string, number>;
  /** The most that was resident at one moment, in MiB. */
  peakMemoryMib: { total: number; byProcess: Record<string, number> };
  /** CPU that the machine spent on anything else, in per cent of all its cores. */
  foreignCpuPercent: number;
  busyPercent: number;
  longestTransactionS: number;
  mostConnections: number;
  seconds: number;
}

export interface Watch {
  end(): Promise<Watched>;
}

const EVERY_MS = 1_000;
const MIB = 2 ** 20;

/** @param pids asked anew at each look: a role may be started again */
export function watch(database: Session, pids: () => Readonly<Record<string, number>>): Watch {
  const begun = { usage: usageOf(pids()), machine: machineCpuMs(), at: performance.now() };
  const most = { total: 0, byProcess: {} as Record<string, number> };
  const activity: ServerActivity[] = [];

  async function look(): Promise<void> {
    noteMemory(usageOf(pids()), most);
    activity.push(await readActivity(database));
  }
  // A look that PostgreSQL does not answer is one look less; that it is away shows elsewhere.
  const timer = setInterval(() => void look().catch(() => undefined), EVERY_MS);

  return {
    async end() {
      clearInterval(timer);
      await look();
      const usage = usageOf(pids());
      const cpuMs = Object.fromEntries(
        Object.entries(usage).map(([name, it]) => [name, it.cpuMs - (begun.usage[name]?.cpuMs ?? 0)]),
      );
      const seconds = (performance.now() - begun.at) / 1_000;
      const capacityMs = seconds * 1_000 * availableParallelism();
      const busyMs = machineCpuMs() - begun.machine;
      const oursMs = Object.values(cpuMs).reduce((sum, it) => sum + it, 0);
      return {
        cpuMs,
        peakMemoryMib: most,
        foreignCpuPercent: rounded(Math.max(0, ((busyMs - oursMs) / capacityMs) * 100)),
        busyPercent: rounded((busyMs / capacityMs) * 100),
        longestTransactionS: Math.max(...activity.map((it) => it.longest_transaction_s)),
        mostConnections: Math.max(...activity.map((it) => it.connections)),
        seconds,
      };
    },
  };
}

function noteMemory(
  usage: Readonly<Record<string, Usage>>,
  most: { total: number; byProcess: Record<string, number> },
): void {
  let total = 0;
  for (const [name, { residentBytes }] of Object.entries(usage)) {
    const mib = Math.round(residentBytes / MIB);
    total += mib;
    most.byProcess[name] = Math.max(most.byProcess[name] ?? 0, mib);
  }
  most.total = Math.max(most.total, total);
}
