import type { Response } from "express";
import { expect, it } from "vitest";
import { submissionRate } from "./authentication.ts";
import { ProblemError } from "./problems.ts";

const caller = (applicationId: string, ratePerSecond: number | null) => ({
  enterpriseId: "ent",
  applicationId,
  accountId: "acc",
  currency: "CNY",
  unitPriceUnits: 1n,
  ratePerSecond,
});

function rateAt(): {
  admit: (who: ReturnType<typeof caller>) => string;
  pass: (ms: number) => void;
  spend: ReturnType<typeof submissionRate>["spend"];
} {
  let now = 0;
  const rate = submissionRate(() => now);
  return {
    pass: (ms) => {
      now += ms;
    },
    spend: (who, messages) => rate.spend(who, messages),
    admit(who) {
      try {
        let passed = false;
        void rate.admit({} as never, { locals: { caller: who } } as unknown as Response, () => {
          passed = true;
        });
        return passed ? "in" : "stuck";
      } catch (error) {
        return error instanceof ProblemError ? `wait ${error.headers["retry-after"]}` : "error";
      }
    },
  };
}

it("lets one second's worth through at once and then as many a second as the rate says", () => {
  const { admit, pass } = rateAt();
  const who = caller("a", 2);
  expect([admit(who), admit(who), admit(who)]).toEqual(["in", "in", "wait 1"]);
  pass(499);
  expect(admit(who)).toBe("wait 1");
  pass(1);
  expect([admit(who), admit(who)]).toEqual(["in", "wait 1"]);
  pass(60_000);
  expect([admit(who), admit(who), admit(who)]).toEqual(["in", "in", "wait 1"]);
});

it("lets a batch in whole and makes the application wait until it is paid off", () => {
  const { admit, spend, pass } = rateAt();
  const who = caller("a", 10);
  expect(admit(who)).toBe("in");
  spend(who, 99);
  expect(admit(who)).toBe("wait 10");
  pass(9_000);
  expect(admit(who)).toBe("wait 1");
  pass(100);
  expect(admit(who)).toBe("in");
});

it("counts each application by itself, and not at all without a rate", () => {
  const { admit } = rateAt();
  expect([admit(caller("a", 1)), admit(caller("a", 1)), admit(caller("b", 1))]).toEqual([
    "in",
    "wait 1",
    "in",
  ]);
  expect(Array.from({ length: 100 }, () => admit(caller("c", null)))).not.toContain("wait 1");
});
