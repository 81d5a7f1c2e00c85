/**
 * Never more than `perSecond` permits in any second, not only on average (B5), and those of a second
 * spread over it: a burst that is held up on its way meets the next one. On a monotonic clock.
 *
 * A permit is reserved before a write is taken and spent when the write leaves: what counts at the
 * supplier is when it left, and a take may be slow.
 */
export interface Pace {
  /** Reserves what can be had now, at most `wanted`. */
  reserve(wanted: number): number;
  /** A reserved permit is used now. */
  spend(): void;
  /** Reserved permits that are not needed after all. */
  release(count: number): void;
  /** Milliseconds until the next permit; 0 when there is one. */
  waitMs(): number;
  /**
   * Another rate from now on. What is added counts as used just now: where it comes from another
   * process, that one may have used it a moment ago.
   */
  resize(perSecond: number): void;
}

/** Packets that left in one second may arrive in a little less. */
const WINDOW_MS = 1_040;
/** As many slices of a second share its permits evenly, rounded up. */
const SLICES = 20;
const SLICE_MS = 1_000 / SLICES;
/** All permits are reserved by somebody: asked again soon. */
const RESERVED_PAUSE_MS = 5;

export function createPace(perSecond: number, nowMs: () => number): Pace {
  /** A ring of when the last permits were spent: `next` is the oldest of them. */
  let spent = Array.from({ length: perSecond }, () => Number.NEGATIVE_INFINITY);
  let next = 0;
  let reserved = 0;

  /** When the permit after so many others can be had: a second after one, and a slice after another. */
  function freeAt(ahead: number): number {
    const size = spent.length;
    const perSlice = Math.ceil(size / SLICES);
    if (ahead >= perSlice) return Number.POSITIVE_INFINITY;
    const inSecond = spent[(next + ahead) % size] ?? 0;
    const inSlice = spent[(next + ahead + size - perSlice) % size] ?? 0;
    return Math.max(inSecond + WINDOW_MS, inSlice + SLICE_MS);
  }

  return {
    reserve(wanted) {
      const now = nowMs();
      let count = 0;
      while (count < wanted && freeAt(reserved + count) <= now) count++;
      reserved += count;
      return count;
    },
    spend() {
      reserved = Math.max(0, reserved - 1);
      if (spent.length === 0) return;
      spent[next] = nowMs();
      next = (next + 1) % spent.length;
    },
    release(count) {
      reserved = Math.max(0, reserved - count);
    },
    waitMs() {
      if (spent.length === 0) return WINDOW_MS;
      const at = freeAt(reserved);
      return at === Number.POSITIVE_INFINITY ? RESERVED_PAUSE_MS : Math.max(0, at - nowMs());
    },
    resize(perSecond) {
      if (perSecond === spent.length) return;
      const inOrder = [...spent.slice(next), ...spent.slice(0, next)];
      const now = nowMs();
      const added = Array.from({ length: Math.max(0, perSecond - spent.length) }, () => now);
      spent = [...inOrder.slice(Math.max(0, inOrder.length - perSecond)), ...added];
      next = 0;
    },
  };
}
