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
  #rest: Buffer = Buffer.alloc(0);
  #broken: BrokenFraming | undefined;

  /** Takes what was read; answers the PDUs that are complete by now. Never throws. */
  push(chunk: Buffer): FramedBytes {
    if (this.#broken !== undefined) return { frames: [], broken: this.#broken };
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Buffer[] = [];
    let start = 0;
    while (bytes.length - start >= HEADER_BYTES) {
      const length = bytes.readUInt32BE(start);
      this.#broken = brokenLength(length);
      if (this.#broken !== undefined) {
        this.#rest = Buffer.alloc(0);
        return { frames, broken: this.#broken };
      }
      if (bytes.length - start < length) break;
      frames.push(bytes.subarray(start, start + length));
      start += length;
    }
    this.#rest = bytes.subarray(start);
    return { frames };
  }
}

function brokenLength(length: number): BrokenFraming | undefined {
  if (length < HEADER_BYTES) return "length_below_header";
  if (length > MAX_PDU_BYTES) return "length_above_max";
  return undefined;
}
