import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPace, type Pace } from "./pace.ts";

/** Time that passes before each call, what it would like, and how long its take lasts. */
const anyCalls = fc.array(
  fc.record({
    afterMs: fc.oneof(
      fc.integer({ min: 0, max: 30 }),
      fc.integer({ min: 900, max: 1_100 }),
      fc.double({ min: 0, max: 5, noNaN: true }),
    ),
    wanted: fc.integer({ min: 0, max: 30 }),
    takeMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_000 })),
    unused: fc.integer({ min: 0, max: 3 }),
  }),
  { maxLength: 60 },
);

const spendNow = (pace: Pace, wanted: number): number => {
  const count = pace.reserve(wanted);
  for (let i = 0; i < count; i++) pace.spend();
  return count;
};

const mostWithin = (spent: readonly number[], ms: number): number =>
  Math.max(0, ...spent.map((start) => spent.filter((it) => it >= start && it < start + ms).length));

describe("a pace", () => {
  it("lets no more leave than allowed in any one second, however slow the takes before are (B5)", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), anyCalls, (perSecond, calls) => {
        let now = 1_000;
        const pace = createPace(perSecond, () => now);
        const spent: number[] = [];
        const open: { at: number; use: number; unused: number }[] = [];
        const close = (until: number): void => {
          for (const it of open.splice(0).sort((a, b) => a.at - b.at)) {
            if (it.at > until) {
              open.push(it);
              continue;
            }
            now = it.at;
            for (let i = 0; i < it.use; i++) {
              pace.spend();
              spent.push(now);
            }
            pace.release(it.unused);
          }
          now = until;
        };
        for (const { afterMs, wanted, takeMs, unused } of calls) {
          close(now + afterMs);
          const count = pace.reserve(wanted);
          expect(count).toBeLessThanOrEqual(wanted);
          const back = Math.min(count, unused);
          open.push({ at: now + takeMs, use: count - back, unused: back });
        }
        close(now + 10_000);
        expect(mostWithin(spent, 1_000)).toBeLessThanOrEqual(perSecond);
        expect(mostWithin(spent, 50)).toBeLessThanOrEqual(Math.ceil(perSecond / 20));
      }),
    );
  });

  it("says how long the next permit takes, and has it then", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), anyCalls, (perSecond, calls) => {
        let now = 1_000;
        const pace = createPace(perSecond, () => now);
        for (const { afterMs, wanted } of calls) {
          now += afterMs;
          spendNow(pace, wanted);
          const wait = pace.waitMs();
          // What is left of a fraction is waited for again.
          now += wait + 1e-6;
          expect(spendNow(pace, 1)).toBe(1);
        }
      }),
    );
  });

  it("keeps up the rate that it allows, but for a little that packets may lose on their way", () => {
    let now = 0;
    const pace = createPace(10, () => now);
    let given = 0;
    for (; now < 60_000; now += 5) given += spendNow(pace, 10);
    expect(given).toBeGreaterThanOrEqual(560);
    expect(given).toBeLessThanOrEqual(600);
  });

  it("has what is released at once, and asks soon again while all is reserved", () => {
    const pace = createPace(20, () => 0);
    expect([pace.reserve(2), pace.reserve(1), pace.waitMs()]).toEqual([1, 0, 5]);
    pace.release(1);
    expect(pace.reserve(1)).toBe(1);
  });

  it("gives nothing where this process has no share of the rate", () => {
    const pace = createPace(0, () => 0);
    expect(pace.reserve(5)).toBe(0);
    expect(pace.waitMs()).toBeGreaterThan(0);
  });

  it("counts what it is given by another process as used just now", () => {
    let now = 0;
    const pace = createPace(10, () => now);
    pace.resize(20);
    for (; now < 1_000; now += 50) spendNow(pace, 20);
    // Ten of its own, and nothing of the other's until that one's second is over.
    expect(spendNow(pace, 20)).toBe(0);
    now = 1_041;
    expect(spendNow(pace, 20)).toBe(1);
  });

  it("forgets nothing of the last second when its rate is lowered and raised again", () => {
    let now = 0;
    const pace = createPace(20, () => now);
    const spent: number[] = [];
    for (; now < 3_000; now += 10) {
      if (now === 500) pace.resize(5);
      if (now === 700) pace.resize(20);
      for (let i = spendNow(pace, 20); i > 0; i--) spent.push(now);
    }
    expect(mostWithin(spent, 1_000)).toBeLessThanOrEqual(20);
  });
});
