/**
 * An append-only file of JSON lines. What is appended reaches the file with the next `flush`, in one
 * write, and then survives the end of the process, however it ends.
 */
import { closeSync, ftruncateSync, fstatSync, openSync, readSync, writeSync } from "node:fs";

const SCAN_BYTES = 1 << 16;
/** More than any record here is long. */
const LINE_BYTES = 1 << 11;

export class Journal {
  readonly #file: number;
  #size: number;
  #waiting: string[] = [];
  #waitingBytes = 0;

  constructor(path: string) {
    this.#file = openSync(path, "a+", 0o600);
    this.#size = fstatSync(this.#file).size;
    this.#dropTornLine();
  }

  /** Bytes, with those not yet flushed. */
  get size(): number {
    return this.#size + this.#waitingBytes;
  }

  /** Answers where the line begins, for `lineAt`. */
  append(record: object): number {
    const line = `${JSON.stringify(record)}\n`;
    const at = this.size;
    this.#waiting.push(line);
    this.#waitingBytes += Buffer.byteLength(line);
    return at;
  }

  flush(): void {
    if (this.#waiting.length === 0) return;
    const bytes = Buffer.from(this.#waiting.join(""));
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (let written = 0; written < bytes.length;) {
      written += writeSync(this.#file, bytes, written);
    }
    this.#size += bytes.length;
  }

  lineAt(at: number): string {
    for (const { line } of this.lines(at, LINE_BYTES)) return line;
    throw new RangeError("no line begins there");
  }

  /** Every whole line from `from` on, a block at a time, with the place where it begins. */
  *lines(from = 0, blockBytes = SCAN_BYTES): Generator<{ at: number; line: string }> {
    this.flush();
    let rest = Buffer.alloc(0);
    let at = from;
    for (let position = from; position < this.#size;) {
      const block = Buffer.alloc(Math.min(blockBytes, this.#size - position));
      const read = readSync(this.#file, block, 0, block.length, position);
      if (read === 0) return;
      position += read;
      let bytes =
        rest.length === 0 ? block.subarray(0, read) : Buffer.concat([rest, block.subarray(0, read)]);
      for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10)) {
        yield { at, line: bytes.toString("utf8", 0, end) };
        at += end + 1;
        bytes = bytes.subarray(end + 1);
      }
      rest = Buffer.from(bytes);
    }
  }

  close(): void {
    this.flush();
    closeSync(this.#file);
  }

  /** A process that was killed while writing leaves half a line, of which nobody was told. */
  #dropTornLine(): void {
    let whole = 0;
    for (const { at, line } of this.lines()) whole = at + Buffer.byteLength(line) + 1;
    if (whole < this.#size) ftruncateSync(this.#file, whole);
    this.#size = whole;
  }
}
