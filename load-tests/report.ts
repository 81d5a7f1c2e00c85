/** A load run as one HTML file that needs nothing else: figures, plots, and every clause of every tier. */
import { rounded } from "./latency.ts";
import type { LoadSummary } from "./run.ts";
import type { TierResult } from "./tier.ts";

export const reportOf = (results: readonly TierResult[], summary: LoadSummary): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Waybill load run</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Waybill load run</h1>
<p>${escaped(conditionsOf(summary))}</p>
${verdictOf(summary)}
<h2>Tiers</h2>
${figures(results)}
<div class="plots">
${plot("First submits a second, offered and completed", results, RATE_SERIES)}
${plot("Accepting a message, ms", results, ACCEPT_SERIES)}
${plot("Stages, median ms", results, STAGE_SERIES)}
${cpuPlot(results)}
</div>
<h2>Clauses</h2>
${clauses(results)}
</body>
</html>
`;

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --ok: #1a7f37; --bad: #cf222e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; }
.ok { color: var(--ok); } .bad { color: var(--bad); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; margin: 1rem 0; }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.key { font-size: .85rem; } .key span { display: inline-block; margin-right: .75rem; white-space: nowrap; }
.key i { display: inline-block; width: .75rem; height: .75rem; margin-right: .25rem; vertical-align: -1px; }
`;

/** Told apart also by who sees no difference between red and green. */
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#b8a000"];

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

function conditionsOf({ conditions: it }: LoadSummary): string {
  const delays = it.receiptDelaysMs.map((ms) => `${ms / 1_000} s`).join(", ");
  return `Node ${it.node}, profile ${it.profile}, receipts after ${delays}, fates ${it.fates}, ${it.longShare * 100} % long texts.`;
}

function verdictOf({ failed, passed, saturated, floor, ratioToFloor }: LoadSummary): string {
  const verdict =
    failed.length === 0
      ? `<p class="ok">All ${passed.length} tiers passed.</p>`
      : `<p class="bad">Did not pass: ${escaped(failed.join(", "))}.</p>`;
  if (saturated === null || floor === null) return verdict;
  return `${verdict}
<p>With 200 messages in flight it completes <strong>${saturated.perSecond} a second</strong> at
${saturated.cpuMsPerMessage.total} CPU-ms a message (foreign CPU ${saturated.foreignCpuPercent} %).
Temporal alone does ${floor.perSecond} a second told by updates, and ${floor.lingering.perSecond} lingering:
the ratio to the former is ${ratioToFloor}.</p>`;
}

const COLUMNS: readonly [string, (it: TierResult) => string][] = [
  ["tier", (it) => escaped(it.tier)],
  [
    "verdict",
    (it) => (it.passed ? '<span class="ok">passed</span>' : '<span class="bad">did not pass</span>'),
  ],
  ["sent", (it) => String(it.sent)],
  ["accepted/s", (it) => String(it.rates.accepted)],
  ["first submits/s", (it) => String(it.rates.firstSubmits)],
  ["all submits/s", (it) => String(it.rates.allSubmits)],
  ["delivered/s", (it) => String(it.rates.delivered)],
  ["segment receipts/s", (it) => String(it.rates.segmentReceipts)],
  ["accept p50/p95/p99/max ms", ({ acceptMs: it }) => [it.p50, it.p95, it.p99, it.max].join(" / ")],
  ["accept to submit p50/p99 ms", ({ acceptToSubmitMs: it }) => `${it.p50} / ${it.p99}`],
  ["receipt to webhook p50/p99 ms", ({ receiptToWebhookMs: it }) => `${it.p50} / ${it.p99}`],
  ["drain s", (it) => String(rounded(it.drainSeconds))],
  ["CPU-ms a message", (it) => String(it.cpuMsPerMessage.total)],
  ["peak MiB", (it) => String(it.peakMemoryMib.total)],
  ["events / tasks", ({ history: it }) => `${it.events} / ${it.workflowTasks}`],
  [
    "linger",
    ({ linger: it }) =>
      escaped(
        it === null
          ? ""
          : Object.entries(it)
              .map((pair) => pair.join(" "))
              .join(", "),
      ),
  ],
  ["foreign CPU", (it) => `${it.foreignCpuPercent} %`],
  ["held by", (it) => escaped(it.heldBy ?? "")],
];

const figures = (results: readonly TierResult[]): string => `<div class="wide"><table>
<tr>${COLUMNS.map(([title]) => `<th>${title}</th>`).join("")}</tr>
${results.map((it) => `<tr>${COLUMNS.map(([, cell]) => `<td>${cell(it)}</td>`).join("")}</tr>`).join("\n")}
</table></div>`;

