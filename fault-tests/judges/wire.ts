/** Reading what a supplier's witness wrote down, and whose text it is: by the token in every part. */
import type { Requested, Submit } from "./evidence.ts";

/** A text's own mark, in every part of it. */
export const TOKEN = /\[(\d+-\d+)\]/;

/** Msg_Content without the user data header that joins the parts of a long text (cmpp §8). */
function contentOf({ textHex, parts }: Submit): Buffer {
  const bytes = Buffer.from(textHex, "hex");
  const header = parts > 1 ? (bytes[0] ?? -1) + 1 : 0;
  return bytes.subarray(header);
}

/** ASCII where every second byte would be zero in UCS2, as all tokens are ASCII. */
export function textOf(submit: Submit): string {
  const content = contentOf(submit);
  const inAscii = content.toString("latin1");
  return TOKEN.test(inAscii) ? inAscii : Buffer.from(content).swap16().toString("utf16le");
}

/** Submits by the token that they carry; those that carry none that was ever asked for. */
export function submitsByToken(
  requests: ReadonlyMap<string, Requested>,
  submits: readonly Submit[],
): { known: Map<string, Submit[]>; foreign: Submit[] } {
  const known = new Map<string, Submit[]>();
  const foreign: Submit[] = [];
  for (const submit of submits) {
    const token = tokenOf(submit);
    if (token === undefined || !requests.has(token)) foreign.push(submit);
    else push(known, token, submit);
  }
  return { known, foreign };
}

/** A frame whose content cannot be read carries nothing that was asked for. */
function tokenOf(submit: Submit): string | undefined {
  try {
    return TOKEN.exec(textOf(submit))?.[1];
  } catch {
    return undefined;
  }
}

export function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) push(groups, keyOf(item), item);
  return groups;
}

function push<Item>(groups: Map<string, Item[]>, key: string, item: Item): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [item]);
  else group.push(item);
}
