import { expect, test } from "vitest";
import { describeText } from "../domain/segment.ts";
import { Numbers, planTraffic } from "./plan.ts";

const MIX = { ratePerSecond: 200, seconds: 20, longShare: 0.2, fates: "mix" } as const;

test("no number is used twice in a run, whatever the tiers (L)", () => {
  const numbers = new Numbers();
  const all = [...planTraffic(MIX, numbers), ...planTraffic(MIX, numbers)].map(({ to }) => to);
  expect(new Set(all).size).toBe(all.length);
  expect(all.every((to) => /^1\d{10}$/.test(to))).toBe(true);
});

test("a tier has its rate, its share of long texts, and three operators in the mix (L)", () => {
  const main = planTraffic(MIX, new Numbers()).filter(({ sender }) => sender === "main");
  expect(main).toHaveLength(4_000);
  expect(main.filter(({ segments }) => segments === 3)).toHaveLength(800);
  expect(main.every(({ text, segments }) => describeText(text).segmentCount === segments)).toBe(true);
  expect(new Set(main.map(({ operator }) => operator)).size).toBe(3);
  expect(main.at(-1)?.dueMs).toBe(19_995);
});

test("only the numbers of a mix have a fate of their own (interfaces §6)", () => {
  const fated = (fates: "mix" | "delivered"): string[] =>
    planTraffic({ ...MIX, fates }, new Numbers()).flatMap(
      ({ to }) => /^1\d\d9999(\d{4})$/.exec(to)?.[1] ?? [],
    );
  expect(fated("delivered")).toEqual([]);
  expect(new Set(fated("mix"))).toEqual(
    new Set([
      "0001",
      "0006",
      "0109",
      "0120",
      "0201",
      "0204",
      "0205",
      "0208",
      "0501",
      "0502",
      "0303",
      "0304",
      "0305",
    ]),
  );
});
