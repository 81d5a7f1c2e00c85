/**
 * Texts that were approved, with `{name}` where each message may say something of its own (A3). Any
 * other brace is a character like the rest.
 */
import { withoutSignature } from "./signature.ts";

const PLACEHOLDER = /\{([\p{L}_][\p{L}\p{N}_]{0,31})\}/gu;

/** In the order in which they first stand in the body, each once. */
export const placeholdersOf = (body: string): string[] => [
  ...new Set([...body.matchAll(PLACEHOLDER)].flatMap((found) => found[1] ?? [])),
];

export type Rendered =
  | { ok: true; text: string }
  /** Names without a value, or with an empty one, and values without a placeholder. */
  | { ok: false; missing: string[]; unknown: string[] };

/** Puts the values in, once and as they are: braces inside a value mean nothing. */
export function render(body: string, params: Readonly<Record<string, string>>): Rendered {
  const values = new Map(Object.entries(params));
  const names = placeholdersOf(body);
  const missing = names.filter((name) => (values.get(name) ?? "") === "");
  const unknown = [...values.keys()].filter((name) => !names.includes(name));
  if (missing.length > 0 || unknown.length > 0) return { ok: false, missing, unknown };
  return { ok: true, text: body.replace(PLACEHOLDER, (_all, name: string) => values.get(name) ?? "") };
}

/** Whether one of the bodies could have been rendered to this text, with or without its signature. */
export function matchesOne(text: string, bodies: readonly string[]): boolean {
  const bare = withoutSignature(text);
  return bodies.some((body) => matches(text, body) || matches(bare, body));
}

/**
 * Between two literal pieces stands at least one character. The leftmost place of each piece leaves the
 * most room for the rest, so no other has to be tried: the time grows with the text, not with the ways
 * to divide it.
 */
function matches(text: string, body: string): boolean {
  const [head = "", ...rest] = literalsOf(body);
  const tail = rest.pop();
  if (tail === undefined) return text === head;
  if (!text.startsWith(head)) return false;
  let from = head.length;
  for (const piece of rest) {
    const at = text.indexOf(piece, from + 1);
    if (at === -1) return false;
    from = at + piece.length;
  }
  return text.endsWith(tail) && text.length - tail.length > from;
}

function literalsOf(body: string): string[] {
  const literals: string[] = [];
  let from = 0;
  for (const found of body.matchAll(PLACEHOLDER)) {
    literals.push(body.slice(from, found.index));
    from = found.index + found[0].length;
  }
  return [...literals, body.slice(from)];
}
