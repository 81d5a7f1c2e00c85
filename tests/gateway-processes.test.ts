/**
 * Gateways as processes of their own: who owns what, what a kill -9 at each point of a submit leaves
 * behind, and how they end when they are asked to (C3, C4, B4, I).
 */
import type { ChildProcess } from "node:child_process";
import { afterEach, describe, expect, it } from "vitest";
import type { Mode, PointName } from "../fault-points/points.ts";
import { ask } from "./facts.ts";
import { exitOf, openSurroundings, type Surroundings, type SurroundingsOptions } from "./gateways.ts";
import { until } from "./servers.ts";

let around: Surroundings;
afterEach(() => around.close());

async function surround(profile: object, options: Partial<SurroundingsOptions> = {}): Promise<Surroundings> {
  around = await openSurroundings({ profiles: [profile], ...options });
  return around;
}

const ownersOf = async (): Promise<string[]> =>
  (await around.connections("sup_1")).filter((it) => it.connected).map((it) => it.owner);

const untilShared = (count: number): Promise<unknown> =>
  until(
    "two processes share the connections",
    async () => {
      const owners = await ownersOf();
      return owners.length === count && new Set(owners).size === 2;
    },
    START_MS,
  );

/** Two processes compile and start at once, beside whatever else the machine is doing. */
const START_MS = 60_000;

/** No part more than once, and each of them. */
async function expectOnceEach(count: number): Promise<void> {
  const times = await around.timesByPart();
  expect([...times].filter(([, count]) => count !== 1)).toEqual([]);
  expect(times.size).toBe(count);
}

describe("two gateway processes for the same suppliers", () => {
  it("own each slot once, share commands and rate, and lose nothing when one is killed with -9", async () => {
    await surround({ connections: 4, window: 4, ratePerSecond: 60, responseTimeoutMs: 1_000 });
    const [one] = [around.spawnGateway(), around.spawnGateway()];
    await untilShared(4);
    expect(around.stats().connections).toBe(4);

    const shared = await around.texts(60);
    await around.untilAnswered(shared);
    await expectOnceEach(60);
    const takers = await ask(around.database, `SELECT DISTINCT split_part(owner, '/', 1) FROM takes`);
    expect(takers).toHaveLength(2);
    expect(around.stats().maxPerSecond).toBeLessThanOrEqual(60);

    const during = await around.texts(40);
    one?.kill("SIGKILL");
    const killedAt = performance.now();
    await until("one process has all connections", async () => {
      const owners = await ownersOf();
      return around.stats().connections === 4 && owners.length === 4 && new Set(owners).size === 1;
    });
    expect(performance.now() - killedAt).toBeLessThan(5_000);

    await until("what the dead one had written is unknown", async () => {
      await around.callUnknown(500);
      return (await around.pending("chn_demo_1")) === 0 && (await around.entries("chn_demo_1")) === 0;
    });
    const answers = await around.untilAnswered(during);
    const times = await around.timesByPart();
    expect([...times].filter(([, count]) => count > 1)).toEqual([]);
    // Written and read by the supplier, or taken by the dead one and unknown: nothing is left out.
    expect(times.size).toBeGreaterThanOrEqual(100 - (answers.get("unknown") ?? 0));
  });

  it("leave commands to the one that has a share of so low a rate that the other has none (B5)", async () => {
    await surround({ connections: 2, ratePerSecond: 1 });
    around.spawnGateway();
    around.spawnGateway();
    await untilShared(2);
    const texts = await around.texts(3);
    await around.untilAnswered(texts);
    await expectOnceEach(3);
    expect(around.stats().maxPerSecond).toBe(1);
  });

  it("leave their slots to each other evenly, however late the second one comes", async () => {
    await surround({ connections: 3 });
    around.spawnGateway();
    await around.untilConnected("sup_1", 3);
    const late = around.spawnGateway();
    await untilShared(3);

    late.kill("SIGTERM");
    expect(await exitOf(late)).toBe(0);
    await until("the first has all of them again", async () => {
      const owners = await ownersOf();
      return owners.length === 3 && new Set(owners).size === 1;
    });
  });
});

