/**
 * Rung by whoever tells an attempt to look. Rings are counted from before the workflow's first await, so
 * that one which comes early is not swallowed; whoever rang waits until a look that began after it is over.
 */
import { condition } from "@temporalio/workflow";

export class Bell {
  #rung = 0;
  #heard = 0;
  #answered = 0;

  async ring(): Promise<void> {
    const mine = ++this.#rung;
    await condition(() => this.#answered >= mine);
  }

  hasRung(): boolean {
    return this.#rung > this.#heard;
  }

  hear(): void {
    this.#heard = this.#rung;
  }

  /** What was heard before the look that is over now. */
  answerHeard(): void {
    this.#answered = this.#heard;
  }

  /** Nothing will be looked at any more. */
  answerAll(): void {
    this.#answered = Number.POSITIVE_INFINITY;
  }
}
