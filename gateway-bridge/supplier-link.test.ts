import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SupplierRow } from "../db/connections.ts";
import { SupplierLink } from "./supplier-link.ts";

const PROFILE = { host: "127.0.0.1", port: 7890, version: "3.0", spId: "900001", connections: 3 };
const row = (profile: object = {}, more: Partial<SupplierRow> = {}): SupplierRow => ({
  id: "sup_1",
  name: "one",
  secret: "secret",
  profile: { ...PROFILE, ...profile },
  channelIds: ["chn_1"],
  ...more,
});

/** Permits that can be had by whoever waits a second, which is how long what is added counts as used. */
function share(link: SupplierLink): number {
  vi.advanceTimersByTime(1_100);
  let count = 0;
  for (const until = performance.now() + 1_000; performance.now() < until; vi.advanceTimersByTime(5)) {
    for (let i = link.pace.reserve(100); i > 0; i--, count++) link.pace.spend();
  }
  return count;
}

describe("an edit of a supplier", () => {
  it.each([
    ["the port", row({ port: 7891 })],
    ["the window", row({ window: 4 })],
    ["the secret", row({}, { secret: "another" })],
  ])("of %s asks for new connections", (_, edited) => {
    expect(new SupplierLink(row()).edit(edited)).toBe("renew_connections");
  });

  it.each([
    ["nothing", row()],
    ["the rate", row({ ratePerSecond: 7 })],
    ["what its codes mean", row({ throttleResults: [8, 77], stats: { "MK:0000": "failed" } })],
    ["its channels", row({}, { channelIds: ["chn_1", "chn_2"] })],
  ])("of %s leaves connections as they are, and counts at once", (_, edited) => {
    const link = new SupplierLink(row());
    expect(link.edit(edited)).toBe("nothing");
    expect(link.channelIds).toEqual(edited.channelIds);
    expect(link.supplier?.profile).toMatchObject(edited.profile as object);
  });

  it("that is not valid is refused by the names of its fields, and the old profile stays", () => {
    const link = new SupplierLink(row());
    expect(link.edit(row({ port: 99_999, ratePerSecond: "fast" }))).toBe("nothing");
    expect(link.refusal).toBe("profile_invalid: port, ratePerSecond");
    expect(link.supplier?.profile.port).toBe(7890);

    link.edit(row());
    expect(link.refusal).toBeNull();
  });

  it("makes the first valid profile count, where there was none", () => {
    const link = new SupplierLink(row({ port: 0 }));
    expect([link.supplier, link.connections]).toEqual([undefined, 1]);
    expect(link.edit(row())).toBe("nothing");
    expect(link.connections).toBe(3);
  });
});

describe("a process's share of an account's rate (B5)", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("is that of its slots, and the shares of all slots are the whole rate", () => {
    const slots = [[0], [1], [2], [0, 1, 2]];
    const links = slots.map((owned) => {
      const link = new SupplierLink(row({ ratePerSecond: 10 }));
      for (const slot of owned) link.own(slot);
      return link;
    });
    expect(links.map(share)).toEqual([3, 3, 4, 10]);
  });

  it("goes with the slot", () => {
    const link = new SupplierLink(row({ ratePerSecond: 10 }));
    for (const slot of [0, 1, 2]) link.own(slot);
    link.disown(2);
    expect(share(link)).toBe(6);
  });
});
