/** One message's story in order, told from facts alone; and what it waits for while it is not over. */
import type { AttemptRow, MessageFacts, SegmentRow, TakeRow, TransferRow } from "../db/story.ts";
import { isFinal } from "../domain/message.ts";
import type { AnswerOf, message as messageShape } from "./answers.ts";

type Entry = AnswerOf<typeof messageShape>["timeline"][number];
type WaitingFor = NonNullable<AnswerOf<typeof messageShape>["waitingFor"]>;

/** The order of steps in the chain: it decides between entries of one moment, which one transaction writes. */
const STEPS = [
  "accepted",
  "reserved",
  "attempt",
  "route",
  "published",
  "withdrawn",
  "written",
  "answered",
  "receipt",
  "charged",
  "decided",
  "returned",
  "final",
  "notification",
  "notified",
] as const;

interface Fact extends Entry {
  step: (typeof STEPS)[number];
  /** Facts of an earlier attempt go before those of its successor. */
  attempt: number;
}

/** Sorted by time, then attempt, then step of the chain; equal ones keep the order of their rows. */
export function timelineOf(facts: MessageFacts): Entry[] {
  const all = [
    ...acceptance(facts),
    ...facts.attempts.flatMap(planning),
    ...facts.commands.flatMap((command) =>
      present(command.published_at, (at) => ({
        at,
        step: "published",
        attempt: numberOf(facts, command.attempt_id),
        what: "handed to the gateway over the stream",
      })),
    ),
    ...facts.takes.flatMap((take) => writing(facts, take)),
    ...facts.segments.flatMap((segment) => answering(facts, segment)),
    ...receipts(facts),
    ...facts.transfers.map((transfer) => money(facts, transfer)),
    ...ending(facts),
    ...telling(facts),
  ];
  return all.sort(inOrder).map(({ at, what, why }) => (why === undefined ? { at, what } : { at, what, why }));
}

function inOrder(a: Fact, b: Fact): number {
  if (a.at !== b.at) return a.at < b.at ? -1 : 1;
  return a.attempt - b.attempt || STEPS.indexOf(a.step) - STEPS.indexOf(b.step);
}

const present = (at: string | null, fact: (at: string) => Fact): Fact[] => (at === null ? [] : [fact(at)]);

const because = (why: string | null): { why?: string } => (why === null ? {} : { why });

const numberOf = (facts: MessageFacts, attemptId: string): number =>
  facts.attempts.find((attempt) => attempt.id === attemptId)?.number ?? 0;

const lastNumber = (facts: MessageFacts): number => facts.attempts.at(-1)?.number ?? 0;

/** "part 2 of 3", and nothing where there is only one. */
const partOf = (facts: MessageFacts, part: number | null): string =>
  facts.segment_count === 1 || part === null ? "" : `part ${part} of ${facts.segment_count} `;

const acceptance = (facts: MessageFacts): Fact[] => [
  {
    at: facts.created_at,
    step: "accepted",
    attempt: 0,
    what: "accepted",
    why: `${facts.segment_count} segment${facts.segment_count === 1 ? "" : "s"} of ${facts.encoding}`,
  },
];

function planning(attempt: AttemptRow): Fact[] {
  const shared = { attempt: attempt.number } as const;
  return [
    {
      ...shared,
      at: attempt.created_at,
      step: "attempt",
      what: `attempt ${attempt.number} begun`,
      ...(attempt.retry_of === null ? {} : { why: `replaces attempt ${attempt.number - 1}` }),
    },
    ...present(attempt.queued_at, (at) => ({
      ...shared,
      at,
      step: "route",
      what: `queued for channel ${attempt.channel_name ?? attempt.channel_id ?? "unknown"}`,
      ...because(reasonsOf(attempt)),
    })),
    ...present(attempt.decided_at, (at) => ({
      ...shared,
      at,
      step: "decided",
      what: `attempt ${attempt.number} decided: ${attempt.outcome ?? "ended"}`,
      ...because(attempt.reason),
    })),
  ];
}

