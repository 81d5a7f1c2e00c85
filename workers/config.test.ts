import { describe, expect, it } from "vitest";
import { readConfig } from "./config.ts";

const needed = { DATABASE_URL: "postgres://localhost/waybill", REDIS_URL: "redis://localhost" };
const read = (more: Record<string, string> = {}) => readConfig({ ...needed, ...more });

describe("the configuration of a role", () => {
  it("has a default for everything but the servers", () => {
    expect(read()).toMatchObject({ apiPort: 7080, publication: "live", settlementPool: true });
    expect(read().temporal.coalesce.items).toBe(32);
  });

  it.each([
    ["no server", {}],
    ["a port that is none", { ...needed, WAYBILL_API_PORT: "99999" }],
    ["a flag that is neither", { ...needed, SEND_ROUTE_BATCH_ENABLED: "perhaps" }],
    ["a batch that is too large", { ...needed, SEND_ROUTE_BATCH_SIZE: "65" }],
  ])("refuses %s in a readable sentence", (_, env) => {
    expect(() => readConfig(env)).toThrow(/environment is not valid:\n/);
  });

  it("refuses a command that would go live and to the shadow (C5, H)", () => {
    const shadow = { SEND_SUBMIT_OUTBOX_SHADOW_ENABLED: "true" };
    expect(() => read(shadow)).toThrow(/never both/);
    expect(read({ ...shadow, SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED: "false" }).publication).toBe("shadow");
    expect(read({ SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED: "false" }).publication).toBe("paused");
  });

  it("sizes batches by the flags (H)", () => {
    expect(read({ SEND_ROUTE_BATCH_SIZE: "8" }).temporal.coalesce.items).toBe(8);
    expect(read({ SEND_ROUTE_BATCH_ENABLED: "false" }).temporal.coalesce.items).toBe(1);
  });
});
