/**
 * Histories of every shape that attempts have had, replayed against today's workflow code: attempts live
 * for days, so a change that an old one cannot follow must fail here first.
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { DeterminismViolationError } from "@temporalio/workflow";
import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import {
  bundleWorkflowCode,
  type ReplayResult,
  Runtime,
  Worker,
  type WorkflowBundle,
} from "@temporalio/worker";
import { beforeAll, describe, expect, it } from "vitest";

const folder = new URL("histories/", import.meta.url);
const SHAPES = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.replace(".json", ""));

interface HistoryJson {
  events: { eventType: string }[];
}
const read = (shape: string): HistoryJson =>
  JSON.parse(readFileSync(new URL(`${shape}.json`, folder), "utf8")) as HistoryJson;

/** Every shape must be there: a folder that lost a file must not pass. */
const EXPECTED = [
  "delivered",
  "retried",
  "settled-by-retry",
  "expired",
  "refused",
  "waited-for-a-connection",
  "looked-twice",
  "lingered-and-hit",
  "lingered-and-missed",
];

const root = fileURLToPath(new URL("..", import.meta.url));
let bundle: WorkflowBundle;
beforeAll(async () => {
  Runtime.install({ logger: quiet });
  bundle = await bundleOf(root);
});

const bundleOf = (base: string): Promise<WorkflowBundle> =>
  bundleWorkflowCode({ workflowsPath: path.join(base, "workflows/index.ts"), logger: quiet });

/** Today's workflows with one change, from a copy inside the checkout, where packages are found. */
async function bundleChanged(change: (source: string) => string): Promise<WorkflowBundle> {
  const base = path.join(root, ".waybill", `replay-${process.pid}`);
  for (const part of ["workflows", "domain"]) {
    cpSync(path.join(root, part), path.join(base, part), { recursive: true });
  }
  const file = path.join(base, "workflows/attempt.ts");
  const source = readFileSync(file, "utf8");
  expect(change(source)).not.toBe(source);
  writeFileSync(file, change(source));
  try {
    return await bundleOf(base);
  } finally {
    rmSync(base, { recursive: true });
  }
}

async function replay(
  histories: Record<string, HistoryJson>,
  workflowBundle: WorkflowBundle = bundle,
): Promise<Map<string, ReplayResult>> {
  const results = new Map<string, ReplayResult>();
  const given = Object.entries(histories).map(([workflowId, json]) => ({
    workflowId,
    history: historyFromJSON(json),
  }));
  for await (const result of Worker.runReplayHistories({ workflowBundle }, given)) {
    results.set(result.workflowId, result);
  }
  return results;
}

describe("the attempt workflow", () => {
  it("replays every stored history", async () => {
    expect(SHAPES).toEqual(expect.arrayContaining(EXPECTED));
    const results = await replay(Object.fromEntries(SHAPES.map((shape) => [shape, read(shape)])));
    for (const shape of SHAPES) expect(results.get(shape)?.error, shape).toBeUndefined();
    expect(results.size).toBe(SHAPES.length);
  });

  it("would fail here if it took other steps than a stored history", async () => {
    const changed = await bundleChanged((source) =>
      source.replace(
        'await course.step("publish", (steps) => steps.publish(attemptId))',
        '{ kind: "published" }',
      ),
    );
    const results = await replay({ delivered: read("delivered") }, changed);
    expect(results.get("delivered")?.error).toBeInstanceOf(DeterminismViolationError);
  });

  it("needs few events for a message of one segment that is delivered: 12 where it lingered and hit, else 18", () => {
    expect(read("lingered-and-hit").events.length).toBeLessThanOrEqual(12);
    expect(read("lingered-and-missed").events.length).toBeLessThanOrEqual(18);
    expect(read("delivered").events.length).toBeLessThanOrEqual(18);
  });
});

const nothing = (): void => undefined;
const quiet = { log: nothing, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