const reasonsOf = (attempt: AttemptRow): string | null => {
  const reasons = consideredOf(attempt.route).map(({ channelId, verdict }) =>
    channelId === attempt.channel_id ? `${channelId} chosen` : `${channelId} ${verdict.replaceAll("_", " ")}`,
  );
  return reasons.length === 0 ? null : reasons.join(", ");
};

/** The plan as it was stored beside the attempt: the list, or an object that holds it. */
export function consideredOf(route: unknown): { channelId: string; verdict: string }[] {
  const list: unknown =
    typeof route === "object" && route !== null && "considered" in route ? route.considered : route;
  return Array.isArray(list)
    ? list.flatMap((entry: unknown) =>
        isConsidered(entry) ? [{ channelId: entry.channelId, verdict: entry.verdict }] : [],
      )
    : [];
}

const isConsidered = (entry: unknown): entry is { channelId: string; verdict: string } =>
  typeof entry === "object" &&
  entry !== null &&
  "channelId" in entry &&
  typeof entry.channelId === "string" &&
  "verdict" in entry &&
  typeof entry.verdict === "string";

function writing(facts: MessageFacts, take: TakeRow): Fact[] {
  const attempt = numberOf(facts, take.attempt_id);
  const which = partOf(facts, take.part);
  if (take.kind === "withdrawn") {
    return [
      { at: take.taken_at, step: "withdrawn", attempt, what: `${which}withdrawn before it was written` },
    ];
  }
  const again = take.write_number === 1 ? {} : { why: `write ${take.write_number}, after throttling` };
  return [
    {
      at: take.taken_at,
      step: "written",
      attempt,
      what: `${which}taken to be written to the supplier`,
      ...again,
    },
    ...(take.answer === "throttled"
      ? present(take.answered_at, (at) => ({
          at,
          step: "answered",
          attempt,
          what: `${which}throttled by the supplier`,
        }))
      : []),
  ];
}

const ANSWERS = {
  accepted: "accepted by the supplier",
  rejected: "rejected by the supplier",
  unknown: "got no answer: it may or may not have been taken",
  never_written: "was never written",
} as const;

function answering(facts: MessageFacts, segment: SegmentRow): Fact[] {
  const { result, result_code: code } = segment;
  if (result === null) return [];
  return present(segment.result_at, (at) => ({
    at,
    step: "answered",
    attempt: numberOf(facts, segment.attempt_id),
    what: `${partOf(facts, segment.part)}${ANSWERS[result]}`,
    ...because(result === "rejected" && code !== null ? `result ${code}` : null),
  }));
}

const receipts = (facts: MessageFacts): Fact[] =>
  facts.receipts.map((receipt) => ({
    at: receipt.received_at,
    step: "receipt",
    attempt: numberOf(facts, receipt.attempt_id),
    what: `receipt ${partOf(facts, receipt.part)}${receipt.stat ?? ""}`.trim(),
    ...because(receipt.fate === "late" ? "came after the decision: kept, and changes nothing" : null),
  }));

const TRANSFERS = {
  reserve: { what: "reserved", step: "reserved" },
  charge: { what: "charged", step: "charged" },
  release: { what: "reservation released", step: "returned" },
  refund: { what: "refunded", step: "returned" },
} as const;

function money(facts: MessageFacts, transfer: TransferRow): Fact {
  const { what, step } = TRANSFERS[transfer.kind];
  return {
    at: transfer.created_at,
    step,
    attempt: transfer.kind === "reserve" ? 1 : lastNumber(facts),
    what: `${what} ${transfer.units} units`,
  };
}

const ending = (facts: MessageFacts): Fact[] => [
  ...present(facts.final_at, (at) => ({
    at,
    step: "final",
    attempt: lastNumber(facts),
    what: facts.status,
    ...because(facts.reason),
  })),
];

function telling(facts: MessageFacts): Fact[] {
  const attempt = lastNumber(facts);
  return [
    ...facts.notifications.map((notification): Fact => ({
      at: notification.created_at,
      step: "notification",
      attempt,
      what: "notification written",
      why: notification.id,
    })),
    ...facts.tries.map((each): Fact => ({
      at: each.at,
      step: "notified",
      attempt,
      what: each.error === null ? "webhook taken" : `webhook try ${each.try_number} failed`,
      ...because(each.error ?? (each.http_status === null ? null : `HTTP ${each.http_status}`)),
    })),
  ];
}

