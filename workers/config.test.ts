import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { newDataKeys } from "../db/data-keys.ts";
import { readConfig } from "./config.ts";

const needed = {
  DATABASE_URL: "postgres://localhost/waybill",
  REDIS_URL: "redis://localhost",
  WAYBILL_DATA_KEYS: newDataKeys(),
};
const read = (more: Record<string, string> = {}) => readConfig({ ...needed, ...more });

const started = (publish: string, shadow: string) => () =>
  read({ SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED: publish, SEND_SUBMIT_OUTBOX_SHADOW_ENABLED: shadow });

describe("the configuration of a role", () => {
  it("has a default for everything but the servers", () => {
    expect(read()).toMatchObject({ apiPort: 7080, publication: { mode: "live" }, settlementPool: true });
    expect(read().temporal.coalesce.items).toBe(32);
  });

  it.each([
    ["no server", {}],
    ["a port that is none", { ...needed, WAYBILL_API_PORT: "99999" }],
    ["an application that is none", { ...needed, SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED: "app_a, b" }],
    ["a flag that is neither", { ...needed, SEND_ROUTE_BATCH_ENABLED: "perhaps" }],
    ["a batch that is too large", { ...needed, SEND_ROUTE_BATCH_SIZE: "65" }],
  ])("refuses %s in a readable sentence", (_, env) => {
    expect(() => readConfig(env)).toThrow(/environment is not valid:\n/);
  });

  it("refuses to start without data keys, and says how to get them", () => {
    const { WAYBILL_DATA_KEYS: _, ...keyless } = needed;
    expect(() => readConfig(keyless)).toThrow(/set WAYBILL_DATA_KEYS_FILE .* `waybill keys new`/);
  });

  it("takes the data keys from one place, and quotes none where they are wrong", () => {
    const file = fileURLToPath(import.meta.url);
    expect(() => read({ WAYBILL_DATA_KEYS_FILE: file })).toThrow(/which one counts/);
    const wrong = { WAYBILL_DATA_KEYS: `${newDataKeys()}data:c2VjcmV0` };
    expect(() => read(wrong)).toThrow("data key 3 is not search: or data: with 32 bytes in base64 behind it");
  });

  it("refuses a command that would go live and to the shadow (C5, H)", () => {
    const shadow = { SEND_SUBMIT_OUTBOX_SHADOW_ENABLED: "true" };
    expect(() => read(shadow)).toThrow(/never both/);
    expect(started("app_a,app_b", "app_c,app_b")).toThrow(/on for app_b: .*never both/);
  });

  it.each([
    ["true", "false", "live", {}],
    ["false", "false", "paused", {}],
    ["false", "true", "shadow", {}],
    ["app_a", "false", "paused", { app_a: "live" }],
    ["app_a,app_b", "true", "shadow", { app_a: "live", app_b: "live" }],
    ["true", "app_a", "live", { app_a: "shadow" }],
    ["app_a", "app_b", "paused", { app_a: "live", app_b: "shadow" }],
  ])("starts publication with publish %s and shadow %s as %s and %o (H)", (publish, shadow, mode, some) => {
    const { publication } = started(publish, shadow)();
    expect(publication.mode).toBe(mode);
    expect(Object.fromEntries(publication.applications)).toEqual(some);
  });

  it("sizes batches by the flags (H)", () => {
    expect(read({ SEND_ROUTE_BATCH_SIZE: "8" }).temporal.coalesce.items).toBe(8);
    expect(read({ SEND_ROUTE_BATCH_ENABLED: "false" }).temporal.coalesce.items).toBe(1);
  });
});
