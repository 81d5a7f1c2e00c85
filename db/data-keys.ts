/**
 * The keys under which numbers and texts are stored: how they are written down, read and made.
 *
 * One key hashes numbers for search and stays; data keys seal, the first of them everything new, and each
 * of them opens what it sealed, so that one can be put before another while everything runs.
 */
import { createHmac, randomBytes } from "node:crypto";

export interface DataKeys {
  search: Buffer;
  /** The first seals; all open. */
  data: readonly [DataKey, ...DataKey[]];
}

export interface DataKey {
  /** Eight hexadecimal digits, stored with each value; derived, so that nobody has to keep a list. */
  id: string;
  key: Buffer;
}

const KEY_BYTES = 32;

/**
 * Reads `search:<base64>` and one or more `data:<base64>`, in lines or divided by commas; what follows a
 * `#` in a line is a remark. Throws a sentence that says what is wrong and quotes no key.
 */
export function parseDataKeys(written: string): DataKeys {
  const found = { search: [] as Buffer[], data: [] as DataKey[] };
  for (const [index, word] of wordsOf(written).entries()) {
    const [, kind, base64] = /^(search|data):([A-Za-z0-9+/_-]+={0,2})$/.exec(word) ?? [];
    const key = Buffer.from(base64 ?? "", "base64");
    if (kind === undefined || key.length !== KEY_BYTES) {
      throw new Error(
        `data key ${index + 1} is not search: or data: with ${KEY_BYTES} bytes in base64 behind it`,
      );
    }
    if (kind === "search") found.search.push(key);
    else found.data.push({ id: keyIdOf(key), key });
  }
  const [search, ...more] = found.search;
  const [first, ...others] = found.data;
  if (search === undefined || more.length > 0)
    throw new Error("there must be one search: key among the data keys");
  if (first === undefined) throw new Error("there must be a data: key among the data keys");
  if (new Set(found.data.map(({ id }) => id)).size < found.data.length) {
    throw new Error("a data: key stands there twice");
  }
  return { search, data: [first, ...others] };
}

/** A fresh set, as it is written into a file. */
export const newDataKeys = (): string => `search:${newKey()}\ndata:${newKey()}\n`;

/** The same set with a new data key before the others: from its next start a process seals under that. */
export const withNewDataKey = ({ search, data }: DataKeys): string => {
  const lines = data.map(({ key }) => `data:${key.toString("base64")}`);
  return [`search:${search.toString("base64")}`, `data:${newKey()}`, ...lines, ""].join("\n");
};

const wordsOf = (written: string): string[] =>
  written
    .split(/\r?\n/)
    .flatMap((line) => line.replace(/#.*$/, "").split(/[,\s]+/))
    .filter((word) => word !== "");

const newKey = (): string => randomBytes(KEY_BYTES).toString("base64");

const keyIdOf = (key: Buffer): string =>
  createHmac("sha256", key).update("waybill data key id").digest("hex").slice(0, 8);
