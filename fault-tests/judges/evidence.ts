/**
 * What the judges look at: the generator's own notes, the suppliers' witness logs, the webhook receiver's
 * log, and rows as plain SQL shows them. Numbers and texts come from the generator and the witness alone,
 * so that it makes no difference how the product keeps them.
 */

/** One text that was asked for. */
export interface Requested {
  /** Unique in the run, and inside every part of the text. */
  token: string;
  /** Given as the message's reference. */
  reference: string;
  to: string;
  text: string;
  parts: number;
  /** Of the number that chose its own fate (interfaces §6); undefined where nothing was asked for. */
  fate: string | undefined;
  /** Undefined while nobody answered: it may or may not have been accepted. */
  id: string | undefined;
  /** It may have been canceled: that was asked for. */
  cancelAsked: boolean;
}

/** One SUBMIT as a supplier read it off the wire. */
export interface Submit {
  supplier: string;
  at: string;
  msgId: string;
  to: string;
  part: number;
  parts: number;
  textHex: string;
  /** Null where it was never answered. */
  result: number | null;
}

/** One receipt as a supplier sent it. */
export interface Receipt {
  supplier: string;
  at: string;
  msgId: string;
  to: string;
  stat: string;
}

/** One call of the webhook receiver. */
export interface Told {
  webhookId: string;
  /** By our own HMAC over what came. */
  signatureHolds: boolean;
  body: string;
  /** What the receiver answered. */
  answered: number;
}

export interface MessageRow {
  id: string;
  reference: string | null;
  status: string;
  reason: string | null;
  uncertain: boolean;
  priceUnits: bigint;
  isFinal: boolean;
  /** Its own limit lies ahead. */
  withinLimit: boolean;
  currentAttemptId: string;
}

export interface AttemptRow {
  id: string;
  messageId: string;
  number: number;
  retryOf: string | null;
  submitId: string;
  state: string;
  outcome: string | null;
  supplierName: string | null;
}

export interface SegmentRow {
  attemptId: string;
  part: number;
  result: string | null;
  receipt: string | null;
}

export interface TakeRow {
  attemptId: string;
  part: number;
  writeNumber: number;
  kind: string;
  answer: string | null;
}

export interface TransferRow {
  key: string;
  kind: string;
  accountId: string;
  messageId: string | null;
  units: bigint;
}

export interface NotificationRow {
  id: string;
  messageId: string;
  status: string;
}

/** What is left to do when all should be done. */
export type Backlog = Record<string, number>;

export interface Facts {
  messages: MessageRow[];
  attempts: AttemptRow[];
  segments: SegmentRow[];
  takes: TakeRow[];
  transfers: TransferRow[];
  notifications: NotificationRow[];
  /** Attempts that a person allowed to be sent again: the only successors that no rule has to explain. */
  allowedByPerson: string[];
}

/** A message's state as a watcher saw it, one after the other. */
export interface Sighting {
  messageId: string;
  status: string;
}

export type Verdict = "lost" | "duplicated" | "uncertain" | "unexpected";

/** What a judge objects to, or, where it is `uncertain`, only tells. */
export interface Finding {
  /** The clause: C1 to C11, or the judge's own name. */
  clause: string;
  verdict: Verdict;
  /** A message's id or token, or what else it is about. */
  subject: string;
  why: string;
}