/** Undefined once the message is final. */
export function waitingFor(facts: MessageFacts): WaitingFor | undefined {
  if (isFinal(facts.status)) return undefined;
  const attempt = facts.attempts.find(({ id }) => id === facts.current_attempt_id);
  const until = facts.expires_at;
  if (facts.review_reason !== null) {
    const what = `a person to decide: ${facts.review_reason}`;
    return { kind: "person", what, since: facts.review_since ?? facts.created_at, until };
  }
  if (attempt === undefined) {
    const since = facts.attempts.at(-1)?.decided_at ?? facts.created_at;
    return { kind: "intake", what: "its attempt to be taken up", since, until };
  }
  if (attempt.state !== "queued") return { ...waitingForRoute(attempt), until };
  return { ...waitingForSupplier(facts, attempt), until };
}

function waitingForRoute(attempt: AttemptRow): Omit<WaitingFor, "until"> {
  const since = attempt.decided_at ?? attempt.created_at;
  if (attempt.state === "decided") return { kind: "settlement", what: "its settlement", since };
  const unconnected = consideredOf(attempt.route).some(({ verdict }) => verdict === "disconnected");
  return unconnected
    ? { kind: "connection", what: "a supplier's connection to come back", since }
    : { kind: "route", what: "the choice of a channel", since };
}

function waitingForSupplier(facts: MessageFacts, attempt: AttemptRow): Omit<WaitingFor, "until"> {
  const queuedAt = attempt.queued_at ?? attempt.created_at;
  const command = facts.commands.find(({ attempt_id }) => attempt_id === attempt.id);
  const segments = facts.segments.filter(({ attempt_id }) => attempt_id === attempt.id);
  const takes = facts.takes.filter(({ attempt_id }) => attempt_id === attempt.id);
  const latest = (times: (string | null)[]): string =>
    times.reduce<string>((last, at) => (at !== null && at > last ? at : last), queuedAt);

  const unanswered = segments.filter(({ result }) => result === null);
  const unwritten = unanswered.filter(({ part }) => !isWritten(takes, part));
  if (unwritten.length > 0 && command?.status !== "published") {
    return { kind: "publication", what: PUBLICATION[command?.mode ?? "live"], since: queuedAt };
  }
  if (unwritten.length > 0) {
    const since = latest([command?.published_at ?? null]);
    return { kind: "gateway", what: `the gateway to write ${partsOf(facts, unwritten)}`, since };
  }
  if (unanswered.length > 0) {
    const since = latest(takes.map((take) => take.taken_at));
    return { kind: "supplier_answer", what: `the supplier's answer to ${partsOf(facts, unanswered)}`, since };
  }
  const unreported = segments.filter(
    ({ result, receipt }) => result !== "rejected" && result !== "never_written" && !isFinalReceipt(receipt),
  );
  const since = latest(segments.flatMap(({ result_at, receipt_at }) => [result_at, receipt_at]));
  return unreported.length > 0
    ? { kind: "receipt", what: `the supplier's receipt for ${partsOf(facts, unreported)}`, since }
    : { kind: "settlement", what: "its settlement", since };
}

const PUBLICATION = {
  live: "its command to be published",
  paused: "an operator to resume publication, which is paused",
  shadow: "an operator to let publication go live, which is in shadow",
} as const;

/** Throttled last means that it is to be written again. */
const isWritten = (takes: TakeRow[], part: number): boolean =>
  takes.findLast((take) => take.part === part && take.kind === "write")?.answer !== "throttled" &&
  takes.some((take) => take.part === part && take.kind === "write");

const isFinalReceipt = (receipt: SegmentRow["receipt"]): boolean =>
  receipt === "delivered" || receipt === "failed";

const partsOf = (facts: MessageFacts, segments: SegmentRow[]): string =>
  facts.segment_count === 1
    ? "it"
    : `part${segments.length === 1 ? "" : "s"} ${segments.map(({ part }) => part).join(", ")}`;
