/**
 * How long a running system takes to accept a message, at a fixed rate whatever the answers do (open loop),
 * and whether all that it accepted comes to its end:
 *
 *   npx tsx load-tests/accept-latency.ts [--rate 20] [--seconds 15] [--run .waybill/run.json]
 *
 * Sends to the simulated suppliers of `npm start` alone. Prints one line of JSON.
 */
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    rate: { type: "string", default: "20" },
    seconds: { type: "string", default: "15" },
    run: { type: "string", default: ".waybill/run.json" },
  },
});
const rate = Number(values.rate);
const count = Math.round(rate * Number(values.seconds));
const DRAIN_MS = 120_000;
const UNFINISHED = ["accepted", "queued", "sent"];

interface RunFile {
  api: string;
  apiKey: string;
}
const run = JSON.parse(await readFile(values.run, "utf8")) as RunFile;
const headers = { authorization: `Bearer ${run.apiKey}`, "content-type": "application/json" };

const latencies: number[] = [];
const accepted: string[] = [];
let refused = 0;
const begun = performance.now();
const begunAt = new Date().toISOString();
const calls: Promise<void>[] = [];
for (let i = 0; i < count; i++) {
  await until(begun + (i * 1_000) / rate);
  calls.push(submit(i));
}
await Promise.all(calls);
const statuses = await drained();
process.stdout.write(
  `${JSON.stringify({ rate, sent: count, accepted: accepted.length, refused, acceptMs: percentiles(), ...statuses })}\n`,
);
process.exitCode = statuses.unfinished === 0 && refused === 0 ? 0 : 1;

async function submit(i: number): Promise<void> {
  const to = `138${String(Date.now() % 10_000).padStart(4, "0")}${String(i % 10_000).padStart(4, "0")}`;
  // Latency counts from when the request was due, so that a stalled generator hides nothing.
  const dueAt = begun + (i * 1_000) / rate;
  const body = JSON.stringify({ to: to.replace(/^(...)9999/, "$18888"), text: `hello ${i}` });
  const response = await fetch(`${run.api}/v1/messages`, { method: "POST", headers, body });
  latencies.push(performance.now() - dueAt);
  const answer = (await response.json()) as { id: string };
  if (response.status === 202) accepted.push(answer.id);
  else refused++;
}

/** Asked by list and seldom: looking at each message would be more work than sending it. */
async function drained(): Promise<{ statuses: Record<string, number>; drainMs: number; unfinished: number }> {
  const from = performance.now();
  for (;;) {
    const statuses = await countByStatus();
    const unfinished = UNFINISHED.reduce((sum, status) => sum + (statuses[status] ?? 0), 0);
    const drainMs = Math.round(performance.now() - from);
    if (unfinished === 0 || drainMs > DRAIN_MS) return { statuses, drainMs, unfinished };
    await until(performance.now() + 500);
  }
}

interface Page {
  messages: { id: string; status: string }[];
  nextCursor: string | null;
}

async function countByStatus(): Promise<Record<string, number>> {
  const ours = new Set(accepted);
  const statuses: Record<string, number> = {};
  let cursor: string | null = "";
  while (cursor !== null) {
    const query = new URLSearchParams({ since: begunAt, limit: "200" });
    if (cursor !== "") query.set("cursor", cursor);
    const response = await fetch(`${run.api}/v1/messages?${query.toString()}`, { headers });
    const page = (await response.json()) as Page;
    for (const { id, status } of page.messages) {
      if (ours.has(id)) statuses[status] = (statuses[status] ?? 0) + 1;
    }
    cursor = page.nextCursor;
  }
  return statuses;
}

function percentiles(): Record<string, number> {
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 10) / 10;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

function until(at: number): Promise<void> {
  const left = at - performance.now();
  return left <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, left));
}
