import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPace } from "./pace.ts";

/** Time that passes before each call, and how many permits it would like. */
const anyCalls = fc.array(
  fc.record({
    afterMs: fc.oneof(
      fc.integer({ min: 0, max: 30 }),
      fc.integer({ min: 900, max: 1_100 }),
      fc.double({ min: 0, max: 5, noNaN: true }),
    ),
    wanted: fc.integer({ min: 0, max: 30 }),
  }),
  { maxLength: 60 },
);

describe("a pace", () => {
  it("gives no more permits than allowed in any one second, however they are asked for (B5)", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), anyCalls, (perSecond, calls) => {
        let now = 1_000;
        const pace = createPace(perSecond, () => now);
        const given: number[] = [];
        for (const { afterMs, wanted } of calls) {
          now += afterMs;
          const count = pace.available(wanted);
          expect(count).toBeLessThanOrEqual(wanted);
          pace.use(count);
          for (let i = 0; i < count; i++) given.push(now);
        }
        for (const start of given) {
          const inOneSecond = given.filter((it) => it >= start && it < start + 1_000).length;
          expect(inOneSecond).toBeLessThanOrEqual(perSecond);
        }
      }),
    );
  });

  it("says how long the next permit takes, and has it then", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), anyCalls, (perSecond, calls) => {
        let now = 1_000;
        const pace = createPace(perSecond, () => now);
        for (const { afterMs, wanted } of calls) {
          now += afterMs;
          pace.use(pace.available(wanted));
          const wait = pace.waitMs();
          if (pace.available(1) === 0) {
            expect(wait).toBeGreaterThan(0);
            now += wait;
            expect(pace.available(1)).toBe(1);
          } else {
            expect(wait).toBe(0);
          }
        }
      }),
    );
  });

  it("gives them all at once to one who never asked before", () => {
    expect(createPace(7, () => 0).available(100)).toBe(7);
  });

  it("keeps up the rate that it allows, but for a little that packets may lose on their way", () => {
    let now = 0;
    const pace = createPace(10, () => now);
    let given = 0;
    for (; now < 60_000; now += 5) {
      const count = pace.available(10);
      pace.use(count);
      given += count;
    }
    expect(given).toBeGreaterThanOrEqual(580);
    expect(given).toBeLessThanOrEqual(600);
  });

  it("uses nothing by asking", () => {
    const pace = createPace(3, () => 0);
    expect([pace.available(2), pace.available(2), pace.available(2)]).toEqual([2, 2, 2]);
  });
});
