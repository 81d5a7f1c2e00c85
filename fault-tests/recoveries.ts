/** How soon it went on after each fault, and where that took longer than is promised (interfaces §10). */
import type { Finding } from "./judges/evidence.ts";

/** One cycle, as it is told when it is over. */
export interface CycleResult {
  cycle: number;
  fault: string;
  hit: boolean;
  /** From the return of what was broken to the next text that went all the way; null: within no patience. */
  recoveryMs: number | null;
  /** The same for the last of the texts that were under way when it broke; null where one had not ended yet. */
  caughtMs: number | null;
  caught: number;
}

export interface Spread {
  min: number;
  median: number;
  max: number;
}

export class Recoveries {
  readonly #byFault = new Map<string, number[]>();
  readonly #stuck: CycleResult[] = [];
  /** Faults that were scheduled and never came about. */
  readonly missed: string[] = [];
  count = 0;

  add(result: CycleResult): void {
    this.count++;
    if (!result.hit) this.missed.push(result.fault);
    if (result.recoveryMs === null) {
      this.#stuck.push(result);
      return;
    }
    const times = this.#byFault.get(result.fault);
    if (times === undefined) this.#byFault.set(result.fault, [result.recoveryMs]);
    else times.push(result.recoveryMs);
  }

  spreads(): Record<string, Spread> {
    const inOrder = [...this.#byFault].sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(inOrder.map(([fault, times]) => [fault, spreadOf(times)]));
  }

  /** Faults after which nothing went on by itself. */
  findings(): Finding[] {
    return this.#stuck.map(({ cycle, fault }) => ({
      clause: "C9",
      verdict: "unexpected",
      subject: `cycle ${cycle}`,
      why: `nothing went on by itself after: ${fault}`,
    }));
  }
}

function spreadOf(times: readonly number[]): Spread {
  const inOrder = times.toSorted((a, b) => a - b);
  return {
    min: inOrder[0] ?? 0,
    median: inOrder[Math.floor(inOrder.length / 2)] ?? 0,
    max: inOrder.at(-1) ?? 0,
  };
}
