/**
 * How long facts are kept. Slices are made ahead of time and dropped when all in them is old and closed;
 * the rest is deleted by age. Ledger and billing records have no age: the books are proved from all of
 * them (D5, L).
 */
import { isPast, missingSlices, type SliceWidth } from "../domain/slices.ts";
import type { Author } from "./audit.ts";
import type { Database } from "./client.ts";
import { purge, PURGE_BATCH, PURGED, purgeEventKeys, type Purged } from "./purges.ts";
import {
  addSlice,
  anythingOpen,
  dropSlice,
  openWork,
  type OpenWork,
  raiseAlert,
  readSlices,
  rowsWithoutSlice,
  type Slice,
  type SliceContent,
  type Tried,
} from "./slices.ts";

export interface RetentionRules {
  slice: SliceWidth;
  aheadDays: number;
  /** By what is kept; 0 for ever. */
  keepDays: Record<SliceDays | Purged, number>;
}

type SliceDays = "messages" | "supplierEvents";

const DAYS_OF: Record<SliceContent, SliceDays> = { messages: "messages", supplier_events: "supplierEvents" };

export interface RetentionReport {
  /** Days of the slices made. */
  added: number;
  /** What became of the slices that are past their time. */
  past: { content: SliceContent; name: string; bytes: number; outcome: Outcome; open?: OpenWork }[];
  purged: Partial<Record<Purged | "eventKeys", number>>;
  /** Rows of the partitioned tables for which there is no slice. */
  withoutSlice: number;
  /** Something is left that the next turn can do at once. */
  more: boolean;
}

type Outcome = Tried<"dropped" | "waits" | "gone"> | "would_be_dropped";

/** Batches of one kind in one turn: what is behind goes on in the next. */
const BATCHES_A_TURN = 25;

/** One turn. A dry run looks and changes nothing; what it would purge by age it does not count. */
export async function retain(
  database: Database,
  rules: RetentionRules,
  author: Author,
  dryRun = false,
): Promise<RetentionReport> {
  const added = await addMissing(database, rules, dryRun);
  const { slices, nowMs } = await readSlices(database);
  const past: RetentionReport["past"] = [];
  for (const slice of slices) {
    if (!isPast(slice, rules.keepDays[DAYS_OF[slice.content]], nowMs)) continue;
    past.push(await retire(database, author, slice, dryRun));
  }
  const purged = dryRun ? {} : await purgeAll(database, rules);
  const withoutSlice = await rowsWithoutSlice(database);
  if (withoutSlice > 0 && !dryRun) {
    await raiseAlert(database, "rows_without_slice", "default partitions", `${withoutSlice} rows or more`);
  }
  const behind = Object.values(purged).some((count) => count >= BATCHES_A_TURN * PURGE_BATCH);
  return { added, past, purged, withoutSlice, more: behind };
}

/** The slice after the next one is due long before it is needed, so a lock that is not to be had is no harm. */
async function addMissing(database: Database, rules: RetentionRules, dryRun: boolean): Promise<number> {
  const { slices, nowMs } = await readSlices(database);
  let added = 0;
  for (const span of missingSlices(slices.at(-1), nowMs, rules.aheadDays, rules.slice)) {
    if (!dryRun && (await patiently(() => addSlice(database, span))) === "busy") {
      if (span.startsMs - nowMs < URGENT_MS) {
        await raiseAlert(
          database,
          "slice_missing",
          new Date(span.startsMs).toISOString(),
          "tables are locked",
        );
      }
      break;
    }
    added++;
  }
  return added;
}

const URGENT_MS = 7 * 86_400_000;

async function retire(
  database: Database,
  author: Author,
  slice: Slice,
  dryRun: boolean,
): Promise<RetentionReport["past"][number]> {
  const { content, name, bytes } = slice;
  const open = await openWork(database, slice);
  if (open === undefined) return { content, name, bytes, outcome: "gone" };
  if (anythingOpen(open)) {
    if (!dryRun) await raiseAlert(database, "slice_waits", `${content} ${name}`, JSON.stringify(open));
    return { content, name, bytes, outcome: "waits", open };
  }
  if (dryRun) return { content, name, bytes, outcome: "would_be_dropped" };
  return { content, name, bytes, outcome: await patiently(() => dropSlice(database, author, slice)) };
}

const TRIES = 5;

/** A lock that somebody holds is asked for again after a pause in which the send path can breathe. */
async function patiently<Result>(work: () => Promise<Tried<Result>>): Promise<Tried<Result>> {
  for (let tries = 1; ; tries++) {
    const result = await work();
    if (result !== "busy" || tries === TRIES) return result;
    await new Promise((resolve) => setTimeout(resolve, 500 + Math.random() * 1_000));
  }
}

async function purgeAll(database: Database, rules: RetentionRules): Promise<RetentionReport["purged"]> {
  const purged: RetentionReport["purged"] = {};
  for (const what of PURGED) {
    const days = rules.keepDays[what];
    if (days > 0) purged[what] = await inBatches(() => purge(database, what, days));
  }
  const { slices } = await readSlices(database);
  const oldest = slices.find((it) => it.content === "supplier_events");
  if (oldest !== undefined) {
    purged.eventKeys = await inBatches(() => purgeEventKeys(database, oldest.startsMs));
  }
  return purged;
}

async function inBatches(batch: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let batches = 0; batches < BATCHES_A_TURN; batches++) {
    const count = await batch();
    total += count;
    if (count < PURGE_BATCH) break;
  }
  return total;
}
