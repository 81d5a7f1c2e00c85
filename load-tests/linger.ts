/** How often a decision came while its first workflow task was still open, where the worker counts that. */
import type { RunFile } from "../scripts/run-file.ts";

/** By what the metric's labels say. */
export type LingerCounts = Record<string, number>;

/** Null where the worker has no such metric. */
export async function readLinger(run: RunFile): Promise<LingerCounts | null> {
  const url = run.metrics["attempts"];
  if (url === undefined) return null;
  return lingerIn(await (await fetch(url)).text());
}

/** Lines of Prometheus' text format: `waybill_linger…_total{outcome="hit"} 12`. */
export function lingerIn(metrics: string): LingerCounts | null {
  const lines = metrics.split("\n").filter((line) => /^waybill_linger\w*_total[{ ]/.test(line));
  if (lines.length === 0) return null;
  return Object.fromEntries(
    lines.map((line) => {
      const [, labels = ""] = /\{(.*)\}/.exec(line) ?? [];
      const label = [...labels.matchAll(/="([^"]*)"/g)].map(([, value]) => value).join(" ");
      return [label, Number(line.slice(line.lastIndexOf(" ") + 1))];
    }),
  );
}

export function lingerSince(before: LingerCounts | null, after: LingerCounts | null): LingerCounts | null {
  if (after === null) return null;
  return Object.fromEntries(
    Object.entries(after).map(([label, count]) => [label, count - (before?.[label] ?? 0)]),
  );
}
