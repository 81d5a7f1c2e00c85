import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OPERATORS } from "./message.ts";
import { type Candidate, planRoute } from "./route.ts";

const channel = (channelId: string, wishes: Partial<Candidate> = {}): Candidate => ({
  channelId,
  supplierId: `sup_${channelId}`,
  srcId: "1069",
  priority: 10,
  weight: 1,
  active: true,
  operators: ["china_mobile"],
  filed: true,
  connected: true,
  ...wishes,
});

const plan = (candidates: Candidate[], tried: string[] = [], draw = 0) =>
  planRoute(candidates, "china_mobile", new Set(tried), draw);

const anyCandidates: fc.Arbitrary<Candidate[]> = fc
  .array(
    fc.record({
      priority: fc.integer({ min: 1, max: 3 }),
      weight: fc.integer({ min: 1, max: 5 }),
      active: fc.boolean(),
      operators: fc.subarray([...OPERATORS]),
      filed: fc.boolean(),
      connected: fc.boolean(),
    }),
    { maxLength: 6 },
  )
  .map((list) => list.map((wishes, index) => channel(`chn_${index}`, wishes)));
const anyDraw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe("the choice of a channel", () => {
  it("is one that may send, of the best priority that has any (B5)", () => {
    fc.assert(
      fc.property(
        anyCandidates,
        anyDraw,
        fc.subarray(["chn_0", "chn_1", "chn_2"]),
        (candidates, draw, tried) => {
          const may = candidates.filter(
            (it) =>
              it.active &&
              it.filed &&
              it.connected &&
              it.operators.includes("china_mobile") &&
              !tried.includes(it.channelId),
          );
          const route = plan(candidates, tried, draw);
          if (may.length === 0) {
            expect(route.kind).not.toBe("chosen");
          } else {
            const best = Math.min(...may.map((it) => it.priority));
            expect(route).toMatchObject({ kind: "chosen", candidate: { priority: best } });
            if (route.kind === "chosen") expect(may).toContain(route.candidate);
          }
          expect(route.considered).toHaveLength(candidates.length);
        },
      ),
    );
  });

  it("goes by weight among those of one priority", () => {
    const two = [channel("heavy", { weight: 3 }), channel("light")];
    const chosen = Array.from({ length: 100 }, (_, index) => {
      const route = plan(two, [], index / 100);
      return route.kind === "chosen" ? route.candidate.channelId : "none";
    });
    expect(chosen.filter((it) => it === "light")).toHaveLength(25);
    expect(chosen.filter((it) => it === "heavy")).toHaveLength(75);
  });

  it("takes a worse priority when the better one is not connected (B4)", () => {
    const route = plan([channel("first", { connected: false }), channel("second", { priority: 20 })]);
    expect(route).toMatchObject({ kind: "chosen", candidate: { channelId: "second" } });
  });
});

describe("without a channel", () => {
  it("waits where only a connection is missing: that is not 'no route' (B4)", () => {
    expect(plan([channel("a", { connected: false }), channel("b", { active: false })]).kind).toBe(
      "disconnected",
    );
  });

  it("says so where every channel is barred or was tried (D6)", () => {
    expect(plan([])).toEqual({ kind: "no_route", considered: [] });
    expect(plan([channel("a", { connected: false })], ["a"]).kind).toBe("no_route");
  });
});

describe("what is kept of the plan", () => {
  it("names the first thing that speaks against each candidate, in the order of their priority", () => {
    const { considered } = plan(
      [
        channel("f", { connected: false, priority: 6 }),
        channel("e", { priority: 5 }),
        channel("d", { priority: 4, filed: false }),
        channel("c", { priority: 3, operators: ["china_unicom"], filed: false }),
        channel("b", { priority: 2, active: false, filed: false }),
        channel("a", { priority: 1 }),
      ],
      ["e"],
    );
    expect(considered.map((it) => [it.channelId, it.verdict])).toEqual([
      ["a", "eligible"],
      ["b", "disabled"],
      ["c", "wrong_operator"],
      ["d", "signature_not_filed"],
      ["e", "tried_before"],
      ["f", "disconnected"],
    ]);
  });
});
