/**
 * What recipients write: parts joined to texts, and the words with which one refuses further messages
 * (cmpp §8, §13). Nothing here knows a clock: ages come from the database.
 */
import { decodeText } from "./content.ts";

/** A part waits so long for the others; then what is there is delivered, marked as incomplete (cmpp §8). */
export const JOIN_PATIENCE_MS = 3_600_000;

/**
 * A part that comes again within this time is the same part, and one with other bytes contradicts it;
 * later the handset uses its reference for another text (cmpp §8).
 */
const SAME_TEXT_MS = 60_000;

/** One DELIVER that brought a text or a part of one. */
export interface InboundPart {
  id: bigint;
  msgFmt: number;
  /** Without its user data header. */
  content: Uint8Array;
  /** From 1. A text of one part is the first of one. */
  part: number;
  total: number;
  /** Milliseconds since it came. */
  ageMs: number;
  /** The text that it was joined into before. */
  inboundId: string | null;
}

export interface JoinedText {
  /** In the order of the text. */
  parts: InboundPart[];
  complete: boolean;
  /** Parts that came again. */
  repeats: InboundPart[];
  /** Parts with the number of another one and other bytes: the first counts. */
  conflicts: InboundPart[];
}

export interface Assembly {
  /** Ready to be handed on. */
  texts: JoinedText[];
  /** Came again after their text was handed on. */
  repeats: { part: InboundPart; inboundId: string }[];
  waiting: { part: InboundPart; forMs: number }[];
}

/** Judges all parts that one sender sent under one reference, in the order in which they came. */
export function assemble(parts: readonly InboundPart[]): Assembly {
  const groups: Group[] = [];
  const assembly: Assembly = { texts: [], repeats: [], waiting: [] };
  for (const part of parts) {
    if (part.inboundId === null) place(part, groups, assembly);
    else recall(part, part.inboundId, groups);
  }
  for (const group of groups) if (group.inboundId === null) judge(group, assembly);
  return assembly;
}

interface Group {
  byNumber: Map<number, InboundPart>;
  total: number;
  /** Of the part that came first. */
  ageMs: number;
  /** Of a text that was handed on before. */
  inboundId: string | null;
  repeats: InboundPart[];
  conflicts: InboundPart[];
}

function recall(part: InboundPart, inboundId: string, groups: Group[]): void {
  const known = groups.find((group) => group.inboundId === inboundId);
  if (known === undefined) groups.push(groupOf(part, inboundId));
  else if (!known.byNumber.has(part.part)) known.byNumber.set(part.part, part);
}

function place(part: InboundPart, groups: Group[], assembly: Assembly): void {
  const group = groups.at(-1);
  const there = group?.byNumber.get(part.part);
  if (group !== undefined && there !== undefined && isAgain(there, part)) {
    if (group.inboundId === null) group.repeats.push(part);
    else assembly.repeats.push({ part, inboundId: group.inboundId });
  } else if (group === undefined || group.inboundId !== null) groups.push(groupOf(part));
  else if (there === undefined) group.byNumber.set(part.part, part);
  else if (!isWhole(group) && group.ageMs - part.ageMs <= SAME_TEXT_MS) group.conflicts.push(part);
  else groups.push(groupOf(part));
}

const groupOf = (part: InboundPart, inboundId: string | null = null): Group => ({
  byNumber: new Map([[part.part, part]]),
  total: part.total,
  ageMs: part.ageMs,
  inboundId,
  repeats: [],
  conflicts: [],
});

const isWhole = (group: Group): boolean => group.byNumber.size === group.total;

const isAgain = (first: InboundPart, second: InboundPart): boolean =>
  first.ageMs - second.ageMs <= SAME_TEXT_MS &&
  first.msgFmt === second.msgFmt &&
  first.content.length === second.content.length &&
  first.content.every((byte, index) => byte === second.content[index]);

function judge(group: Group, assembly: Assembly): void {
  const { repeats, conflicts } = group;
  const parts = [...group.byNumber.values()].sort((a, b) => a.part - b.part);
  const forMs = JOIN_PATIENCE_MS - group.ageMs;
  if (isWhole(group) || forMs <= 0) {
    assembly.texts.push({ parts, complete: isWhole(group), repeats, conflicts });
    return;
  }
  for (const part of [...parts, ...repeats, ...conflicts]) assembly.waiting.push({ part, forMs });
}

/** What a text says, or its bytes where a part of it is binary. */
export type InboundContent = { text: string } | { bytes: Uint8Array };

/** Neighbours of one encoding are joined before they are read; PostgreSQL stores no NUL. */
export function contentOf(parts: readonly Pick<InboundPart, "msgFmt" | "content">[]): InboundContent {
  const runs: { msgFmt: number; pieces: Uint8Array[] }[] = [];
  for (const { msgFmt, content } of parts) {
    const last = runs.at(-1);
    if (last?.msgFmt === msgFmt) last.pieces.push(content);
    else runs.push({ msgFmt, pieces: [content] });
  }
  const texts = runs.map((run) => decodeText(run.msgFmt, joined(run.pieces)));
  return texts.includes(undefined)
    ? { bytes: joined(parts.map((part) => part.content)) }
    : { text: texts.join("").replaceAll("\0", "") };
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/**
 * Where neither the application nor the supplier's profile says other words. Single letters beside T are
 * answers to ordinary questions too ("N"), so whoever asks for R or N says so.
 */
export const OPT_OUT_WORDS: readonly string[] = ["T", "TD", "退订", "STOP", "UNSUBSCRIBE"];
export const OPT_IN_WORDS: readonly string[] = ["START", "恢复订阅"];

export interface OptWords {
  out: readonly string[];
  in: readonly string[];
}

/**
 * What a text does to its sender's wish for messages. A word counts when it is the whole first sentence,
 * whatever its case, width and punctuation: "Stop. Thank you" refuses, a sentence with the word in it
 * does not (cmpp §13).
 */
export function wishIn(text: string, words: OptWords): "opt_out" | "opt_in" | undefined {
  const said = spoken(text);
  const isOneOf = (list: readonly string[]): boolean => list.some((word) => spoken(word) === said);
  if (said === "") return undefined;
  if (isOneOf(words.out)) return "opt_out";
  return isOneOf(words.in) ? "opt_in" : undefined;
}

/** NFKC makes full-width letters and marks narrow. */
function spoken(text: string): string {
  const [sentence = ""] = text
    .normalize("NFKC")
    .trim()
    .split(/[.!?。;\r\n]/);
  return sentence.replace(/^[\p{P}\p{S}\s]+|[\p{P}\p{S}\s]+$/gu, "").toUpperCase();
}
