/**
 * What a simulated supplier will do later, all of which ends with it.
 */
export class Timers {
  readonly #running = new Set<NodeJS.Timeout>();

  /** Not below one millisecond and, as every timer, not before its time. */
  after(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#running.delete(timer);
      act();
    }, ms);
    this.#running.add(timer);
  }

  stop(): void {
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
  }
}
