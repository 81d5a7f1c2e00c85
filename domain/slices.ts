/**
 * Slices of time: the stretches by which the tables that grow with every message are partitioned. They
 * meet without a gap and begin at midnight, UTC. Times are milliseconds since 1970.
 */
export const SLICE_WIDTHS = ["month", "week", "day"] as const;
export type SliceWidth = (typeof SLICE_WIDTHS)[number];

export interface Span {
  startsMs: number;
  endsMs: number;
}

export const DAY_MS = 86_400_000;

/**
 * What has to be added so that every moment until `aheadDays` from now has its slice. The first begins
 * where the last one there is ends, so the width may change at any time.
 */
export function missingSlices(
  last: Span | undefined,
  nowMs: number,
  aheadDays: number,
  width: SliceWidth,
): Span[] {
  const missing: Span[] = [];
  let startsMs = last?.endsMs ?? borderBefore(nowMs, width);
  while (startsMs <= nowMs + aheadDays * DAY_MS) {
    const endsMs = borderAfter(startsMs, width);
    missing.push({ startsMs, endsMs });
    startsMs = endsMs;
  }
  return missing;
}

/** Everything in it is older than `keepDays`; 0 keeps it for ever. */
export const isPast = (slice: Span, keepDays: number, nowMs: number): boolean =>
  keepDays > 0 && slice.endsMs + keepDays * DAY_MS <= nowMs;

/** The next midnight, Monday or first of a month. */
function borderAfter(ms: number, width: SliceWidth): number {
  const day = new Date(ms);
  const [year, month, date] = [day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate()];
  switch (width) {
    case "month":
      return Date.UTC(year, month + 1, 1);
    case "week":
      return Date.UTC(year, month, date + 7 - daysSinceMonday(day));
    case "day":
      return Date.UTC(year, month, date + 1);
  }
}

function borderBefore(ms: number, width: SliceWidth): number {
  const day = new Date(ms);
  const [year, month, date] = [day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate()];
  switch (width) {
    case "month":
      return Date.UTC(year, month, 1);
    case "week":
      return Date.UTC(year, month, date - daysSinceMonday(day));
    case "day":
      return Date.UTC(year, month, date);
  }
}

const daysSinceMonday = (day: Date): number => (day.getUTCDay() + 6) % 7;
