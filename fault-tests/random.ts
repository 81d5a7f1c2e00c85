/** Numbers that look drawn by lot and are the same for the same seed: what a run does can be done again. */

export interface Random {
  /** A whole number from 0 up to, and without, `end`. */
  below(end: number): number;
  chance(probability: number): boolean;
  /** @throws RangeError for an empty list */
  pick<Item>(items: readonly Item[]): Item;
  shuffled<Item>(items: readonly Item[]): Item[];
}

/** `purpose` gives each use a stream of its own, so that more draws for one never change another. */
export function randomFrom(seed: number, purpose: string): Random {
  const next = mulberry32(mixed(seed, purpose));
  const below = (end: number): number => Math.floor(next() * end);
  return {
    below,
    chance: (probability) => next() < probability,
    pick(items) {
      const item = items[below(items.length)];
      if (item === undefined) throw new RangeError("nothing to pick from");
      return item;
    },
    shuffled(items) {
      const list = [...items];
      for (let last = list.length - 1; last > 0; last--) {
        const other = below(last + 1);
        [list[last], list[other]] = [list[other] as (typeof list)[0], list[last] as (typeof list)[0]];
      }
      return list;
    },
  };
}

/** Tommy Ettinger's mulberry32: 32 bits of state, and good enough to choose faults by. */
function mulberry32(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** FNV-1a over the purpose, begun with the seed. */
function mixed(seed: number, purpose: string): number {
  let hash = 0x811c9dc5 ^ seed;
  for (const character of purpose) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return hash;
}
