import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DAY_MS, isPast, missingSlices, SLICE_WIDTHS } from "./slices.ts";

const at = (day: string): number => Date.parse(`${day}Z`);
const days = (spans: readonly { startsMs: number; endsMs: number }[]): string[] =>
  spans.map((it) => [it.startsMs, it.endsMs].map((ms) => new Date(ms).toISOString().slice(0, 10)).join("/"));

describe("slices that are missing", () => {
  it("follow the last one, over the end of a year, until the days ahead are covered", () => {
    const last = { startsMs: at("2026-11-01"), endsMs: at("2026-12-01") };
    expect(days(missingSlices(last, at("2026-12-15"), 45, "month"))).toEqual([
      "2026-12-01/2027-01-01",
      "2027-01-01/2027-02-01",
    ]);
  });

  it("are none where the last one reaches far enough", () => {
    const last = { startsMs: at("2027-01-01"), endsMs: at("2027-02-01") };
    expect(missingSlices(last, at("2026-12-15"), 45, "month")).toEqual([]);
  });

  it("begin with the one that now is in, where there is none at all", () => {
    expect(days(missingSlices(undefined, at("2026-12-03T11:00"), 0, "month"))).toEqual([
      "2026-12-01/2027-01-01",
    ]);
    expect(days(missingSlices(undefined, at("2026-12-03T11:00"), 0, "week"))).toEqual([
      "2026-11-30/2026-12-07",
    ]);
    expect(days(missingSlices(undefined, at("2026-12-03T11:00"), 0, "day"))).toEqual([
      "2026-12-03/2026-12-04",
    ]);
  });

  it("take up a new width from where the last one ends", () => {
    const last = { startsMs: at("2026-12-01"), endsMs: at("2027-01-01") };
    expect(days(missingSlices(last, at("2026-12-31"), 7, "week"))).toEqual([
      "2027-01-01/2027-01-04",
      "2027-01-04/2027-01-11",
    ]);
  });

  it("meet without a gap, begin at midnight and reach beyond the days ahead, whatever they follow", () => {
    const someDay = fc.integer({ min: at("2020-01-01") / DAY_MS, max: at("2040-01-01") / DAY_MS });
    fc.assert(
      fc.property(
        someDay,
        fc.integer({ min: -40, max: 400 }),
        fc.integer({ min: 0, max: 90 }),
        fc.constantFrom(...SLICE_WIDTHS),
        (end, later, ahead, width) => {
          const last = { startsMs: (end - 1) * DAY_MS, endsMs: end * DAY_MS };
          const nowMs = (end + later) * DAY_MS + 12_345;
          const all = [last, ...missingSlices(last, nowMs, ahead, width)];
          all.slice(1).forEach((it, i) => {
            expect(it.startsMs).toBe(all[i]?.endsMs);
            expect(it.endsMs).toBeGreaterThan(it.startsMs);
            expect(it.endsMs % DAY_MS).toBe(0);
          });
          expect(all.some((it) => it.endsMs > nowMs + ahead * DAY_MS)).toBe(true);
        },
      ),
    );
  });
});

describe("a slice is past", () => {
  const slice = { startsMs: at("2026-08-01"), endsMs: at("2026-09-01") };

  it("when its last moment is older than the days that are kept", () => {
    expect(isPast(slice, 90, at("2026-11-29T23:59:59.999"))).toBe(false);
    expect(isPast(slice, 90, at("2026-11-30"))).toBe(true);
  });

  it("never where everything is kept", () => {
    expect(isPast(slice, 0, at("2099-01-01"))).toBe(false);
  });
});
