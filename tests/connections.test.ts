/** Connection slots: one owner each, told apart by its epoch (B4, design §6). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Database } from "../db/client.ts";
import { beginEpoch, heartbeat, readSuppliers, SlotLocks, type SlotState } from "../db/connections.ts";
import { readCandidates } from "../db/planning.ts";
import { ask, connect, only, openFacts } from "./facts.ts";
import { freshDatabase, until } from "./servers.ts";

let url: string;
let database: Database;

beforeAll(async () => {
  url = await freshDatabase();
  database = await openFacts(url);
});
afterAll(() => database.close());

const slotOf = (slot: number) =>
  only<{ owner: string; epoch: bigint; connected: boolean }>(
    database,
    `SELECT owner, epoch, connected FROM connections WHERE supplier_id = 'sup_2' AND slot = $1`,
    [slot],
  );

const up = (slot: number, epoch: bigint): SlotState => ({
  supplierId: "sup_2",
  slot,
  epoch,
  connected: true,
  windowInUse: 3,
  lastError: null,
});

describe("a slot", () => {
  it("begins a new epoch with each owner, and is down until that one connects", async () => {
    const first = await beginEpoch(database, "sup_2", 5, "a");
    await heartbeat(database, "a", [up(5, first)]);
    expect(await slotOf(5)).toEqual({ owner: "a", epoch: first, connected: true });

    const second = await beginEpoch(database, "sup_2", 5, "b");

    expect(second).toBe(first + 1n);
    expect(await slotOf(5)).toEqual({ owner: "b", epoch: second, connected: false });
  });

  it("is not kept up by an owner that lost it, nor by an epoch that is over", async () => {
    const first = await beginEpoch(database, "sup_2", 6, "a");
    const second = await beginEpoch(database, "sup_2", 6, "b");

    await heartbeat(database, "a", [up(6, first)]);
    await heartbeat(database, "a", [up(6, second)]);
    await heartbeat(database, "b", [up(6, first)]);

    expect((await slotOf(6)).connected).toBe(false);
  });

  it("counts an epoch for each of several that begin at once", async () => {
    const epochs = await Promise.all(["a", "b", "c"].map((owner) => beginEpoch(database, "sup_2", 7, owner)));

    expect(new Set(epochs).size).toBe(3);
    expect((await slotOf(7)).epoch).toBe(3n);
  });
});

describe("a slot's lock", () => {
  it("is one process's, until that one's connection ends", async () => {
    const [one, other] = [await SlotLocks.open(url), await SlotLocks.open(url)];

    expect(await Promise.all([one.tryLock("sup_2", 1), one.tryLock("sup_2", 2)])).toEqual([true, true]);
    expect(await other.tryLock("sup_2", 1)).toBe(false);
    expect(await other.tryLock("sup_3", 1)).toBe(true);

    await one.close();
    await until("the lock is free", () => other.tryLock("sup_2", 1));
    await other.close();
  });

  it("is known to be lost when its connection is", async () => {
    const locks = await SlotLocks.open(url);
    await locks.tryLock("sup_2", 9);
    expect(locks.lost).toBe(false);

    await ask(
      database,
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    );

    await until("the loss is noticed", () => Promise.resolve(locks.lost));
    await expect(locks.check()).rejects.toThrow();
  });
});

describe("what planning sees of connections (B4)", () => {
  const connectedOf = async (channelId: string): Promise<boolean | undefined> => {
    const found = await readCandidates(database, [{ groupId: "grp_demo", signatureId: "sig_demo" }]);
    return [...found.values()].flat().find((it) => it.channelId === channelId)?.connected;
  };

  it("is connected while one connection is up and its heartbeat is fresh", async () => {
    expect(await connectedOf("chn_demo_3")).toBe(true);

    await ask(
      database,
      `UPDATE connections SET heartbeat_at = now() - interval '11 seconds' WHERE supplier_id = 'sup_3'`,
    );
    expect(await connectedOf("chn_demo_3")).toBe(false);

    await connect(database, "sup_3");
    expect(await connectedOf("chn_demo_3")).toBe(true);
  });

  it("lists suppliers with their channels, disabled ones too", async () => {
    await ask(database, `UPDATE suppliers SET active = false WHERE id = 'sup_3'`);

    expect((await readSuppliers(database)).map((it) => [it.id, it.channelIds])).toEqual([
      ["sup_1", ["chn_demo_1"]],
      ["sup_2", ["chn_demo_2"]],
      ["sup_3", ["chn_demo_3"]],
    ]);
  });
});
