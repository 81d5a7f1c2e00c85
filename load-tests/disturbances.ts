/** What operators do while messages are under way: things are switched off, and on again a little later. */
import type { Call } from "./calls.ts";

const DEMO = [
  "channels/chn_demo_1",
  "channels/chn_demo_2",
  "filings/fil_demo_1",
  "filings/fil_demo_3",
  "applications/app_demo",
] as const;

/** Any of these may happen to any message meanwhile: refused, without a route, or ended by its last attempt. */
export const DISTURBED = ["refused", "failed", "undelivered"] as const;

/** Switches one thing at a time until it is told to stop; whatever is off then is on again. */
export function startDisturbing(call: Call, draw: () => number): { stop: () => Promise<number> } {
  let stopping = false;
  const running = (async () => {
    let count = 0;
    while (!stopping) {
      const what = DEMO[Math.floor(draw() * DEMO.length)] ?? DEMO[0];
      await call("PATCH", `/ops/v1/${what}`, { active: false });
      await pause(300 + draw() * 1_500);
      await call("PATCH", `/ops/v1/${what}`, { active: true });
      await pause(300 + draw() * 1_500);
      count++;
    }
    return count;
  })();
  return {
    stop: () => {
      stopping = true;
      return running;
    },
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
