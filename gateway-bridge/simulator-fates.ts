/**
 * What the simulated suppliers do with a text, decided by its number: `1xx9999CCCC` chooses fate CCCC
 * (interfaces §6), any other number is accepted and delivered. Times are milliseconds after the SUBMIT
 * was read.
 */

/** A SUBMIT as far as fates care. */
export interface SeenSubmit {
  supplier: string;
  /** Eleven digits. */
  number: string;
  /** From 1; a text of one part is part 1 of 1. */
  part: number;
  parts: number;
  contentHex: string;
}

export interface Outcome {
  /** Epoch milliseconds. */
  at: number;
  result: number | null;
  /** Answered flow control because of rate or window, whatever its fate. */
  violated: boolean;
}

export interface PlannedAnswer {
  result: number;
  afterMs: number;
  times: number;
  /** "zero": the answer hides the Msg_Id that the receipt will carry. */
  msgId: "own" | "zero";
  /** Parts of one text are answered together, the last first. */
  reversed?: true;
}

export interface PlannedReceipt {
  stat: string;
  afterMs: number;
  /** "foreign": of nothing that was ever submitted. */
  msgId: "own" | "foreign";
  /** Where it may go: not on the submit's connection, or only once somebody has logged in again. */
  place: "any" | "other_connection" | "after_login";
}

export interface Plan {
  /** "cut": the connection ends instead. */
  answer: PlannedAnswer | "none" | "cut";
  receipts: PlannedReceipt[];
}

export interface FateTimes {
  /** Of several, a number always has the same one. */
  receiptDelayMs: number | readonly number[];
  /** Factor on every second of the table, so that tests need not wait. */
  timeScale: number;
}

const FLOW_CONTROL = 8;
const OTHER_ERROR = 9;
const THROTTLED_TIMES = 3;
/** So little that nothing fits between, and enough for the order of two timers to hold. */
const RIGHT_AFTER_MS = 10;
/** Apart by more than the parts of a text need to be read, so that the shuffled order holds. */
const SHUFFLE_STEP_MS = 50;

/** One for all suppliers of the process: it remembers which of them first received a number. */
export class Fates {
  readonly #times: FateTimes;
  readonly #firstSupplier = new Map<string, { supplier: string; at: number }>();
  /** Flow-control answers since the text was last accepted, by supplier, number and content. */
  readonly #throttled = new Map<string, number>();

  constructor(times: FateTimes) {
    this.#times = times;
  }

  /** Takes note of a submit and its outcome, also of those read back from an earlier run. */
  remember(seen: SeenSubmit, outcome: Outcome): void {
    const code = fateCode(seen.number);
    if (code?.startsWith("05") === true) this.#rememberFirst(seen, outcome.at);
    if (code === "0120" && !outcome.violated) this.#rememberThrottled(seen, outcome.result);
  }

  plan(seen: SeenSubmit): Plan {
    const { receiptDelayMs, timeScale } = this.#times;
    const situation: Situation = {
      ...seen,
      soon: delayFor(seen.number, receiptDelayMs),
      seconds: (count) => count * 1000 * timeScale,
      isFirstSupplier: this.#isFirst(seen),
      timesThrottled: this.#throttled.get(throttleKey(seen)) ?? 0,
    };
    return (FATES[fateCode(seen.number) ?? ""] ?? delivered)(situation);
  }

  /** True for a number that nobody has received yet. */
  #isFirst(seen: SeenSubmit): boolean {
    const first = this.#firstSupplier.get(seen.number);
    return first === undefined || first.supplier === seen.supplier;
  }

  #rememberFirst(seen: SeenSubmit, at: number): void {
    const first = this.#firstSupplier.get(seen.number);
    if (first === undefined || at < first.at) {
      this.#firstSupplier.set(seen.number, { supplier: seen.supplier, at });
    }
  }

  #rememberThrottled(seen: SeenSubmit, result: number | null): void {
    const key = throttleKey(seen);
    if (result === FLOW_CONTROL) this.#throttled.set(key, (this.#throttled.get(key) ?? 0) + 1);
    else this.#throttled.delete(key);
  }
}

/** What a fate may look at, with the times that it composes its own of. */
interface Situation extends SeenSubmit {
  /** After how many milliseconds a receipt usually comes. */
  soon: number;
  /** Seconds of the table in milliseconds. */
  seconds: (count: number) => number;
  isFirstSupplier: boolean;
  /** In a row, for this text, until now. */
  timesThrottled: number;
}
type Fate = (it: Situation) => Plan;

const ACCEPTED: PlannedAnswer = { result: 0, afterMs: 0, times: 1, msgId: "own" };

const receipt = (stat: string, afterMs: number): PlannedReceipt => ({
  stat,
  afterMs,
  msgId: "own",
  place: "any",
});

const accepted = (...receipts: PlannedReceipt[]): Plan => ({ answer: ACCEPTED, receipts });

const delivered: Fate = ({ soon }) => accepted(receipt("DELIVRD", soon));

