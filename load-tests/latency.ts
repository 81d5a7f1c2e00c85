/** Percentiles as they are reported: milliseconds with one decimal. */
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

/** All zero where there is nothing to measure. */
export function percentilesOf(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

export const rounded = (value: number): number => Math.round(value * 10) / 10;
