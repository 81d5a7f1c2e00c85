/**
 * A simulated supplier's own record of what it read and sent. It shares nothing with the gateway, so that
 * a claim of the gateway can be held against it. It survives restarts.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Journal } from "./simulator-journal.ts";
import { SlidingSecond } from "./simulator-limits.ts";

/** One SUBMIT as it was read off the wire. */
export interface SubmitRecord {
  /** RFC 3339. */
  at: string;
  connection: string;
  sequenceId: number;
  msgId: string;
  to: string;
  srcId: string;
  part: number;
  parts: number;
  /** Of the user data header; null for a text of one part. */
  ref: number | null;
  /** Msg_Content with its user data header. */
  textHex: string;
  /** What it was or will be answered; null when it never is. */
  result: number | null;
  /** Set when the submit should not have come: it was answered flow control. */
  violation?: "rate" | "window";
}

/** One DELIVER with a receipt as it was sent. */
export interface ReceiptRecord {
  at: string;
  connection: string;
  sequenceId: number;
  /** Of the text it tells about. */
  msgId: string;
  deliverMsgId: string;
  to: string;
  srcId: string;
  stat: string;
}

export interface WitnessStats {
  submits: number;
  accepted: number;
  rejected: number;
  unanswered: number;
  /** The most submits read within any 1,000 ms. */
  maxPerSecond: number;
  rateViolations: number;
  windowViolations: number;
  receiptsSent: number;
}

export class Witness {
  readonly #submits: IndexedJournal;
  readonly #receipts: IndexedJournal;
  readonly #pace = new SlidingSecond();
  readonly #stats: WitnessStats = {
    submits: 0,
    accepted: 0,
    rejected: 0,
    unanswered: 0,
    maxPerSecond: 0,
    rateViolations: 0,
    windowViolations: 0,
    receiptsSent: 0,
  };

  /** Reads what an earlier run left in the folder; `earlier` is told each of its submits, in order. */
  constructor(folder: string, earlier: (record: SubmitRecord) => void) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#submits = new IndexedJournal(join(folder, "submits.jsonl"), (record) => {
      this.#count(record as SubmitRecord);
      earlier(record as SubmitRecord);
    });
    this.#receipts = new IndexedJournal(join(folder, "receipts.jsonl"), () => this.#stats.receiptsSent++);
  }

  recordSubmit(record: SubmitRecord): void {
    this.#submits.append(record);
    this.#count(record);
  }

  recordReceipt(record: ReceiptRecord): void {
    this.#receipts.append(record);
    this.#stats.receiptsSent++;
  }

  /** JSON texts of submits to one number, or of all. */
  submits(to: string | null): Iterable<string> {
    return this.#submits.select(to);
  }

  receipts(to: string | null): Iterable<string> {
    return this.#receipts.select(to);
  }

  stats(): WitnessStats {
    return { ...this.#stats };
  }

  /** What was recorded is in the files when this returns. */
  flush(): void {
    this.#submits.flush();
    this.#receipts.flush();
  }

  close(): void {
    this.#submits.close();
    this.#receipts.close();
  }

  #count(record: SubmitRecord): void {
    const stats = this.#stats;
    stats.submits++;
    stats.maxPerSecond = Math.max(stats.maxPerSecond, this.#pace.add(Date.parse(record.at)));
    if (record.result === 0) stats.accepted++;
    else if (record.result === null) stats.unanswered++;
    else stats.rejected++;
    if (record.violation === "rate") stats.rateViolations++;
    if (record.violation === "window") stats.windowViolations++;
  }
}

/** A journal with an index by number in memory: places only, the records stay in the file. */
class IndexedJournal {
  readonly #journal: Journal;
  readonly #places = new Map<string, number[]>();

  constructor(path: string, earlier: (record: object) => void) {
    this.#journal = new Journal(path);
    for (const { at, line } of this.#journal.lines()) {
      const record = JSON.parse(line) as { to: string };
      this.#index(record.to, at);
      earlier(record);
    }
  }

  append(record: { to: string }): void {
    this.#index(record.to, this.#journal.append(record));
  }

  *select(to: string | null): Generator<string> {
    if (to === null) {
      for (const { line } of this.#journal.lines()) yield line;
      return;
    }
    for (const at of this.#places.get(to) ?? []) yield this.#journal.lineAt(at);
  }

  flush(): void {
    this.#journal.flush();
  }

  close(): void {
    this.#journal.close();
  }

  #index(to: string, at: number): void {
    const places = this.#places.get(to);
    if (places === undefined) this.#places.set(to, [at]);
    else places.push(at);
  }
}
