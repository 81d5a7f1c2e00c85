import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLingers, type LingerOutcome, type Lingers } from "./linger.ts";

let outcomes: LingerOutcome[];
let lingers: Lingers;
beforeEach(() => {
  vi.useFakeTimers();
  outcomes = [];
  lingers = createLingers({ room: 2, rememberMs: 1_000, onOutcome: (it) => outcomes.push(it) });
});
afterEach(() => {
  vi.useRealTimers();
});

const due = { kind: "due" };
const notYet = { kind: "not_yet" };

describe("an attempt that lingers", () => {
  it("goes on when a decision is due, and at once where it was due before it came", async () => {
    lingers.expect("early");
    lingers.call(["early", "of another worker"]);
    expect(await lingers.linger("early", 100)).toEqual(due);

    const later = lingers.linger("later", 100);
    await vi.advanceTimersByTimeAsync(50);
    lingers.call(["later"]);
    expect(await later).toEqual(due);
    expect(outcomes).toEqual(["hit", "hit"]);
  });

  it("is not expected anew by a second run of its publish, which would unsay what was called", async () => {
    lingers.expect("a");
    lingers.call(["a"]);
    lingers.expect("a");
    expect(await lingers.linger("a", 100)).toEqual(due);
  });

  it("goes on to the wait when its time is over, and a call that comes then is nobody's", async () => {
    const it = lingers.linger("a", 100);
    await vi.advanceTimersByTimeAsync(100);
    expect(await it).toEqual(notYet);
    lingers.call(["a"]);
    expect(outcomes).toEqual(["miss"]);
  });

  it("finds no room where as many linger as may, and finds it again when one of them goes", async () => {
    const [first, second] = [lingers.linger("a", 100), lingers.linger("b", 100)];
    expect(await lingers.linger("c", 100)).toEqual(notYet);
    lingers.call(["a"]);
    expect(await first).toEqual(due);
    const fourth = lingers.linger("d", 100);
    await vi.advanceTimersByTimeAsync(100);
    expect([await second, await fourth]).toEqual([notYet, notYet]);
    expect(outcomes).toEqual(["no_room", "hit", "miss", "miss"]);
  });

  it("leaves the place to a second run of its task, which is the one that is called", async () => {
    const first = lingers.linger("a", 1_000);
    const second = lingers.linger("a", 1_000);
    expect(await first).toEqual(notYet);
    lingers.call(["a"]);
    expect(await second).toEqual(due);
    expect(outcomes).toEqual(["ended", "hit"]);
  });

  it("is sent on when the worker stops, and so is whoever comes then", async () => {
    const before = lingers.linger("a", 1_000);
    lingers.end();
    expect([await before, await lingers.linger("b", 1_000)]).toEqual([notYet, notYet]);
  });
});

it("forgets attempts that are expected and never come", async () => {
  lingers.expect("a");
  lingers.call(["a"]);
  await vi.advanceTimersByTimeAsync(1_000);
  lingers.expect("b");
  const it = lingers.linger("a", 100);
  await vi.advanceTimersByTimeAsync(100);
  expect(await it).toEqual(notYet);
});
