/** Makes and drops slices and purges what is old, in the role `sweeper`. */
import type { Database } from "../db/client.ts";
import { retain, type RetentionReport } from "../db/retention.ts";
import { analyzeGrown } from "../db/table-statistics.ts";
import type { TemporalConfig } from "./config.ts";
import type { Metrics } from "./metrics.ts";
import { every, type Log, type Loop, loop } from "./service.ts";

interface Deps {
  database: Database;
  databaseUrl: string;
  metrics: Metrics;
  log: Log;
}

/** A loop says that it lives far more often than there is something to do. */
const LOOK_EVERY_MS = 5_000;
const AUTHOR = { actor: "sweeper", note: undefined };

export function createRetention(deps: Deps, config: TemporalConfig["retention"]): Loop {
  let nextAt = 0;
  return loop({
    name: "retention",
    log: deps.log,
    pause: every(Math.min(LOOK_EVERY_MS, config.everyMs)),
    async turn() {
      if (performance.now() < nextAt) return { did: 0, full: false };
      const report = await retain(deps.database, config, AUTHOR);
      tell(deps, report);
      const analyzed = await analyzeGrown(deps.database, deps.databaseUrl);
      if (analyzed.length > 0) deps.log.info({ tables: analyzed }, "statistics were renewed");
      if (!report.more) nextAt = performance.now() + config.everyMs;
      return { did: 1, full: report.more };
    },
  });
}

function tell({ metrics, log }: Deps, { added, past, purged, withoutSlice }: RetentionReport): void {
  const dropped = past.filter((it) => it.outcome === "dropped");
  const kept = past.filter((it) => it.outcome === "waits" || it.outcome === "busy");
  for (const { content } of dropped) metrics.retired.inc({ what: `slice_${content}` });
  for (const [what, count] of Object.entries(purged)) if (count > 0) metrics.retired.inc({ what }, count);
  metrics.waitingSlices.set(kept.length);
  if (added > 0) log.info({ added }, "slices were made ahead of time");
  for (const { content, name } of dropped) log.info({ content, name }, "a slice was dropped");
  for (const { content, name, outcome, open } of kept) {
    log.warn({ content, name, outcome, open }, "a slice past its time is kept");
  }
  if (withoutSlice > 0) log.warn({ rows: withoutSlice }, "rows lie outside of every slice");
}
