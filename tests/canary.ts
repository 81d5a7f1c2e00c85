/**
 * Finds a number or a text wherever it may have leaked to, in clear and in the encodings in which programs
 * write it down without meaning to.
 */
import type { Database } from "../db/client.ts";
import { ask } from "./facts.ts";

/** Every spelling of a word by its name; a sighting tells which. */
export function spellingsOf(word: string): Map<string, string> {
  const utf8 = Buffer.from(word, "utf8");
  const utf16 = Buffer.from(word, "utf16le").swap16();
  return new Map([
    ["clear", word],
    ["JSON escapes", jsonEscaped(word)],
    [
      "percent escapes",
      Array.from(utf8)
        .map((it) => `%${it.toString(16).padStart(2, "0")}`)
        .join(""),
    ],
    ...inBytes("UTF-8", utf8),
    ...inBytes("UTF-16", utf16),
    ["latin1 of UTF-16", utf16.toString("latin1")],
    ["latin1 of UTF-8", utf8.toString("latin1")],
  ]);
}

export const jsonEscaped = (word: string): string =>
  Array.from(
    { length: word.length },
    (_, at) => `\\u${word.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");

/** In base64 a word looks otherwise at each of three places; its ends mix with its neighbours. */
function inBytes(name: string, bytes: Buffer): [string, string][] {
  const aligned = [0, 1, 2].map((shift): [string, string] => {
    const shifted = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .replace(/=+$/, "");
    const known = shifted.slice(Math.ceil((shift * 4) / 3), -1);
    return [`base64 of ${name}`, known];
  });
  return [
    [`hex of ${name}`, bytes.toString("hex")],
    ...aligned.map(([spelling, text], shift): [string, string] => [`${spelling} at ${shift}`, text]),
    ...aligned.map(([spelling, text], shift): [string, string] => [
      `${spelling} at ${shift}, for addresses`,
      text.replaceAll("+", "-").replaceAll("/", "_"),
    ]),
  ];
}

/** Which words were seen in what, in which spelling; empty where nothing leaked. */
export function sightings(where: string, content: string | Buffer, words: readonly string[]): string[] {
  // Latin-1 keeps each byte, so that what is written in bytes is found in any file.
  const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  const searched = [bytes.toString("latin1"), bytes.toString("latin1").toLowerCase()];
  return words.flatMap((word) =>
    [...spellingsOf(word)].flatMap(([spelling, text]) => {
      const needle = Buffer.from(text, spelling.startsWith("latin1") ? "latin1" : "utf8").toString("latin1");
      const isHex = spelling.startsWith("hex") || spelling.endsWith("escapes");
      return searched[isHex ? 1 : 0]?.includes(isHex ? needle.toLowerCase() : needle) === true
        ? [`${where}: ${spelling} of a word of ${word.length} characters`]
        : [];
    }),
  );
}

/** Every row of every table as text, as a dump would have it. */
export async function dumpOf(database: Database): Promise<string> {
  const tables = await ask<{ name: string }>(
    database,
    `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`,
  );
  const dumps = [];
  for (const { name } of tables) {
    const [row] = await ask<{ dump: string | null }>(
      database,
      `SELECT string_agg(t::text, E'\\n') AS dump FROM ${name} t`,
    );
    dumps.push(`${name}\n${row?.dump ?? ""}`);
  }
  return dumps.join("\n");
}
