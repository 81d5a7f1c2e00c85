/**
 * How a text becomes the segments that go over the wire and that the customer pays for.
 *
 * Nothing here trims, joins or replaces: what is split is exactly what was submitted.
 */
export type Encoding = "ascii" | "ucs2";

/** A user data header counts its parts in one byte (cmpp §8). */
export const MAX_SEGMENTS = 255;

/** Characters of a lone segment, and of one that shares its bytes with a 6-byte header (cmpp §8). */
const ROOM = {
  ascii: { alone: 159, ofMany: 153 },
  ucs2: { alone: 70, ofMany: 67 },
} as const satisfies Record<Encoding, { alone: number; ofMany: number }>;

export interface TextShape {
  encoding: Encoding;
  /** At least 1, also for an empty text. Above `MAX_SEGMENTS` the text cannot be sent: refuse it. */
  segmentCount: number;
}

export interface SplitText {
  /** CMPP Msg_Fmt: 0 ASCII, 8 UCS2, which is UTF-16 with the high byte first (cmpp §7). */
  msgFmt: 0 | 8;
  /** Each part begins with a user data header: there is more than one. */
  udhi: boolean;
  /** Msg_Content of each part, header included; at most 159 bytes in ASCII, 140 in UCS2. */
  parts: Uint8Array[];
}

/** What a text costs in segments. Characters of UCS2 are counted in UTF-16 units (cmpp §8). */
export function describeText(text: string): TextShape {
  const encoding = encodingOf(text);
  return { encoding, segmentCount: cut(text, encoding).length };
}

/**
 * Cuts a text into the contents of its SUBMITs. `reference` (0 to 255) goes into each part's header
 * and must differ between long messages under way from one sender to one number (cmpp §8).
 *
 * Throws a RangeError for a reference out of range and for a text of more than `MAX_SEGMENTS`.
 */
export function splitText(text: string, reference: number): SplitText {
  if (!Number.isInteger(reference) || reference < 0 || reference > 255) {
    throw new RangeError("a concatenation reference is one byte");
  }
  const encoding = encodingOf(text);
  const pieces = cut(text, encoding);
  if (pieces.length > MAX_SEGMENTS) throw new RangeError(`a text has at most ${MAX_SEGMENTS} segments`);
  const encode = encoding === "ascii" ? asciiBytes : ucs2Bytes;
  const udhi = pieces.length > 1;
  return {
    msgFmt: encoding === "ascii" ? 0 : 8,
    udhi,
    parts: pieces.map((piece, index) =>
      udhi ? encode(piece, [5, 0, 3, reference, pieces.length, index + 1]) : encode(piece, []),
    ),
  };
}

/** Only these characters mean the same on every network that reads Msg_Fmt 0 as GSM-7 (cmpp §7). */
const encodingOf = (text: string): Encoding => (/^[\x20-\x7e\r\n]*$/.test(text) ? "ascii" : "ucs2");

function cut(text: string, encoding: Encoding): string[] {
  const room = ROOM[encoding];
  if (text.length <= room.alone) return [text];
  const pieces: string[] = [];
  for (let start = 0; start < text.length;) {
    const end = start + room.ofMany;
    const next = isInsidePair(text, end) ? end - 1 : end;
    pieces.push(text.slice(start, next));
    start = next;
  }
  return pieces;
}

const isInsidePair = (text: string, index: number): boolean =>
  isBetween(text.charCodeAt(index - 1), 0xd800, 0xdbff) && isBetween(text.charCodeAt(index), 0xdc00, 0xdfff);

const isBetween = (unit: number, first: number, last: number): boolean => unit >= first && unit <= last;

function asciiBytes(piece: string, header: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(header.length + piece.length);
  bytes.set(header);
  for (let i = 0; i < piece.length; i++) bytes[header.length + i] = piece.charCodeAt(i);
  return bytes;
}

function ucs2Bytes(piece: string, header: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(header.length + 2 * piece.length);
  bytes.set(header);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < piece.length; i++) view.setUint16(header.length + 2 * i, piece.charCodeAt(i));
  return bytes;
}
