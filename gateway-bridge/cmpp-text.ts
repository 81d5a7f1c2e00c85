/**
 * The user data header at the head of Msg_Content (cmpp §8).
 */
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
