/**
 * A decision that comes soon is settled in the attempt's first workflow task; whatever goes wrong with that
 * costs a second task and nothing else (design §3, Linger).
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attemptIdOf, attemptWorkflowId, type MessageId } from "../domain/ids.ts";
import { type Chain, startChain } from "./chain.ts";

/** Fate 0211 reports after ten seconds of the table, which are one second here. */
const LATE = "0211";
const SILENT = "0004";

let chain: Chain | undefined;
/** The sweeper tells nobody sooner. */
const SWEPT_MS = 5_000;
/** Longer than a busy machine takes for the steps before. */
const LONG_MS = 8_000;
/** Over before the late receipt comes, on any machine. */
const SHORT_MS = 600;

const running = (): Chain => {
  if (chain === undefined) throw new Error("no chain runs");
  return chain;
};

async function historyOf(id: string): Promise<{ events: number; tasks: number; timedOut: number }> {
  const workflowId = attemptWorkflowId(attemptIdOf(id as MessageId, 1));
  const handle = running().temporal.client.workflow.getHandle(workflowId);
  await handle.result();
  const { events } = await handle.fetchHistory();
  const count = (kind: "workflowTaskCompletedEventAttributes" | "workflowTaskTimedOutEventAttributes") =>
    (events ?? []).filter((event) => Boolean(event[kind])).length;
  return {
    events: events?.length ?? 0,
    tasks: count("workflowTaskCompletedEventAttributes"),
    timedOut: count("workflowTaskTimedOutEventAttributes"),
  };
}

describe("where the supplier reports in time", () => {
  beforeAll(async () => {
    chain = await startChain({ lingerMs: LONG_MS });
  });
  afterAll(() => running().stop());

  it("a message of one segment needs 11 events and one workflow task", async () => {
    const id = await running().send("13000000001");
    expect((await running().untilFinal(id)).status).toBe("delivered");
    expect(await historyOf(id)).toEqual({ events: 11, tasks: 1, timedOut: 0 });
  });

  it("a retry is decided in the first task too, and so is the successor's end (D6)", async () => {
    const id = await running().send("13099990502");
    const story = await running().untilFinal(id);
    expect([story.status, story.attempts.length]).toEqual(["delivered", 2]);
    expect((await historyOf(id)).tasks).toBe(1);
  });

  it("a message of several segments lingers until the last of them has ended (D4)", async () => {
    const id = await running().send("13000000002", "长短信".repeat(50));
    expect((await running().untilFinal(id)).status).toBe("delivered");
    expect(await historyOf(id)).toEqual({ events: 11, tasks: 1, timedOut: 0 });
  });

  it("a worker that stops ends the open tasks at once, and nothing of them is lost", async () => {
    const id = await running().send(`1309999${SILENT}`, "hello", { validitySeconds: 10 });
    await running().untilStory(id, "it is sent", (it) => it.status === "sent");
    const before = performance.now();
    await running().stopWorker();
    expect(performance.now() - before).toBeLessThan(LONG_MS / 2);
    await running().startWorker();
    expect((await running().untilFinal(id)).status).toBe("expired");
    expect((await historyOf(id)).timedOut).toBe(0);
  });
});

describe("where it reports later", () => {
  beforeAll(async () => {
    chain = await startChain({ lingerMs: SHORT_MS });
  });
  afterAll(() => running().stop());

  it("the attempt waits as before, and needs at most 18 events and two workflow tasks", async () => {
    const id = await running().send(`1309999${LATE}`);
    expect((await running().untilFinal(id)).status).toBe("delivered");
    const { events, tasks } = await historyOf(id);
    expect(tasks).toBe(2);
    expect(events).toBeLessThanOrEqual(18);
  });
});

describe("where nobody hears the call", () => {
  beforeAll(async () => {
    chain = await startChain({ lingerMs: SHORT_MS, deaf: true });
  });
  afterAll(() => running().stop());

  it("the attempt lingers in vain and is told like any other, long before the sweeper would", async () => {
    const from = performance.now();
    const id = await running().send("13000000003");
    expect((await running().untilFinal(id)).status).toBe("delivered");
    expect(performance.now() - from).toBeLessThan(SWEPT_MS);
    expect((await historyOf(id)).tasks).toBe(2);
  });
});

describe("where lingering is off", () => {
  beforeAll(async () => {
    chain = await startChain({ lingerMs: 0 });
  });
  afterAll(() => running().stop());

  it("an attempt takes the same course as before there was any", async () => {
    const id = await running().send("13000000004");
    expect((await running().untilFinal(id)).status).toBe("delivered");
    expect(await historyOf(id)).toEqual({ events: 17, tasks: 2, timedOut: 0 });
  });
});
