/**
 * Stored supplier events are folded and charged; a workflow is told only when a decision is due. It
 * decides nothing (D1, design §3).
 */
import type { Database } from "../db/client.ts";
import { foldEvents } from "../db/folding.ts";
import { atPoint } from "../fault-points/at-point.ts";
import type { Streams } from "../gateway-bridge/streams.ts";
import type { TemporalConfig } from "./config.ts";
import type { Metrics } from "./metrics.ts";
import { delay, type Log, type Loop, loop } from "./service.ts";
import type { Tells } from "./tells.ts";

/** After a wake-up: time for a few more events to come, so that they share a transaction. */
const GATHER_MS = 5;

export function createResults(
  deps: { database: Database; streams: Streams; tells: Tells; metrics: Metrics; log: Log },
  config: TemporalConfig["results"],
): Loop {
  return loop({
    name: "results",
    log: deps.log,
    async turn() {
      const batch = await atPoint("fold", () =>
        deps.database.transaction((tx) => atPoint("fold_uncommitted", () => foldEvents(tx, config.batch))),
      );
      if (batch.eventCount > 0) {
        deps.metrics.batchSize.observe({ step: "fold" }, batch.eventCount);
        deps.metrics.events.inc({ fate: "folded" }, batch.folded);
        deps.metrics.events.inc({ fate: "unmatched" }, batch.unmatched);
      }
      await deps.tells.tell(batch.due);
      return { did: batch.folded, full: batch.full };
    },
    async pause(signal) {
      await deps.streams.waitForWake("events", config.pollMs, signal);
      await delay(GATHER_MS, signal);
    },
  });
}
