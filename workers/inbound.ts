/** Parts of inbound texts become texts with an owner, and the owner is told (cmpp §8, §13). */
import { randomBytes } from "node:crypto";
import type { Database } from "../db/client.ts";
import { joinInbound } from "../db/inbound.ts";
import { inboundIdFrom } from "../domain/ids.ts";
import type { Metrics } from "./metrics.ts";
import { every, type Log, type Loop, loop } from "./service.ts";

/** People wait for no answer to what they wrote, so nothing wakes this loop. */
const EVERY_MS = 500;
const BATCH = 100;

export function createInbound(deps: { database: Database; metrics: Metrics; log: Log }): Loop {
  return loop({
    name: "inbound",
    log: deps.log,
    pause: every(EVERY_MS),
    async turn() {
      const joined = await deps.database.transaction((tx) =>
        joinInbound(tx, BATCH, () => inboundIdFrom(Date.now(), randomBytes(10))),
      );
      deps.metrics.events.inc({ fate: "inbound" }, joined.texts);
      deps.metrics.events.inc({ fate: "inbound_unmatched" }, joined.unmatched);
      return { did: joined.texts, full: joined.partCount >= BATCH };
    },
  });
}
