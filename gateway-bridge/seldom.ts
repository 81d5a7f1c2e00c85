/**
 * At most one line in a while for each kind of thing, with how many it stands for: a supplier must not be
 * able to fill a disk with what it sends.
 */
export interface Seldom {
  /** Says it now, or counts it towards the next time that this kind is said. */
  say(kind: string): void;
}

const EVERY_MS = 1_000;

/** `write` gets the kind and how often it happened since it was last said, this time included. */
export function seldom(write: (kind: string, count: number) => void, nowMs: () => number): Seldom {
  const kinds = new Map<string, { saidAt: number; unsaid: number }>();
  return {
    say(kind) {
      const known = kinds.get(kind) ?? { saidAt: Number.NEGATIVE_INFINITY, unsaid: 0 };
      kinds.set(kind, known);
      known.unsaid++;
      if (nowMs() - known.saidAt < EVERY_MS) return;
      write(kind, known.unsaid);
      known.saidAt = nowMs();
      known.unsaid = 0;
    },
  };
}
