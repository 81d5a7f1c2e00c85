import { expect, test } from "vitest";
import { readPs, usageOf } from "./processes.ts";

test("a listing of ps is read where there is no /proc", () => {
  const table = readPs("    1     0    01:02.50  1024\n   42     1 1-02:03:04     8\n");
  expect(table.get(1)).toEqual({ parent: 0, cpuMs: 62_500, residentBytes: 2 ** 20, sharedBytes: 0 });
  expect(table.get(42)).toEqual({ parent: 1, cpuMs: 93_784_000, residentBytes: 8_192, sharedBytes: 0 });
});

test("a process that works is seen to work, and one that is gone is left out", () => {
  const before = usageOf({ self: process.pid, gone: 2 ** 30 });
  const until = performance.now() + 60;
  while (performance.now() < until);
  const after = usageOf({ self: process.pid });
  expect(before["gone"]).toBeUndefined();
  expect((after["self"]?.cpuMs ?? 0) - (before["self"]?.cpuMs ?? 0)).toBeGreaterThan(0);
  expect(after["self"]?.residentBytes).toBeGreaterThan(2 ** 20);
});
