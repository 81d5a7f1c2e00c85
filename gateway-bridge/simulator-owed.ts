/**
 * Receipts that a simulated supplier still owes: kept from the SUBMIT until the DELIVER_RESP, over
 * restarts too (interfaces §6).
 */
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Journal } from "./simulator-journal.ts";

export interface OwedReceipt {
  /** Msg_Id of the DELIVER, the same at each repetition; it names the debt. */
  deliverMsgId: string;
  /** Of the text it tells about. */
  msgId: string;
  stat: string;
  to: string;
  srcId: string;
  serviceId: string;
  /** Epoch milliseconds. */
  submittedAt: number;
  dueAt: number;
  place: "any" | "other_connection" | "after_login";
  /** Where the SUBMIT was read. */
  connection: string;
}

type Entry = { owed: OwedReceipt } | { acknowledged: string };

const COMPACT_ABOVE_BYTES = 64 * 1024 * 1024;

export class OwedReceipts {
  readonly #path: string;
  readonly #open = new Map<string, OwedReceipt>();
  #journal: Journal;
  #compactAbove = COMPACT_ABOVE_BYTES;

  constructor(folder: string) {
    this.#path = join(folder, "owed.jsonl");
    this.#journal = new Journal(this.#path);
    for (const { line } of this.#journal.lines()) this.#replay(JSON.parse(line) as Entry);
    this.#compact();
  }

  get count(): number {
    return this.#open.size;
  }

  /** Oldest first. */
  all(): OwedReceipt[] {
    return [...this.#open.values()];
  }

  add(owed: OwedReceipt): void {
    this.#open.set(owed.deliverMsgId, owed);
    this.#journal.append({ owed } satisfies Entry);
  }

  acknowledge(owed: OwedReceipt): void {
    if (!this.#open.delete(owed.deliverMsgId)) return;
    this.#journal.append({ acknowledged: owed.deliverMsgId } satisfies Entry);
  }

  flush(): void {
    this.#journal.flush();
    if (this.#journal.size > this.#compactAbove) this.#compact();
  }

  close(): void {
    this.#journal.close();
  }

  #replay(entry: Entry): void {
    if ("owed" in entry) this.#open.set(entry.owed.deliverMsgId, entry.owed);
    else this.#open.delete(entry.acknowledged);
  }

  /** The new file takes the place of the old one only when it is whole. */
  #compact(): void {
    const next = `${this.#path}.next`;
    if (existsSync(next)) rmSync(next);
    const journal = new Journal(next);
    for (const owed of this.#open.values()) journal.append({ owed } satisfies Entry);
    journal.flush();
    renameSync(next, this.#path);
    this.#journal.close();
    this.#journal = journal;
    this.#compactAbove = journal.size + COMPACT_ABOVE_BYTES;
  }
}
