import { expect, it } from "vitest";
import { seldom } from "./seldom.ts";

it("says each kind at once, then once a second at most, with how many it stands for", () => {
  const said: [string, number][] = [];
  let now = 0;
  const log = seldom(
    (kind, count) => said.push([kind, count]),
    () => now,
  );
  log.say("malformed");
  log.say("unknown");
  for (let i = 0; i < 500; i++) log.say("malformed");
  now = 999;
  log.say("malformed");
  expect(said).toEqual([
    ["malformed", 1],
    ["unknown", 1],
  ]);
  now = 1_000;
  log.say("malformed");
  expect(said.at(-1)).toEqual(["malformed", 502]);
});
