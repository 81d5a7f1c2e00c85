/**
 * What must become of a message by the fate in its number, said from the rules alone (interfaces §6, rules
 * D4–D9): nothing here knows how Waybill works.
 */
export type ReceiptMode = "per_segment" | "message_level";

export interface Ordered {
  fate: string;
  parts: number;
  validitySeconds: number;
}

export interface Expected {
  /** Any of these is right; timing decides between them. */
  statuses: readonly string[];
  /** Attempts that reached a supplier; undefined where timing decides. */
  attempts?: number;
}

/** Fates with which a message can only expire, and those that keep a connection waiting: sent less often. */
export const ENDLESS = ["0004", "0005", "0103", "0203", "0213", "0301", "0302"] as const;
export const THROTTLED = ["0108", "0120", "0121"] as const;
/** Cuts connections, so messages beside it may lose their answers too: sent when nothing else is under way. */
export const CUTS = ["0209"] as const;
export const PLAIN = (
  "0000 0001 0002 0003 0006 0101 0102 0104 0105 0106 0107 0109 0110 0111 0112 0113 " +
  "0201 0202 0204 0205 0206 0207 0208 0210 0211 0212 0214 0303 0304 0305 0501 0502 0503"
).split(" ");

/** Those that end, if at all, when their limit does. */
export const WAITING: ReadonlySet<string> = new Set([...ENDLESS, ...THROTTLED, ...CUTS]);

/** Waybill's own response timeout in the demo, and time for what follows. */
const LATEST_FACT_S = 20;

export function expectedOf(it: Ordered, mode: ReceiptMode): Expected {
  const usual = usualOf(it, mode);
  // Facts that come in time are worth more than the limit, and which comes first is a race.
  return it.validitySeconds > LATEST_FACT_S && !WAITING.has(it.fate)
    ? usual
    : { statuses: [...new Set([...usual.statuses, "expired"])] };
}

/** Every channel of the group once. */
const EVERYWHERE = 3;
const DELIVERED: Expected = { statuses: ["delivered"], attempts: 1 };
const EXPIRED: Expected = { statuses: ["expired"], attempts: 1 };
const UNDELIVERED: Expected = { statuses: ["undelivered"], attempts: EVERYWHERE };
/** The fault is in the message itself, so nobody else is asked (cmpp §11). */
const HOPELESS: Expected = { statuses: ["failed"], attempts: 1 };
const FAILED: Expected = { statuses: ["failed"], attempts: EVERYWHERE };

/** A fate that is not listed is delivered. */
const USUAL: Readonly<Record<string, Expected>> = {
  "0001": UNDELIVERED,
  "0002": UNDELIVERED,
  "0003": UNDELIVERED,
  "0004": EXPIRED,
  "0005": EXPIRED,
  "0101": HOPELESS,
  "0102": HOPELESS,
  "0103": EXPIRED,
  "0104": HOPELESS,
  "0105": FAILED,
  "0106": HOPELESS,
  "0107": FAILED,
  "0108": { statuses: ["expired", "failed"] },
  "0109": FAILED,
  "0110": FAILED,
  "0111": FAILED,
  "0112": FAILED,
  "0113": HOPELESS,
  "0121": { statuses: ["expired", "failed"] },
  "0203": EXPIRED,
  // Delivered only where both receipts were there before the first decision (D8).
  "0206": { statuses: ["undelivered", "delivered"] },
  "0209": { statuses: ["delivered", "expired"], attempts: 1 },
  "0213": EXPIRED,
  "0501": { statuses: ["delivered"], attempts: 2 },
  "0502": { statuses: ["delivered"], attempts: 2 },
  // On a machine that takes five seconds to decide, the late receipt is not late.
  "0503": { statuses: ["delivered"] },
};

/** What a long message comes to otherwise, where each part has its own receipt. */
const LONG: Readonly<Record<string, Expected>> = {
  "0301": EXPIRED,
  "0302": EXPIRED,
  "0303": { statuses: ["undelivered"], attempts: 1 },
  "0305": HOPELESS,
};

/** And where one receipt speaks for all of them. */
const LONG_AS_ONE: Readonly<Record<string, Expected>> = {
  "0303": { statuses: ["delivered", "undelivered"] },
  "0305": HOPELESS,
};

function usualOf({ fate, parts }: Ordered, mode: ReceiptMode): Expected {
  const long = mode === "per_segment" ? LONG : LONG_AS_ONE;
  return (parts > 1 ? long[fate] : undefined) ?? USUAL[fate] ?? DELIVERED;
}

/** Kinds of ledger entries, in order, that a status may have. */
export const MONEY: Readonly<Record<string, readonly string[]>> = {
  delivered: ["reserve,charge"],
  undelivered: ["reserve,charge,refund"],
  failed: ["reserve,release", "reserve,charge,refund"],
  expired: ["", "reserve,release", "reserve,charge,refund"],
  refused: ["", "reserve,release"],
  canceled: ["", "reserve,release"],
};