function clauses(results: readonly TierResult[]): string {
  const names = [...new Set(results.flatMap(({ checks }) => Object.keys(checks)))];
  const mark = (holds: boolean | undefined): string =>
    holds === undefined
      ? ""
      : holds
        ? '<span class="ok">holds</span>'
        : '<span class="bad">does not hold</span>';
  const findings = results.flatMap(({ tier, findings: found }) => found.map((it) => `tier ${tier}: ${it}`));
  return `<ul>${findings.map((it) => `<li class="bad">${escaped(it)}</li>`).join("")}</ul>
<div class="wide"><table>
<tr><th>clause</th>${results.map(({ tier }) => `<th>${escaped(tier)}</th>`).join("")}</tr>
${names.map((name) => `<tr><td>${escaped(name)}</td>${results.map(({ checks }) => `<td>${mark(checks[name])}</td>`).join("")}</tr>`).join("\n")}
</table></div>`;
}

// ---- plots --------------------------------------------------------------------------------------

type Series = readonly [name: string, value: (it: TierResult) => number];

const RATE_SERIES: readonly Series[] = [
  ["offered", (it) => it.nominalRate],
  ["accepted", (it) => it.rates.accepted],
  ["first submits", (it) => it.rates.firstSubmits],
  ["delivered", (it) => it.rates.delivered],
];
const ACCEPT_SERIES: readonly Series[] = [
  ["p50", (it) => it.acceptMs.p50],
  ["p95", (it) => it.acceptMs.p95],
  ["p99", (it) => it.acceptMs.p99],
];
const STAGE_SERIES: readonly Series[] = [
  ["accept to submit", (it) => it.acceptToSubmitMs.p50],
  ["receipt to webhook", (it) => it.receiptToWebhookMs.p50],
];

const WIDTH = 420;
const HEIGHT = 220;
const MARGIN = { left: 44, right: 8, top: 10, bottom: 24 } as const;
const TICKS = 4;

/** Bars beside each other, a group a tier. */
function plot(title: string, results: readonly TierResult[], series: readonly Series[]): string {
  const most = Math.max(1, ...results.flatMap((it) => series.map(([, value]) => value(it))));
  const bars = results.flatMap((it, tier) =>
    series.map(([name, value], index) => {
      const width = (groupWidth(results) * 0.8) / series.length;
      const x = groupX(results, tier) + groupWidth(results) * 0.1 + index * width;
      return bar(x, width, 0, value(it), most, index, `${it.tier}, ${name}: ${value(it)}`);
    }),
  );
  return framed(
    title,
    results,
    most,
    bars,
    series.map(([name]) => name),
  );
}

/** One bar a tier, a piece a process. */
function cpuPlot(results: readonly TierResult[]): string {
  const names = [...new Set(results.flatMap((it) => Object.keys(it.cpuMsPerMessage.byProcess)))];
  const most = Math.max(1, ...results.map((it) => it.cpuMsPerMessage.total));
  const bars = results.flatMap((it, tier) => {
    let below = 0;
    return names.map((name, index) => {
      const value = it.cpuMsPerMessage.byProcess[name] ?? 0;
      below += value;
      const x = groupX(results, tier) + groupWidth(results) * 0.2;
      const width = groupWidth(results) * 0.6;
      return bar(x, width, below - value, value, most, index, `${it.tier}, ${name}: ${value} ms`);
    });
  });
  return framed("CPU-ms a message by process", results, most, bars, names);
}

const groupWidth = (results: readonly unknown[]): number =>
  (WIDTH - MARGIN.left - MARGIN.right) / Math.max(1, results.length);

const groupX = (results: readonly unknown[], tier: number): number =>
  MARGIN.left + tier * groupWidth(results);

const yOf = (value: number, most: number): number =>
  HEIGHT - MARGIN.bottom - (value / most) * (HEIGHT - MARGIN.top - MARGIN.bottom);

function bar(
  x: number,
  width: number,
  from: number,
  value: number,
  most: number,
  colour: number,
  title: string,
): string {
  const [top, bottom] = [yOf(from + value, most), yOf(from, most)];
  return `<rect x="${x.toFixed(1)}" y="${top.toFixed(1)}" width="${width.toFixed(1)}" height="${(bottom - top).toFixed(1)}" fill="${colourOf(colour)}"><title>${escaped(title)}</title></rect>`;
}

const colourOf = (index: number): string => COLOURS[index % COLOURS.length] ?? "currentColor";

function framed(
  title: string,
  results: readonly TierResult[],
  most: number,
  bars: readonly string[],
  names: readonly string[],
): string {
  const lines = Array.from({ length: TICKS + 1 }, (_, tick) => {
    const value = (most * tick) / TICKS;
    const y = yOf(value, most).toFixed(1);
    return `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y}" y2="${y}" stroke="currentColor" stroke-opacity=".15"/><text x="${MARGIN.left - 4}" y="${y}" text-anchor="end" dominant-baseline="middle">${rounded(value)}</text>`;
  });
  const labels = results.map(
    ({ tier }, index) =>
      `<text x="${(groupX(results, index) + groupWidth(results) / 2).toFixed(1)}" y="${HEIGHT - 8}" text-anchor="middle">${escaped(tier)}</text>`,
  );
  const key = names.map(
    (name, index) => `<span><i style="background:${colourOf(index)}"></i>${escaped(name)}</span>`,
  );
  return `<figure><figcaption>${escaped(title)}</figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(title)}">${lines.join("")}${bars.join("")}${labels.join("")}</svg>
<div class="key">${key.join("")}</div></figure>`;
}
