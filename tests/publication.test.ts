/** Publication paused, in shadow, and live again: nothing is lost, and each command goes out once (C5). */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Chain, startChain } from "./chain.ts";

let chain: Chain;
beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());

const publication = (mode: string) => chain.call("PUT", "/ops/v1/publication", { mode });
const differences = async () => (await chain.call("GET", "/ops/v1/reconcile")).body["differences"];

it.each(["paused", "shadow"])("what was queued while %s goes out once it is live", async (mode) => {
  expect((await publication(mode)).status).toBe(200);
  const prefix = mode === "paused" ? "130" : "131";
  const numbers = Array.from({ length: 5 }, (_, index) => `${prefix}0000000${index}`);
  const ids = await Promise.all(numbers.map((to) => chain.send(to)));
  for (const id of ids) {
    await chain.untilStory(id, "it is queued", (it) => it.status === "queued");
  }
  expect(await differences()).toEqual([]);
  for (const to of numbers) expect(await chain.witnessed(to)).toEqual([]);

  expect((await publication("live")).status).toBe(200);
  for (const id of ids) expect((await chain.untilFinal(id)).status).toBe("delivered");
  for (const to of numbers) expect(await chain.witnessed(to)).toHaveLength(1);
  expect(await differences()).toEqual([]);
});
