/** What a message cost, from what was watched. */
import { rounded } from "./latency.ts";
import type { Watched } from "./watch.ts";

export interface Cost {
  cpuMsPerMessage: { total: number; byProcess: Record<string, number> };
  peakMemoryMib: Watched["peakMemoryMib"];
  foreignCpuPercent: number;
  busyPercent: number;
}

export function costOf(watched: Watched, messages: number): Cost {
  const perMessage = (ms: number): number => Math.round((ms / Math.max(1, messages)) * 100) / 100;
  const total = Object.values(watched.cpuMs).reduce((sum, ms) => sum + ms, 0);
  return {
    cpuMsPerMessage: {
      total: rounded(perMessage(total)),
      byProcess: Object.fromEntries(
        Object.entries(watched.cpuMs).map(([name, ms]) => [name, perMessage(ms)]),
      ),
    },
    peakMemoryMib: watched.peakMemoryMib,
    foreignCpuPercent: watched.foreignCpuPercent,
    busyPercent: watched.busyPercent,
  };
}
