/**
 * Cuts a TCP byte stream into CMPP PDUs (cmpp §2). One framer per connection; chunks may end anywhere.
 */

export const HEADER_BYTES = 12;
/** Longer than any legal PDU: a 3.0 SUBMIT to 99 numbers with 255 bytes of content has 3,586 bytes. */
export const MAX_PDU_BYTES = 4096;

export type BrokenFraming = "length_below_header" | "length_above_max";

export interface FramedBytes {
  /** Whole PDUs, header included, in the order read. They may share memory with the chunk. */
  frames: Buffer[];
  /** Set when the stream can no longer be read: there is no way to find the next PDU (cmpp §2, 3). */
  broken?: BrokenFraming;
}

export class Framer {
  /** The beginning of a PDU that a chunk cut: the only bytes that are copied, and never more than one PDU. */
  #cut: Buffer = NOTHING;
  #cutBytes = 0;
  #broken: BrokenFraming | undefined;

  /** Takes what was read; answers the PDUs that are complete by now. Never throws. */
  push(chunk: Buffer): FramedBytes {
    const frames: Buffer[] = [];
    let at = this.#broken === undefined ? this.#finishCut(chunk, frames) : 0;
    while (this.#broken === undefined && chunk.length - at >= HEADER_BYTES) {
      const length = chunk.readUInt32BE(at);
      this.#broken = brokenLength(length);
      if (this.#broken !== undefined || chunk.length - at < length) break;
      frames.push(chunk.subarray(at, at + length));
      at += length;
    }
    if (this.#broken !== undefined) return { frames, broken: this.#broken };
    this.#keep(chunk.subarray(at));
    return { frames };
  }

  /** Adds to a PDU that was cut what it still lacks. Answers how much of the chunk that was. */
  #finishCut(chunk: Buffer, frames: Buffer[]): number {
    if (this.#cutBytes === 0) return 0;
    let at = this.#fill(chunk, HEADER_BYTES);
    if (this.#cutBytes < HEADER_BYTES) return at;
    const length = this.#cut.readUInt32BE(0);
    this.#broken = brokenLength(length);
    if (this.#broken !== undefined) return at;
    at += this.#fill(chunk.subarray(at), length);
    if (this.#cutBytes === length) {
      frames.push(Buffer.from(this.#cut.subarray(0, length)));
      this.#cutBytes = 0;
    }
    return at;
  }

  #fill(bytes: Buffer, upTo: number): number {
    const count = Math.max(0, Math.min(bytes.length, upTo - this.#cutBytes));
    this.#keep(bytes.subarray(0, count));
    return count;
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#cut === NOTHING) this.#cut = Buffer.allocUnsafeSlow(MAX_PDU_BYTES);
    this.#cutBytes += bytes.copy(this.#cut, this.#cutBytes);
  }
}

const NOTHING = Buffer.alloc(0);

function brokenLength(length: number): BrokenFraming | undefined {
  if (length < HEADER_BYTES) return "length_below_header";
  if (length > MAX_PDU_BYTES) return "length_above_max";
  return undefined;
}
