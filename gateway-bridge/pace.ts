/**
 * Never more than `perSecond` permits in any second, not only on average (B5): a permit is free when the
 * one given `perSecond` permits ago is more than a second old. On a monotonic clock.
 */
export interface Pace {
  /** How many could be had now, at most `wanted`. */
  available(wanted: number): number;
  /** Uses permits that were available. */
  use(count: number): void;
  /** Milliseconds until the next permit; 0 when there is one. */
  waitMs(): number;
}

/** Packets that left in one second may arrive in a little less. */
const WINDOW_MS = 1_020;

export function createPace(perSecond: number, nowMs: () => number): Pace {
  /** A ring: `next` is the oldest of the last `perSecond` permits. */
  const given = Array.from({ length: perSecond }, () => Number.NEGATIVE_INFINITY);
  let next = 0;

  const freeAt = (ahead: number): number => (given[(next + ahead) % perSecond] ?? 0) + WINDOW_MS;

  return {
    available(wanted) {
      const now = nowMs();
      const most = Math.min(wanted, perSecond);
      let free = 0;
      while (free < most && freeAt(free) <= now) free++;
      return free;
    },
    use(count) {
      const now = nowMs();
      for (let i = 0; i < count; i++) {
        given[next] = now;
        next = (next + 1) % perSecond;
      }
    },
    waitMs: () => Math.max(0, freeAt(0) - nowMs()),
  };
}
