/** What one tier sends: numbers that were never used before, texts, and what must become of each message. */
import { PREFIXES } from "../db/seed.ts";
import { type FinalStatus, OPERATORS, type Operator } from "../domain/message.ts";
import { describeText } from "../domain/segment.ts";

export interface PlannedMessage {
  /** Milliseconds after the window begins. */
  dueMs: number;
  /** Eleven digits. */
  to: string;
  operator: Operator;
  text: string;
  segments: number;
  /** The final state that the supplier's behaviour leads to. */
  expected: FinalStatus;
  /** The stopped one is disabled in the middle of the window (L7) and does not count towards the rate. */
  sender: "main" | "stopped";
}

export interface Traffic {
  ratePerSecond: number;
  seconds: number;
  /** Share of texts of three segments. */
  longShare: number;
  fates: "delivered" | "mix";
}

/** Simulated fates (interfaces §6) and where the rules lead them; those for long texts have their own list. */
const FATES: Readonly<Record<string, FinalStatus>> = {
  "0001": "undelivered",
  "0006": "delivered",
  "0109": "failed",
  "0120": "delivered",
  "0201": "delivered",
  "0204": "delivered",
  "0205": "delivered",
  "0208": "delivered",
  "0501": "delivered",
  "0502": "delivered",
};
const LONG_FATES: Readonly<Record<string, FinalStatus>> = {
  "0303": "undelivered",
  "0304": "delivered",
  "0305": "failed",
};
/** Of a mix, so many messages have a fate of their own for as long as there are numbers for it. */
const FATED_SHARE = 0.15;
/** Messages a second of the application that is stopped. */
const STOPPED_PER_SECOND = 2;

const SHORT_TEXT = "Your code is 482193, it holds for five minutes.";
const LONG_TEXT =
  "尊敬的用户：您的快递已到达小区驿站，请携带手机前往领取，超过三日未领取的包裹将退回发件人。".repeat(4);

/** Fates name numbers by their last eight digits, so each has one number a prefix. */
const FATED_MIDDLE = "9999";
const NUMBERS_PER_PREFIX = 100_000_000;

interface Destination {
  to: string;
  operator: Operator;
}

/** Every prefix once, the operators taking turns for as long as each has one. */
const PLACES: readonly { prefix: number; operator: Operator }[] = OPERATORS.flatMap((operator) =>
  PREFIXES[operator].map((prefix, turn) => ({ prefix, operator, turn })),
).sort((a, b) => a.turn - b.turn);

/** Never gives one number twice, and lets fates take turns. */
export class Numbers {
  readonly #fated = new Map<string, number>();
  readonly #turns = new Map<object, number>();
  #next = 10_000_000;
  #turn = 0;

  plain(): Destination {
    const place = placeAt(this.#turn++ % PLACES.length);
    let rest = this.#digits();
    while (rest.startsWith(FATED_MIDDLE)) rest = this.#digits();
    return { to: `${place.prefix}${rest}`, operator: place.operator };
  }

  /** The entries of a list taking turns, whatever asks for them how often. */
  nextOf<Value>(list: Readonly<Record<string, Value>>): [string, Value] {
    const entries = Object.entries(list);
    const turn = this.#turns.get(list) ?? 0;
    this.#turns.set(list, turn + 1);
    const entry = entries[turn % entries.length];
    if (entry === undefined) throw new RangeError("the list is empty");
    return entry;
  }

  /** Undefined when each prefix has had its number with this fate. */
  fated(code: string): Destination | undefined {
    const used = this.#fated.get(code) ?? 0;
    if (used >= PLACES.length) return undefined;
    this.#fated.set(code, used + 1);
    const place = placeAt(used);
    return { to: `${place.prefix}${FATED_MIDDLE}${code}`, operator: place.operator };
  }

  #digits(): string {
    this.#next = (this.#next + 1) % NUMBERS_PER_PREFIX;
    return String(this.#next).padStart(8, "0");
  }
}

function placeAt(index: number): { prefix: number; operator: Operator } {
  const place = PLACES[index];
  if (place === undefined) throw new RangeError(`there is no prefix ${index}`);
  return place;
}

/** In the order in which they are due. */
export function planTraffic(traffic: Traffic, numbers: Numbers): PlannedMessage[] {
  const { ratePerSecond, seconds } = traffic;
  const main = Array.from({ length: Math.round(ratePerSecond * seconds) }, (_, index) => ({
    ...planOne(traffic, numbers, index),
    dueMs: (index * 1_000) / ratePerSecond,
    sender: "main" as const,
  }));
  const stopped = Array.from({ length: Math.round(STOPPED_PER_SECOND * seconds) }, (_, index) => ({
    ...planOne({ ...traffic, fates: "delivered", longShare: 0 }, numbers, index),
    dueMs: (index * 1_000) / STOPPED_PER_SECOND,
    sender: "stopped" as const,
  }));
  return [...main, ...stopped].sort((a, b) => a.dueMs - b.dueMs);
}

type Content = Omit<PlannedMessage, "dueMs" | "sender">;

function planOne({ longShare, fates }: Traffic, numbers: Numbers, index: number): Content {
  const isLong = everySoOften(index, longShare);
  const fated = fates === "mix" && everySoOften(index, FATED_SHARE) ? withFate(numbers, isLong) : undefined;
  return fated ?? described(numbers.plain(), isLong, "delivered");
}

function withFate(numbers: Numbers, isLong: boolean): Content | undefined {
  const [code, expected] = numbers.nextOf(isLong ? LONG_FATES : FATES);
  const number = numbers.fated(code);
  return number && described(number, isLong, expected);
}

function described(number: Destination, isLong: boolean, expected: FinalStatus): Content {
  const text = isLong ? LONG_TEXT : SHORT_TEXT;
  return { ...number, text, segments: describeText(text).segmentCount, expected };
}

/** True for so large a share of all indexes, evenly spread, and the same ones each time. */
const everySoOften = (index: number, share: number): boolean =>
  Math.floor((index + 1) * share) > Math.floor(index * share);
