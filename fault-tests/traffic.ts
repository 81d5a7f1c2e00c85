/**
 * What customers do meanwhile: texts of all kinds at a steady rate, over HTTP, noted with what was answered.
 * It shares nothing with the judges but its notes.
 */
import type { Requested } from "./judges/evidence.ts";
import { type Random, randomFrom } from "./random.ts";

/** In every text and nowhere else: where it turns up, a text has leaked (C10). */
export const CANARY = "canary-orchid";

/** Fates that come to an end by themselves or by their limit; a throttle for ever would hold up all others. */
const SHORT_FATES = (
  "0001 0002 0003 0004 0005 0006 0101 0109 0120 0201 0202 0203 0204 0205 0206 0207 0208 0209 " +
  "0210 0211 0212 0213 0214 0501 0502 0503"
).split(" ");
const LONG_FATES = ["0301", "0302", "0303", "0304", "0305"];
/** Of all three operators. */
const PREFIXES = (
  "35 36 37 38 39 50 51 52 57 58 59 82 83 84 87 88 " +
  "30 31 32 55 56 85 86 " +
  "33 53 80 81 89"
).split(" ");
const FATED = 0.2;
const LONG = 0.1;
const KEYED = 0.5;
const CANCELED = 0.03;

const CALL_TIMEOUT_MS = 5_000;
const REPEAT_MS = 500;
/** A client with a key asks until it knows; no fault of ours lasts as long. */
const KEYED_PATIENCE_MS = 90_000;

export interface Note extends Requested {
  /** Epoch milliseconds; undefined while nobody has answered. */
  answeredAt?: number;
}

export interface TrafficOptions {
  seed: number;
  api: string;
  apiKey: string;
  webhookUrl: string;
  ratePerSecond: number;
  validitySeconds: number;
}

export interface Traffic {
  readonly notes: readonly Note[];
  /** From now on at another rate. */
  setRate(perSecond: number): void;
  /** No new texts; resolves when those under way are answered or given up. */
  stop(): Promise<void>;
}

export function startTraffic(options: TrafficOptions): Traffic {
  const random = randomFrom(options.seed, "traffic");
  const notes: Note[] = [];
  const underWay = new Set<Promise<void>>();
  let { ratePerSecond } = options;
  let isOver = false;

  function sendOne(): void {
    const wish = wishFor(random, options.seed, notes.length);
    notes.push(wish.note);
    const call = submit(options, wish).finally(() => underWay.delete(call));
    underWay.add(call);
  }

  let timer = setTimeout(function next() {
    if (isOver) return;
    sendOne();
    timer = setTimeout(next, 1_000 / ratePerSecond);
  }, 0);

  return {
    notes,
    setRate: (perSecond) => (ratePerSecond = perSecond),
    async stop() {
      isOver = true;
      clearTimeout(timer);
      await Promise.all(underWay);
    },
  };
}

interface Wish {
  note: Note;
  /** Idempotency-Key. */
  key: string | undefined;
}

function wishFor(random: Random, seed: number, index: number): Wish {
  const fated = random.chance(FATED);
  const isLong = random.chance(fated ? LONG_FATES.length / (SHORT_FATES.length + LONG_FATES.length) : LONG);
  const fate = fated ? random.pick(isLong ? LONG_FATES : SHORT_FATES) : undefined;
  const token = `${seed}-${index}`;
  const text = textWith(token, isLong, random.chance(0.5));
  const prefix = random.pick(PREFIXES);
  const key = random.chance(KEYED) ? `key-${token}` : undefined;
  const note: Note = {
    token,
    reference: `ref-${token}`,
    to: fate === undefined ? `1${prefix}${eightDigits(random)}` : `1${prefix}9999${fate}`,
    text,
    parts: isLong ? 3 : 1,
    fate,
    id: undefined,
    cancelAsked: random.chance(CANCELED),
  };
  return { note, key };
}

/** Not 9999 in the middle, which would choose a fate. */
const eightDigits = (random: Random): string =>
  `${String(random.below(9_999)).padStart(4, "0")}${String(random.below(10_000)).padStart(4, "0")}`;

/** A long text says its token often enough that every part of it has one whole. */
function textWith(token: string, isLong: boolean, inChinese: boolean): string {
  const once = inChinese ? `${CANARY} 您好 [${token}]。` : `${CANARY} hello [${token}] `;
  const limit = inChinese ? 67 * 3 : 153 * 3;
  return isLong ? once.repeat(Math.ceil(limit / once.length)).slice(0, limit) : once.trim();
}

async function submit(options: TrafficOptions, { note, key }: Wish): Promise<void> {
  const giveUpAt = Date.now() + (key === undefined ? 0 : KEYED_PATIENCE_MS);
  do {
    const id = await post(options, note, key);
    if (id !== undefined) {
      note.id = id;
      note.answeredAt = Date.now();
      if (note.cancelAsked) await cancel(options, id);
      return;
    }
    if (key !== undefined) await new Promise((resolve) => setTimeout(resolve, REPEAT_MS));
  } while (Date.now() < giveUpAt);
}

/** Undefined where it is not known whether the text was accepted. */
async function post(
  { api, apiKey, webhookUrl, validitySeconds }: TrafficOptions,
  { to, text, reference }: Note,
  key: string | undefined,
): Promise<string | undefined> {
  try {
    const answer = await fetch(`${api}/v1/messages`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${apiKey}`,
        "content-type": "application/json",
        ...(key === undefined ? {} : { "idempotency-key": key }),
      },
      body: JSON.stringify({ to, text, reference, webhookUrl, validitySeconds }),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    const body = (await answer.json()) as { id?: string };
    return answer.status === 202 ? body.id : undefined;
  } catch {
    return undefined; // Cut off: it may or may not have been accepted, and that is what is noted.
  }
}

/** Whatever comes of it: both "canceled" and "too late" are fine, and an answer may get lost too. */
async function cancel({ api, apiKey }: TrafficOptions, id: string): Promise<void> {
  const answer = await fetch(`${api}/v1/messages/${id}/cancel`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  }).catch(() => undefined);
  await answer?.body?.cancel();
}
