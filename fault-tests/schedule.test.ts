import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { POINTS } from "../fault-points/points.ts";
import { ALL_POINTS, nameOf, roundLength, scheduleOf } from "./schedule.ts";

const pointsOf = (cycles: ReturnType<typeof scheduleOf>) =>
  cycles.flatMap(({ fault }) => (fault.kind === "point" ? [fault.point] : []));

describe("the schedule of a fault run", () => {
  it("is the same for the same seed, and another for another", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 200 }), (seed, cycles) => {
        const wishes = { seed, cycles, suppliers: 3 };
        expect(scheduleOf(wishes)).toEqual(scheduleOf(wishes));
      }),
    );
    const named = (seed: number) =>
      scheduleOf({ seed, cycles: 40, suppliers: 3 }).map((it) => nameOf(it.fault));
    expect(named(1)).not.toEqual(named(2));
  });

  it("walks every point once before anything else", () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const first = scheduleOf({ seed, cycles: ALL_POINTS.length, suppliers: 3 });
        expect(pointsOf(first).toSorted()).toEqual(ALL_POINTS.toSorted());
      }),
    );
  });

  it("has every other fault behind them, and begins with the same cycles however many are wanted", () => {
    const round = roundLength({ suppliers: 3 });
    const whole = scheduleOf({ seed: 7, cycles: round, suppliers: 3 });
    const others = whole.slice(ALL_POINTS.length).map(({ fault }) => JSON.stringify(fault));
    expect(new Set(others).size).toBe(round - ALL_POINTS.length);
    expect(others).not.toHaveLength(0);
    expect(scheduleOf({ seed: 7, cycles: round + 50, suppliers: 3 }).slice(0, round)).toEqual(whole);
  });

  it("keeps to the points that were named, each with a mode that it has", () => {
    const points = ["take", "response_read"] as const;
    const cycles = scheduleOf({ seed: 3, cycles: 60, points, suppliers: 3 });
    for (const { fault } of cycles) {
      expect(fault.kind).toBe("point");
      if (fault.kind === "point") expect(POINTS[fault.point].modes).toContain(fault.mode);
    }
    expect(new Set(pointsOf(cycles))).toEqual(new Set(points));
  });

  it("hangs half as long again as the timeout, and in a quick round only where that is short", () => {
    for (const { fault } of scheduleOf({ seed: 5, cycles: 500, suppliers: 3, quick: true })) {
      if (fault.kind !== "point") continue;
      expect(fault.hangMs).toBe(POINTS[fault.point].timeoutMs * 1.5);
      if (fault.mode === "hang") expect(fault.hangMs).toBeLessThanOrEqual(4_000);
    }
  });
});