describe("a gateway killed with -9", () => {
  /** What the supplier has read of the one text, and how the take stands before anybody looks. */
  const POINTS: [PointName, Mode, { read: number; open: boolean; ends: string }][] = [
    ["command_read", "kill", { read: 0, open: false, ends: "accepted" }],
    ["take", "kill", { read: 0, open: false, ends: "accepted" }],
    ["take", "kill_after", { read: 0, open: true, ends: "unknown" }],
    ["half_frame_written", "kill", { read: 0, open: true, ends: "unknown" }],
    ["all_written", "kill", { read: 1, open: true, ends: "unknown" }],
    ["response_read", "kill", { read: 1, open: true, ends: "unknown" }],
    ["event_store", "kill", { read: 1, open: true, ends: "unknown" }],
    ["result_committed", "kill", { read: 1, open: false, ends: "accepted" }],
    ["entry_acknowledge", "kill_after", { read: 1, open: false, ends: "accepted" }],
  ];

  it.each(POINTS)(
    "at %s (%s) never writes twice and leaves nothing pending (C3, I)",
    async (point, mode, what) => {
      await surround({ connections: 1, responseTimeoutMs: 500 });
      const victim = around.spawnGateway({ point, mode });
      await around.untilConnected("sup_1", 1);
      const text = await around.text();
      expect(await exitOf(victim)).toBe("SIGKILL");
      expect(await around.witnessed()).toHaveLength(what.read);
      const takes = await around.takesOf(text);
      expect(takes.some((it) => it.answer === null)).toBe(what.open);

      around.spawnGateway();
      if (what.open) {
        await until("the next one has looked at it", async () => {
          return (await around.mostDeliveries("chn_demo_1")) > 1;
        });
        await until("the sweeper calls it unknown", async () => (await around.callUnknown(1_000)) > 0);
      }
      await around.untilEmpty("chn_demo_1");

      const written = await around.witnessed();
      expect(written).toHaveLength(what.ends === "accepted" ? 1 : what.read);
      expect(await around.takesOf(text)).toEqual([
        { part: 1, write_number: 1, kind: "write", answer: what.ends },
      ]);
      if (written.length > 0) {
        await until("its receipt is stored", async () => {
          const rows = await ask(around.database, `SELECT id FROM supplier_events WHERE kind = 'receipt'`);
          return rows.length > 0;
        });
      }
    },
  );
});

describe("a gateway that is asked to end", () => {
  it("takes nothing more, waits for the answers, commits them, and leaves the rest to others", async () => {
    await surround({ connections: 2, window: 4, ratePerSecond: 40 });
    const leaving = around.spawnGateway();
    await around.untilConnected("sup_1", 2);
    await around.disturb({ delayMs: 1_000 });
    const texts = await around.texts(60);
    await until("some are on their way", () => Promise.resolve(around.stats().submits >= 6));

    leaving.kill("SIGTERM");
    await until("it says that it is not to be planned for", async () => (await ownersOf()).length === 0);
    expect(await exitOf(leaving)).toBe(0);

    const read = around.stats().submits;
    expect(read).toBeLessThan(60);
    const rows = await ask<{ answer: string | null }>(around.database, `SELECT answer FROM takes`);
    expect(rows.map((it) => it.answer)).toEqual(Array.from({ length: read }, () => "accepted"));
    expect(around.stats().connections).toBe(0);

    await around.disturb({ delayMs: 0 });
    around.spawnGateway();
    await around.untilAnswered(texts);
    await around.untilEmpty("chn_demo_1");
    await expectOnceEach(60);
  });
});

describe("a gateway that hangs", () => {
  const signal = (child: ChildProcess, name: "SIGSTOP" | "SIGCONT"): boolean => child.kill(name);

  it("is not planned for within 10 s, and goes on where it was (B4)", async () => {
    await surround({ connections: 1, heartbeatIdleMs: 60_000 });
    const hung = around.spawnGateway();
    await around.untilConnected("sup_1", 1);
    signal(hung, "SIGSTOP");
    const stoppedAt = performance.now();
    await until("it counts as not connected", async () => (await ownersOf()).length === 0);
    expect(performance.now() - stoppedAt).toBeLessThan(12_000);
    const text = await around.text();
    signal(hung, "SIGCONT");
    await around.untilConnected("sup_1", 1);
    await around.untilAnswered([text]);
    await expectOnceEach(1);
  });

  it("ends its connection when another has its slot meanwhile, and does not write what it had taken", async () => {
    await surround({ connections: 1, responseTimeoutMs: 1_000 });
    const hung = around.spawnGateway();
    const [held] = await around.untilConnected("sup_1", 1);
    const other = around.spawnGateway();
    signal(hung, "SIGSTOP");
    await ask(
      around.database,
      `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND a.datname = current_database()`,
    );
    await until("the other has the slot", async () => {
      const owners = await ownersOf();
      return owners.length === 1 && owners[0] !== held?.owner;
    });
    expect(around.stats().connections).toBe(2);
    const texts = await around.texts(10);
    signal(hung, "SIGCONT");
    await until("one connection is left", () => Promise.resolve(around.stats().connections === 1));
    const [now] = await around.untilConnected("sup_1", 1);
    expect(now?.owner).not.toBe(held?.owner);
    await around.untilAnswered(texts);
    await expectOnceEach(10);
    other.kill("SIGKILL");
    await until("the one that hung takes over", async () => {
      const owners = await ownersOf();
      return owners[0] === held?.owner;
    });
  });
});
