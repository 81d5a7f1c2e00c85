import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { orderFile } from "./at-point.ts";
import { MODES, type Order, POINTS } from "./points.ts";

/** The room reads its environment once, as a process does when it starts. */
async function roomWith(folder: string | undefined) {
  vi.stubEnv("WAYBILL_FAULT_POINTS", folder);
  vi.resetModules();
  return import("./at-point.ts");
}

function folderWith(order: Order): string {
  const folder = mkdtempSync(path.join(tmpdir(), "waybill-points-"));
  writeFileSync(orderFile(folder, "settle"), JSON.stringify(order));
  return folder;
}

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

/** The process would end here; the test goes on by an exception instead. */
const stayAlive = () =>
  vi.spyOn(process, "kill").mockImplementation(() => {
    throw new Error("killed");
  });

describe("a named point", () => {
  it("does its step and nothing else where no fault run is on", async () => {
    const { atPoint, isArmed, reach } = await roomWith(undefined);
    expect(await atPoint("settle", () => Promise.resolve(7))).toBe(7);
    expect(isArmed("settle")).toBe(false);
    expect(() => reach("response_read")).not.toThrow();
  });

  it("carries an order out once, and leaves the proof", async () => {
    const folder = folderWith({ id: "4", mode: "throw", hangMs: 0 });
    const { atPoint } = await roomWith(folder);
    const step = vi.fn(() => Promise.resolve("done"));
    await expect(atPoint("settle", step)).rejects.toThrow("a fault was ordered at settle");
    expect(step).not.toHaveBeenCalled();
    expect(await atPoint("settle", step)).toBe("done");
    expect(readdirSync(folder)).toEqual(["done-4"]);
  });

  it("leaves an order for another point alone", async () => {
    const folder = folderWith({ id: "4", mode: "throw", hangMs: 0 });
    const { atPoint } = await roomWith(folder);
    expect(await atPoint("reserve", () => Promise.resolve("done"))).toBe("done");
    expect(readdirSync(folder)).toEqual(["settle"]);
  });

  it("does the step and loses its answer", async () => {
    const { atPoint } = await roomWith(folderWith({ id: "4", mode: "lose", hangMs: 0 }));
    const step = vi.fn(() => Promise.resolve("done"));
    await expect(atPoint("settle", step)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(step).toHaveBeenCalledOnce();
  });

  it("does the step late", async () => {
    const { atPoint } = await roomWith(folderWith({ id: "4", mode: "hang", hangMs: 60 }));
    const startedAt = performance.now();
    expect(await atPoint("settle", () => Promise.resolve("done"))).toBe("done");
    expect(performance.now() - startedAt).toBeGreaterThan(55);
  });

  it.each([
    ["kill", 0],
    ["kill_after", 1],
  ] as const)("ends the process with kill -9, by mode %s", async (mode, done) => {
    const { atPoint } = await roomWith(folderWith({ id: "4", mode, hangMs: 0 }));
    const kill = stayAlive();
    const step = vi.fn(() => Promise.resolve("done"));
    await expect(atPoint("settle", step)).rejects.toThrow("killed");
    expect(kill).toHaveBeenCalledWith(process.pid, "SIGKILL");
    expect(step).toHaveBeenCalledTimes(done);
  });
});

it("every point has a role, a timeout to outlast, and at least kill, throw and hang", () => {
  for (const { modes, timeoutMs } of Object.values(POINTS)) {
    expect(MODES).toEqual(expect.arrayContaining([...modes]));
    expect(modes).toEqual(expect.arrayContaining(["kill", "throw", "hang"]));
    expect(timeoutMs).toBeGreaterThan(0);
  }
});