const rejected =
  (result: number): Fate =>
  () => ({ answer: { result, afterMs: 0, times: 1, msgId: "zero" }, receipts: [] });

const FATES: Readonly<Record<string, Fate>> = {
  "0001": ({ soon }) => accepted(receipt("UNDELIV", soon)),
  "0002": ({ soon }) => accepted(receipt("EXPIRED", soon)),
  "0003": ({ soon }) => accepted(receipt("REJECTD", soon)),
  "0004": () => accepted(),
  "0005": ({ soon }) => accepted(receipt("XYZ:001", soon)),
  "0006": ({ soon, seconds }) => accepted(receipt("ACCEPTD", soon), receipt("DELIVRD", soon + seconds(1))),
  ...rejections(1, 13),
  "0120": (it) => (it.timesThrottled < THROTTLED_TIMES ? rejected(FLOW_CONTROL) : delivered)(it),
  "0121": rejected(FLOW_CONTROL),
  "0201": ({ soon, seconds }) => ({
    answer: { ...ACCEPTED, afterMs: soon + seconds(2) },
    receipts: [receipt("DELIVRD", soon)],
  }),
  "0202": ({ seconds }) => ({ answer: "none", receipts: [receipt("DELIVRD", seconds(2))] }),
  "0203": () => ({ answer: "none", receipts: [] }),
  "0204": ({ soon }) => ({ answer: { ...ACCEPTED, times: 3 }, receipts: [receipt("DELIVRD", soon)] }),
  "0205": ({ soon, seconds }) =>
    accepted(...[soon, soon, soon + seconds(5)].map((afterMs) => receipt("DELIVRD", afterMs))),
  "0206": ({ soon, seconds }) => accepted(receipt("UNDELIV", soon), receipt("DELIVRD", soon + seconds(1))),
  "0207": ({ soon, seconds }) => accepted(receipt("DELIVRD", soon), receipt("UNDELIV", soon + seconds(1))),
  "0208": ({ soon }) => accepted({ ...receipt("DELIVRD", soon), place: "other_connection" }),
  "0209": ({ soon }) => ({
    answer: "cut",
    receipts: [{ ...receipt("DELIVRD", soon), place: "after_login" }],
  }),
  "0210": ({ soon }) => ({ answer: { ...ACCEPTED, msgId: "zero" }, receipts: [receipt("DELIVRD", soon)] }),
  "0211": ({ soon, seconds }) => accepted(receipt("DELIVRD", soon + seconds(10))),
  "0212": ({ seconds }) => ({
    answer: { ...ACCEPTED, afterMs: seconds(15) },
    receipts: [receipt("DELIVRD", seconds(15) + RIGHT_AFTER_MS)],
  }),
  "0213": ({ soon }) => accepted({ ...receipt("DELIVRD", soon), msgId: "foreign" }),
  "0214": ({ soon }) => accepted(receipt("UNDELIV", soon), receipt("DELIVRD", soon)),
  "0301": (it) => (it.part === 1 ? delivered(it) : accepted()),
  "0302": (it) => (it.part === it.parts ? delivered(it) : accepted()),
  "0303": (it) => (it.part === 2 ? accepted(receipt("UNDELIV", it.soon)) : delivered(it)),
  "0304": (it) => ({
    answer: it.parts > 1 ? { ...ACCEPTED, reversed: true } : ACCEPTED,
    receipts: [receipt("DELIVRD", it.soon + shuffledPlace(it) * SHUFFLE_STEP_MS)],
  }),
  "0305": (it) => (it.part === 2 ? rejected(OTHER_ERROR) : delivered)(it),
  "0501": (it) => (it.isFirstSupplier ? rejected(OTHER_ERROR) : delivered)(it),
  "0502": (it) => (it.isFirstSupplier ? accepted(receipt("UNDELIV", it.soon)) : delivered(it)),
  "0503": (it) =>
    it.isFirstSupplier
      ? accepted(receipt("UNDELIV", it.soon), receipt("DELIVRD", it.soon + it.seconds(5)))
      : delivered(it),
};

/** 01nn: the answer nn, every time. */
function rejections(from: number, to: number): Record<string, Fate> {
  const fates: Record<string, Fate> = {};
  for (let result = from; result <= to; result++) {
    fates[`01${String(result).padStart(2, "0")}`] = rejected(result);
  }
  return fates;
}

function delayFor(number: string, delays: number | readonly number[]): number {
  if (typeof delays === "number") return delays;
  return delays[Number(number.slice(-LAST_DIGITS)) % delays.length] ?? 0;
}
const LAST_DIGITS = 4;

const fateCode = (number: string): string | undefined => /^1\d\d9999(\d{4})$/.exec(number)?.[1];

const throttleKey = (seen: SeenSubmit): string => `${seen.supplier} ${seen.number} ${seen.contentHex}`;

/** The last part's receipt comes first, the others in order: neither order in which parts were sent. */
const shuffledPlace = (seen: SeenSubmit): number => seen.part % seen.parts;
