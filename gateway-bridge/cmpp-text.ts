/**
 * What Msg_Content says: the user data header of a long text, and the text by its Msg_Fmt (cmpp §7, §8).
 */
import iconv from "iconv-lite";

/** A part's place in a long text. References of 8 and 16 bits with one value are different references. */
export interface Concatenation {
  reference: number;
  referenceBits: 8 | 16;
  total: number;
  /** From 1. */
  number: number;
}

export interface UserData {
  /** Absent for a text of one part, and where the header makes no sense. */
  part?: Concatenation;
  /** The content without its header. */
  body: Buffer;
  /** The frame announced a header that cannot be one: the content was taken whole (cmpp §8). */
  headerIgnored?: true;
}

const CONCATENATION_8 = 0x00;
const CONCATENATION_16 = 0x08;

/** Walks the header's elements, since it may hold others than the concatenation. Never throws. */
export function readUserData(content: Buffer, hasHeader: boolean): UserData {
  if (!hasHeader) return { body: content };
  const length = content[0];
  if (length === undefined || length > content.length - 1) return { body: content, headerIgnored: true };
  const body = content.subarray(1 + length);
  const part = findConcatenation(content.subarray(1, 1 + length));
  return part === undefined ? { body } : { part, body };
}

function findConcatenation(header: Buffer): Concatenation | undefined {
  for (let at = 0; at + 2 <= header.length;) {
    const id = header.readUInt8(at);
    const length = header.readUInt8(at + 1);
    const data = header.subarray(at + 2, at + 2 + length);
    if (data.length < length) return undefined;
    if (id === CONCATENATION_8 && length === 3) return concatenation(data.readUInt8(0), 8, data.subarray(1));
    if (id === CONCATENATION_16 && length === 4) {
      return concatenation(data.readUInt16BE(0), 16, data.subarray(2));
    }
    at += 2 + length;
  }
  return undefined;
}

/** A number outside 1..total and a total of one leave the text single. */
function concatenation(reference: number, referenceBits: 8 | 16, counts: Buffer): Concatenation | undefined {
  const total = counts.readUInt8(0);
  const number = counts.readUInt8(1);
  const sensible = total > 1 && number >= 1 && number <= total;
  return sensible ? { reference, referenceBits, total, number } : undefined;
}

/**
 * The text of a content without its header. UCS2 stands for UTF-16BE; private and leaked values of
 * Msg_Fmt with an even length are tried as UCS2 (cmpp §14, 19). Binary content comes back as undefined.
 */
export function decodeText(msgFmt: number, body: Buffer): string | undefined {
  if (msgFmt === 3 || msgFmt === 4) return undefined;
  if (msgFmt === 0) return body.toString("latin1");
  if (msgFmt === 15) return iconv.decode(body, "gb18030");
  if (msgFmt === 8 || body.length % 2 === 0) return decodeUcs2(body);
  return body.toString("latin1");
}

/** A last odd byte is left out: it belongs to a character that was cut. */
function decodeUcs2(body: Buffer): string {
  const whole = Buffer.from(body.subarray(0, body.length - (body.length % 2)));
  return whole.swap16().toString("utf16le");
}
