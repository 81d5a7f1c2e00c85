/**
 * The encoding in which a text leaves for one supplier. Where it is cut was decided and paid for when it
 * was accepted, so another encoding changes neither the number of parts nor what each of them says
 * (docs/decisions/0013).
 */
import iconv from "iconv-lite";
import type { SubmitCommand } from "../domain/command.ts";
import { decodeText } from "../domain/content.ts";
import type { SupplierProfile } from "./supplier.ts";

export interface OutgoingText {
  msgFmt: number;
  /** Msg_Content of each part, its user data header included. */
  contents: readonly Buffer[];
}

const UCS2 = 8;
const GB18030 = 15;
const MAX_CONTENT_BYTES = 140;

const decided = new WeakMap<SubmitCommand, OutgoingText>();

/**
 * As the command says it, or in GB characters where the supplier wants them and every part has room.
 * Decided once a command in hand: its supplier may be edited between two of its parts.
 */
export function outgoingText(command: SubmitCommand, encoding: SupplierProfile["encoding"]): OutgoingText {
  const before = decided.get(command);
  if (before !== undefined) return before;
  const text = encoded(command, encoding);
  decided.set(command, text);
  return text;
}

function encoded(command: SubmitCommand, encoding: SupplierProfile["encoding"]): OutgoingText {
  const contents = command.parts.map((part) => Buffer.from(part, "hex"));
  const asStored = { msgFmt: command.msgFmt, contents };
  if (command.msgFmt !== UCS2 || encoding === "ucs2") return asStored;
  const inGb: Buffer[] = [];
  for (const content of contents) {
    const converted = gbContent(content, contents.length > 1, encoding);
    // All parts of a text or none: receivers join what has one encoding (cmpp §8, 5).
    if (converted === undefined) return asStored;
    inGb.push(converted);
  }
  return { msgFmt: GB18030, contents: inGb };
}

/**
 * Undefined where there is no room, or a character would be lost. Parts are cut between characters, so
 * no double byte and no four-byte character ever straddles two of them.
 */
function gbContent(content: Buffer, hasHeader: boolean, encoding: "gbk" | "gb18030"): Buffer | undefined {
  const headerBytes = hasHeader ? content.readUInt8(0) + 1 : 0;
  const text = Buffer.from(content.subarray(headerBytes)).swap16().toString("utf16le");
  const body = iconv.encode(text, "gb18030");
  const fits = headerBytes + body.length <= MAX_CONTENT_BYTES;
  if (!fits || decodeText(GB18030, body) !== text) return undefined;
  if (encoding === "gbk" && hasFourByteCharacter(body)) return undefined;
  return Buffer.concat([content.subarray(0, headerBytes), body]);
}

/** The second byte tells: a digit, where one of a double byte is never one. */
function hasFourByteCharacter(body: Buffer): boolean {
  for (let at = 0; at < body.length; at += (body[at] ?? 0) < 0x80 ? 1 : 2) {
    const second = body[at + 1] ?? 0;
    if ((body[at] ?? 0) >= 0x80 && second >= 0x30 && second <= 0x39) return true;
  }
  return false;
}
