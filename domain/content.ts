/**
 * Msg_Content as characters, by its Msg_Fmt (cmpp §7). Parts of a long text are joined as bytes before
 * they are read: careless senders cut a character in two.
 */

/**
 * The text of a content without its header; undefined where it is binary. UCS2 stands for UTF-16 with the
 * high byte first; values that are none of the protocol's are read as the GSM data coding that leaks
 * through, in which the private ones for UCS2 (9, 25) mean UCS2 as well (cmpp §14, 19). Never throws:
 * bytes that are no character become U+FFFD, and a byte order mark is left out.
 */
export function decodeText(msgFmt: number, content: Uint8Array): string | undefined {
  switch (alphabetOf(msgFmt, content.length)) {
    case "binary":
      return undefined;
    case "gb18030":
      return GB18030.decode(content);
    case "ucs2":
      // A last odd byte belongs to a character that was cut.
      return UCS2.decode(content.subarray(0, content.length - (content.length % 2)));
    case "ascii":
      return LATIN1.decode(content);
  }
}

const UCS2 = new TextDecoder("utf-16be");
const GB18030 = new TextDecoder("gb18030");
const LATIN1 = new TextDecoder("latin1");

type Alphabet = "ascii" | "ucs2" | "gb18030" | "binary";

const ALPHABETS = ["ascii", "binary", "ucs2"] as const;

function alphabetOf(msgFmt: number, length: number): Alphabet {
  if (msgFmt === 15) return "gb18030";
  if (msgFmt === 3) return "binary";
  // GSM 03.38: a class of its own has one bit for the alphabet, the general group has two.
  if (msgFmt >> 4 === 0xf) return (msgFmt & 4) === 0 ? "ascii" : "binary";
  const alphabet = (msgFmt & 0xc0) === 0 ? ALPHABETS[(msgFmt >> 2) & 3] : undefined;
  return alphabet ?? (length % 2 === 0 ? "ucs2" : "ascii");
}
