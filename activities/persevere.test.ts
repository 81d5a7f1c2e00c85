import { CancelledFailure } from "@temporalio/activity";
import { MockActivityEnvironment } from "@temporalio/testing";
import { DefaultLogger } from "@temporalio/worker";
import { describe, expect, it } from "vitest";
import { persevering, STEP_EXHAUSTED } from "./persevere.ts";

const silent = new DefaultLogger("ERROR", () => undefined);

/** As regular activities have it: they beat, and are not local. */
const regular = (heartbeatDetails?: number): MockActivityEnvironment =>
  new MockActivityEnvironment(
    { isLocal: false, heartbeatTimeoutMs: 20, heartbeatDetails },
    { logger: silent },
  );

const away = Object.assign(new Error("connection refused"), { code: "ECONNREFUSED" });

/** Fails with each of these in turn, then answers. */
function failing(...errors: Error[]) {
  const calls = { count: 0 };
  const step = (): Promise<string> => {
    const error = errors[calls.count++];
    return error === undefined ? Promise.resolve("answered") : Promise.reject(error);
  };
  return { calls, step };
}

const broken = (count: number): Error[] =>
  Array.from({ length: count }, () => new TypeError("to 13800000000"));

describe("a step that fails", () => {
  it("is tried until it answers, at most as often as is counted (D12)", async () => {
    const { calls, step } = failing(...broken(3));
    const answer = await regular().run(persevering(step, { countedTries: 4 }));
    expect(answer).toBe("answered");
    expect(calls.count).toBe(4);
  });

  it("gives up after the last counted try, with a code and not with the error's words (D16)", async () => {
    const { calls, step } = failing(...broken(10));
    const outcome = regular().run(persevering(step, { countedTries: 3 }));
    await expect(outcome).rejects.toMatchObject({ type: STEP_EXHAUSTED, nonRetryable: true });
    await expect(outcome).rejects.not.toThrow("13800000000");
    expect(calls.count).toBe(3);
  });

  it("goes on counting where a worker that died had stopped", async () => {
    const { calls, step } = failing(...broken(10));
    await expect(regular(2).run(persevering(step, { countedTries: 3 }))).rejects.toMatchObject({
      type: STEP_EXHAUSTED,
    });
    expect(calls.count).toBe(1);
  });

  it("runs once where Temporal itself repeats it, as a local activity, and hides its words, too", async () => {
    const { calls, step } = failing(...broken(2));
    const local = new MockActivityEnvironment({ isLocal: true }, { logger: silent });
    const outcome = local.run(persevering(step, { countedTries: 3 }));
    await expect(outcome).rejects.toMatchObject({ type: "StepFailed", details: ["TypeError"] });
    await expect(outcome).rejects.not.toThrow("13800000000");
    expect(calls.count).toBe(1);
  });
});

describe("a step that cannot be answered now", () => {
  it("counts nothing while the dependency is away (D12)", async () => {
    const { calls, step } = failing(away, away, ...broken(1));
    const answer = await regular().run(persevering(step, { countedTries: 2 }));
    expect(answer).toBe("answered");
    expect(calls.count).toBe(4);
  }, 10_000);

  it("asks again while it says 'not now', and counts nothing (B4)", async () => {
    let asked = 0;
    const step = (): Promise<string> => Promise.resolve(++asked < 3 ? "not now" : "now");
    const answer = await regular().run(
      persevering(step, { countedTries: 1, notNow: (it) => it === "not now" }),
    );
    expect(answer).toBe("now");
    expect(asked).toBe(3);
  }, 10_000);

  it("stops when the activity is cancelled", async () => {
    const environment = regular();
    const running = environment.run(
      persevering(
        () => {
          environment.cancel();
          return Promise.resolve("not now");
        },
        { countedTries: 1, notNow: () => true },
      ),
    );
    await expect(running).rejects.toThrow(CancelledFailure);
  });
});
