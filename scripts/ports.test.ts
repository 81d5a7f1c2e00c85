import { expect, it } from "vitest";

/** Named in two steps: plain Node has no types, for it runs before anything is compiled. */
const PORTS: string = "./ports.mjs";
const { freePorts } = (await import(PORTS)) as {
  freePorts: () => (what: string) => Promise<number>;
};

it("gives ports that no outgoing connection can take before they are listened on, and none twice", async () => {
  const choose = freePorts();
  const ports = await Promise.all(Array.from({ length: 40 }, () => choose("a test")));
  expect(new Set(ports).size).toBe(40);
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(10_000);
    expect(port).toBeLessThan(32_000);
  }
});
