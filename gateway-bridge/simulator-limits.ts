/**
 * How many things happened within the last 1,000 ms.
 */
export class SlidingSecond {
  /** Times in ascending order; those before `#first` have left the second. */
  #times: number[] = [];
  #first = 0;

  /** Adds one and answers how many there are now, itself included. `at` in milliseconds. */
  add(at: number): number {
    this.#times.push(at);
    return this.count(at);
  }

  count(at: number): number {
    while (this.#first < this.#times.length && (this.#times[this.#first] ?? 0) <= at - 1000) this.#first++;
    if (this.#first > 4096 && this.#first * 2 > this.#times.length) {
      this.#times = this.#times.slice(this.#first);
      this.#first = 0;
    }
    return this.#times.length - this.#first;
  }
}
