/** What becomes of events while PostgreSQL is not there: nobody listens at the address used here. */
import { afterAll, describe, expect, it, vi } from "vitest";
import { openDatabase } from "../db/client.ts";
import { newDataKeys, parseDataKeys } from "../db/data-keys.ts";
import type { SupplierEvent } from "../db/events.ts";
import { openVault } from "../db/vault.ts";
import { createEventRecorder } from "./events.ts";

const nothing = (): void => undefined;
const vault = openVault(parseDataKeys(newDataKeys()));
const database = openDatabase("postgres://nobody@127.0.0.1:1/nothing", "gateway", 1, vault);
afterAll(() => database.close());

/** `warn` hears of each try that found no database. */
const recorder = (warn: () => void = nothing) =>
  createEventRecorder({
    database,
    streams: { wake: nothing },
    log: { info: nothing, warn, error: nothing },
  });

const event = (kind: SupplierEvent["kind"], key: number): SupplierEvent => ({
  key: `${kind}:${key}`,
  kind,
  supplierId: "sup_1",
  slot: 0,
  epoch: 1n,
});

/** What became of a promise, and undefined while nothing did. */
function fate(promise: Promise<void>): () => string | undefined {
  let what: string | undefined;
  promise.then(
    () => (what = "committed"),
    () => (what = "rejected"),
  );
  return () => what;
}

describe("events while PostgreSQL is away", () => {
  it("are kept, and given up when the process ends, which does not wait for ever (D2)", async () => {
    const failed = vi.fn<() => void>();
    const events = recorder(failed);
    const kept = fate(events.record(event("response", 1)));
    await vi.waitFor(() => expect(failed).toHaveBeenCalledTimes(2), 5_000);
    expect(kept()).toBeUndefined();

    const since = performance.now();
    await events.drain(300);
    expect(performance.now() - since).toBeLessThan(1_000);
    await expect(events.record(event("response", 2))).rejects.toThrow();
  });

  it("are turned away beyond a bound where their supplier says them again, and no first answer is", async () => {
    const events = recorder();
    const kept = Array.from({ length: 10_100 }, (_, key) => fate(events.record(event("receipt", key))));
    const answer = fate(events.record(event("response", 1)));
    // What comes late may come again without end; another supplier's line is its own.
    const late = fate(events.record(event("response", 1), true));
    const another = fate(events.record({ ...event("receipt", 1), supplierId: "sup_2" }));
    const turnedAway = (): number => kept.filter((what) => what() === "rejected").length;
    await vi.waitFor(() => expect(turnedAway()).toBe(100));
    await vi.waitFor(() => expect(late()).toBe("rejected"));
    expect([answer(), another()]).toEqual([undefined, undefined]);
    await events.drain(1);
  });
});
