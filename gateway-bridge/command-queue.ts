/** What one supplier's connections share of the commands that this process has read. */
import type { PartWrite } from "../db/takes.ts";
import type { SubmitCommand } from "../domain/command.ts";

/** A command that this process has read and not acknowledged. */
export interface CommandInHand {
  command: SubmitCommand;
  /** Parts that may still have to be written, or whose outcome is not recorded. */
  openParts: Set<number>;
  /** Where it stands on the stream; in more than one place when it was published twice. */
  entries: StreamEntry[];
  /** Nothing of it is left to do (C4). */
  acknowledge: () => void;
  /**
   * Nothing can be done about it now: its entries stay pending and come back, to this process or another,
   * once they were left alone for a while. What of it was written is told to its end all the same.
   */
  letGo: () => void;
}

export interface StreamEntry {
  stream: string;
  id: string;
}

/** One write of one part: what a session is given as its key. */
export interface Write extends PartWrite {
  hand: CommandInHand;
}

/** Writes that wait for a connection, in order; parts of one command stand together (cmpp §8, 4). */
export class CommandQueue {
  #items: Write[][] = [];
  readonly #waiters = new Set<() => void>();

  get length(): number {
    return this.#items.length;
  }

  offer(writes: Write[]): void {
    this.#items.push(writes);
    this.#wake();
  }

  /** For what a connection that ended did not write. */
  putBack(writes: Write[]): void {
    if (writes.length === 0) return;
    this.#items.unshift(writes);
    this.#wake();
  }

  next(): Write[] | undefined {
    return this.#items.shift();
  }

  onOffer(wake: () => void): () => void {
    this.#waiters.add(wake);
    return () => this.#waiters.delete(wake);
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
  }
}

/** Every part of a fresh command, as first writes. */
export function firstWrites(hand: CommandInHand): Write[] {
  const { submitId, attemptId, parts } = hand.command;
  return parts.map((_, index) => ({ submitId, attemptId, part: index + 1, writeNumber: 1, hand }));
}

/** The part needs no more writing; the last one acknowledges the command (C4). */
export function done(write: Write): void {
  write.hand.openParts.delete(write.part);
  if (write.hand.openParts.size === 0) write.hand.acknowledge();
}
