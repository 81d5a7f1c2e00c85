/** What `npm start` runs: one copy of Waybill, its demo, and serving until it is told to stop. */
import path from "node:path";
import type { Copy } from "./copy.ts";
import { type DemoResult, runDemo } from "./demo.ts";
import { DEMO } from "./layout.ts";
import type { RunFile } from "./run-file.ts";
import { listenForStop } from "./stop-requests.ts";
import { type System, startSystem } from "./system.ts";
import { Trouble } from "./trouble.ts";

export interface Wanted extends Copy {
  demo: boolean;
  /** End after the demo messages, with a last line of JSON. */
  once: boolean;
}

/** @returns the exit code, once everything that was started has stopped */
export async function supervise(wanted: Wanted): Promise<number> {
  const { steps } = wanted;
  const stop = listenForStop();
  let system: System | undefined;
  let result: DemoResult | undefined;
  try {
    system = await startSystem(wanted, DEMO, stop);
    if (wanted.demo) result = await runDemo(system.run, steps, stop.signal);
    if (result?.trouble !== undefined && !wanted.once) steps.line(`\n${result.trouble}`);
    if (!wanted.once) await serveUntil(stop.requested, wanted, system.run);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    await system?.stop();
    stop.close();
  }
  return wanted.once ? lastWord(wanted, result) : 0;
}

async function serveUntil(requested: Promise<void>, { steps, home }: Copy, run: RunFile): Promise<void> {
  const addresses = [
    ["API and its docs", `${run.api}/docs`],
    ["console", run.console],
    ...(run.temporalUi === null ? [] : [["Temporal", run.temporalUi]]),
    ...run.suppliers.map(({ name, version, logUrl }) => [
      `${name} (CMPP ${version}), what it saw`,
      `${logUrl}/submits`,
    ]),
    ["all addresses and keys", path.join(home, "run.json")],
    ["logs", path.join(home, "logs")],
  ];
  steps.line();
  for (const [what = "", where = ""] of addresses) steps.line(`  ${what.padEnd(36)}${where}`);
  steps.line(`\nTry: npx waybill send --to 13800001234 --text "hello"      Ctrl-C stops everything.`);
  await requested;
}

function lastWord({ steps }: Copy, result: DemoResult | undefined): number {
  if (result === undefined) throw new Trouble("It was stopped before the demo messages were final.");
  if (result.trouble !== undefined) throw new Trouble(result.trouble);
  const { sent, delivered, webhooks, ms } = result;
  steps.line(JSON.stringify({ sent, delivered, webhooks, ms }));
  return 0;
}
