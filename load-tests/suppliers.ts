/** The simulated suppliers as outside witnesses: what they read off the wire and what they sent. */
import type { RunFile } from "../scripts/run-file.ts";
import type { WitnessedSubmit } from "./verdict.ts";

export interface WitnessedReceipt {
  /** Epoch milliseconds. */
  at: number;
  to: string;
}

/** Submits to the given numbers, of all suppliers, in the order of each. */
export async function readSubmits(run: RunFile, numbers: ReadonlySet<string>): Promise<WitnessedSubmit[]> {
  const found = await readAll<{ at: string; to: string; part: number; result: number | null }>(
    run,
    "submits",
  );
  return found.flatMap(({ supplier, at, to, part, result }) =>
    numbers.has(to) ? [{ at: Date.parse(at), supplier, to, part, result }] : [],
  );
}

export async function readReceipts(run: RunFile, numbers: ReadonlySet<string>): Promise<WitnessedReceipt[]> {
  const found = await readAll<{ at: string; to: string }>(run, "receipts");
  return found.flatMap(({ at, to }) => (numbers.has(to) ? [{ at: Date.parse(at), to }] : []));
}

export interface SupplierTotals {
  /** Suppliers with a connection that is logged in. */
  connected: number;
  submits: number;
  rateViolations: number;
  windowViolations: number;
}

export async function supplierTotals(run: RunFile): Promise<SupplierTotals> {
  const all = await Promise.all(
    run.suppliers.map(
      ({ logUrl }) =>
        json(`${logUrl}/stats`) as Promise<Omit<SupplierTotals, "connected"> & { connections: number }>,
    ),
  );
  const sum = (of: (it: (typeof all)[number]) => number): number =>
    all.reduce((total, it) => total + of(it), 0);
  return {
    connected: all.filter(({ connections }) => connections > 0).length,
    submits: sum((it) => it.submits),
    rateViolations: sum((it) => it.rateViolations),
    windowViolations: sum((it) => it.windowViolations),
  };
}

/** Disturbs one supplier, for a run beside hostile neighbours (interfaces §6). */
export async function disturb(run: RunFile, index: number, faults: object): Promise<void> {
  const answer = await fetch(`${run.suppliers[index]?.logUrl}/faults`, {
    method: "POST",
    body: JSON.stringify(faults),
  });
  if (!answer.ok) throw new Error(`a supplier would not be disturbed: ${answer.status}`);
}

async function readAll<Item>(run: RunFile, what: string): Promise<(Item & { supplier: string })[]> {
  const all = await Promise.all(
    run.suppliers.map(async ({ name, logUrl }) =>
      ((await json(`${logUrl}/${what}`)) as Item[]).map((it) => ({ ...it, supplier: name })),
    ),
  );
  return all.flat();
}

async function json(url: string): Promise<unknown> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return answer.json();
}
