/**
 * The fields that PDUs are made of: big-endian integers and fixed-length octet strings (cmpp §1).
 * Writing is strict, reading is tolerant.
 */

/** A value that does not fit its field. It names the field, never the value. */
export class FieldError extends Error {
  override readonly name = "FieldError";
  readonly code: "field_too_long" | "field_not_ascii" | "field_out_of_range" | "field_malformed";
  readonly field: string;

  constructor(code: FieldError["code"], field: string) {
    super(`${code}: ${field}`);
    this.code = code;
    this.field = field;
  }
}

/** Fills a buffer of a known size from front to back. Nothing is ever cut to fit: it throws FieldError. */
export class FieldWriter {
  readonly bytes: Buffer;
  #at = 0;

  constructor(size: number) {
    // Out of Node's pool and cleared: for frames of this size twice as fast as memory of their own.
    this.bytes = Buffer.allocUnsafe(size).fill(0);
  }

  u8(field: string, value: number): this {
    this.bytes[this.#at] = checkedInteger(field, value, 0xff);
    this.#at += 1;
    return this;
  }

  u32(field: string, value: number): this {
    const { bytes } = this;
    const at = this.#at;
    checkedInteger(field, value, 0xffff_ffff);
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
    this.#at += 4;
    return this;
  }

  /** A status or result: one byte in 2.0, four in 3.0. */
  status(field: string, value: number, size: 1 | 4): this {
    return size === 1 ? this.u8(field, value) : this.u32(field, value);
  }

  /** Printable ASCII, padded on the right with NUL. */
  text(field: string, value: string, size: number): this {
    if (value.length > size) throw new FieldError("field_too_long", field);
    // A loop beats a native call for fields of a few characters.
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code < 0x20 || code > 0x7e) throw new FieldError("field_not_ascii", field);
      this.bytes[this.#at + i] = code;
    }
    this.#at += size;
    return this;
  }

  /** Eight bytes given as 16 hex characters. */
  msgId(field: string, value: string): this {
    if (!/^[0-9a-f]{16}$/i.test(value)) throw new FieldError("field_malformed", field);
    this.bytes.write(value, this.#at, "hex");
    this.#at += 8;
    return this;
  }

  octets(field: string, value: Buffer, size: number): this {
    if (value.length > size) throw new FieldError("field_too_long", field);
    value.copy(this.bytes, this.#at);
    this.#at += size;
    return this;
  }
}

function checkedInteger(field: string, value: number, max: number): number {
  // Only an integer of 32 bits without a sign survives the shift as it was.
  if (value >>> 0 !== value || value > max) throw new FieldError("field_out_of_range", field);
  return value;
}

const SPACE = 0x20;

/**
 * Reads from front to back. What lies beyond the end reads as zero or empty, so that a short tail never
 * fails a PDU (cmpp §5): whoever needs a field to be there asks `left` first.
 */
export class FieldReader {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, from: number) {
    this.#bytes = bytes;
    this.#at = from;
  }

  get left(): number {
    return Math.max(0, this.#bytes.length - this.#at);
  }

  u8(): number {
    const value = this.#bytes[this.#at] ?? 0;
    this.#at += 1;
    return value;
  }

  u32(): number {
    const value = this.left >= 4 ? this.#bytes.readUInt32BE(this.#at) : 0;
    this.#at += 4;
    return value;
  }

  status(size: 1 | 4): number {
    return size === 1 ? this.u8() : this.u32();
  }

  /** Up to the first NUL, then without the spaces around it; bytes above 0x7F come back as Latin-1. */
  text(size: number): string {
    const bytes = this.#bytes;
    const limit = Math.min(this.#at + size, bytes.length);
    let start = this.#at;
    this.#at += size;
    let end = start;
    while (end < limit && bytes[end] !== 0) end++;
    while (start < end && bytes[start] === SPACE) start++;
    while (end > start && bytes[end - 1] === SPACE) end--;
    return start >= end ? "" : bytes.toString("latin1", start, end);
  }

  msgId(): string {
    const hex = this.#bytes.toString("hex", this.#at, this.#at + 8);
    this.#at += 8;
    return hex.length === 16 ? hex : hex.padEnd(16, "0");
  }

  octets(size: number): Buffer {
    const value = this.#bytes.subarray(this.#at, this.#at + size);
    this.#at += size;
    return value;
  }
}
