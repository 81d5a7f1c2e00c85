/** The figures of one tier: rates over the window, latencies, and by which stage a slow one was held. */
import type { Sent } from "./generator-protocol.ts";
import type { AttemptFact, SegmentFact, StoredFacts } from "./facts.ts";
import { type Percentiles, percentilesOf, rounded } from "./latency.ts";
import type { PlannedMessage } from "./plan.ts";
import type { WitnessedReceipt } from "./suppliers.ts";
import type { WitnessedSubmit } from "./verdict.ts";

/** All over the window, a second (L). */
export interface Rates {
  accepted: number;
  /** Messages of which every segment of the first attempt was answered: the rate that counts. */
  firstSubmits: number;
  allSubmits: number;
  delivered: number;
  segmentReceipts: number;
}

export interface Figures {
  rates: Rates;
  acceptMs: Percentiles;
  acceptToSubmitMs: Pick<Percentiles, "p50" | "p99">;
  receiptToWebhookMs: Pick<Percentiles, "p50" | "p99">;
  /** Messages of the load whose first submit was not complete when the window ended, by what they waited for. */
  waitingAtEnd: Record<Stage, number>;
}

export type Stage =
  | "generator"
  | "api"
  | "intake_and_planning"
  | "publish"
  | "gateway"
  | "supplier_and_results";

export interface Seen {
  /** Epoch milliseconds. */
  beganAt: number;
  seconds: number;
  planned: readonly PlannedMessage[];
  sent: readonly Sent[];
  stored: StoredFacts;
  submits: readonly WitnessedSubmit[];
  receipts: readonly WitnessedReceipt[];
}

/** What is far more than timers cost: then the generator itself is what holds the tier. */
const LATE_MS = 500;

export function figuresOf(seen: Seen): Figures {
  const { beganAt, seconds, planned, sent, stored, submits, receipts } = seen;
  const endedAt = beganAt + seconds * 1_000;
  const inWindow = (at: number | null): boolean => at !== null && at >= beganAt && at < endedAt;
  const perSecond = (count: number): number => rounded(count / seconds);
  const journeys = journeysOf(seen);
  const load = journeys.filter((_, index) => planned[index]?.sender === "main");
  return {
    rates: {
      accepted: perSecond(sent.filter((it) => it.id !== null && inWindow(it.answeredAt)).length),
      firstSubmits: perSecond(load.filter(({ completedAt }) => inWindow(completedAt)).length),
      allSubmits: perSecond(submits.filter(({ at }) => inWindow(at)).length),
      delivered: perSecond(
        stored.messages.filter((it) => it.status === "delivered" && inWindow(it.final_at)).length,
      ),
      segmentReceipts: perSecond(receipts.filter(({ at }) => inWindow(at)).length),
    },
    acceptMs: percentilesOf(sent.flatMap((it) => (it.answeredAt === null ? [] : [it.answeredAt - it.dueAt]))),
    acceptToSubmitMs: percentilesOf(journeys.flatMap((it) => between(it.sent.answeredAt, it.submittedAt))),
    receiptToWebhookMs: percentilesOf(
      journeys.flatMap((it) => between(it.lastReceiptAt, it.sent.webhooks[0]?.at ?? null)),
    ),
    waitingAtEnd: waitingAt(endedAt, load),
  };
}

/** The stage at which most messages stood. */
export function heldBy({ waitingAtEnd }: Figures): Stage | undefined {
  const stages = Object.entries(waitingAtEnd) as [Stage, number][];
  const [most] = stages.toSorted(([, a], [, b]) => b - a);
  return most !== undefined && most[1] > 0 ? most[0] : undefined;
}

interface Journey {
  sent: Sent;
  attempt: AttemptFact | undefined;
  takenAt: number | null;
  /** First byte that a supplier saw of it. */
  submittedAt: number | null;
  /** When each segment of the first attempt had its answer. */
  completedAt: number | null;
  lastReceiptAt: number | null;
}

/** In the order in which they were sent. */
function journeysOf({ planned, sent, stored, submits, receipts }: Seen): Journey[] {
  const firsts = new Map(
    stored.attempts.flatMap((it) => (it.retry_of === null ? [[it.message_id, it] as const] : [])),
  );
  const segments = new Map<string, SegmentFact[]>();
  for (const it of stored.segments) segments.set(it.attempt_id, [...(segments.get(it.attempt_id) ?? []), it]);
  const submittedAt = extremes(submits, Math.min);
  const receivedAt = extremes(receipts, Math.max);
  return sent.map((it, index) => {
    const attempt = it.id === null ? undefined : firsts.get(it.id);
    const parts = segments.get(attempt?.id ?? "") ?? [];
    const to = planned[index]?.to ?? "";
    return {
      sent: it,
      attempt,
      takenAt: lastOf(parts.map((part) => part.taken_at)),
      submittedAt: submittedAt.get(to) ?? null,
      completedAt: lastOf(parts.map((part) => part.result_at)),
      lastReceiptAt: receivedAt.get(to) ?? null,
    };
  });
}

function extremes(
  records: readonly { at: number; to: string }[],
  pick: (a: number, b: number) => number,
): Map<string, number> {
  const found = new Map<string, number>();
  for (const { at, to } of records) found.set(to, pick(found.get(to) ?? at, at));
  return found;
}

/** Null where one of them has not come, or there is none. */
const lastOf = (times: readonly (number | null)[]): number | null =>
  times.length === 0 || times.includes(null) ? null : Math.max(...times.map(Number));

const between = (from: number | null, to: number | null): number[] =>
  from === null || to === null ? [] : [Math.max(0, to - from)];

function waitingAt(endedAt: number, journeys: readonly Journey[]): Record<Stage, number> {
  const waiting: Record<Stage, number> = {
    generator: 0,
    api: 0,
    intake_and_planning: 0,
    publish: 0,
    gateway: 0,
    supplier_and_results: 0,
  };
  const isLater = (at: number | null | undefined): boolean =>
    at === null || at === undefined || at >= endedAt;
  for (const { sent, attempt, takenAt, completedAt } of journeys) {
    if (!isLater(completedAt)) continue;
    if (sent.sentAt >= endedAt || sent.sentAt - sent.dueAt > LATE_MS) waiting.generator++;
    else if (isLater(sent.answeredAt) || sent.id === null) waiting.api++;
    else if (isLater(attempt?.queued_at)) waiting.intake_and_planning++;
    else if (isLater(attempt?.published_at)) waiting.publish++;
    else if (isLater(takenAt)) waiting.gateway++;
    else waiting.supplier_and_results++;
  }
  return waiting;
}
