/**
 * Whether a tier passed: every clause of rules L by name, judged from plain facts. It shares no code with
 * the product, so that the product's own idea of right is not asked.
 */
import type { Sent } from "./generator-protocol.ts";
import type { LeftOver, SegmentFact, StoredFacts } from "./facts.ts";
import type { PlannedMessage } from "./plan.ts";

/** One SUBMIT as a supplier read it off the wire. */
export interface WitnessedSubmit {
  /** Epoch milliseconds. */
  at: number;
  supplier: string;
  to: string;
  part: number;
  /** What it was answered; null for no answer. */
  result: number | null;
}

/** Something that an operator disabled in the middle of the window (L7). */
export interface Stop {
  what: "channel" | "application" | "filing";
  /** The channel, or the application. */
  id: string;
  /** When the change had been answered, by the database's clock. */
  at: number;
}

/** How much there is of what must not happen a second time. */
export interface Counted {
  submits: number;
  transfers: number;
  billing: number;
}

export interface TierFacts {
  /** Messages a second that were asked for. */
  nominalRate: number;
  /** Completed first submits a second over the window. */
  reachedRate: number;
  unitPrice: bigint;
  applications: { main: string; stopped: string };
  before: {
    suppliersInSimulator: number;
    suppliersInPostgres: number;
    leftOver: Record<LeftOver, number>;
    numbersSeenBySuppliers: number;
  };
  /** One each, in the order of `planned`. */
  planned: readonly PlannedMessage[];
  sent: readonly Sent[];
  webhooksOfNoMessage: number;
  webhooksWithBadSignature: number;
  stored: StoredFacts;
  submits: readonly WitnessedSubmit[];
  leftOver: Record<LeftOver, number>;
  streams: { undelivered: number; pending: number };
  booksBalanced: boolean;
  server: {
    lockWaitsLeft: number;
    idleInTransactionLeft: number;
    longestTransactionS: number;
    mostConnections: number;
    connectionBudget: number;
    uniqueViolations: number;
    deadlocks: number;
  };
  stops: readonly Stop[];
  personsWork: number;
  /** Around a restart of every role and a replay of the outbox; null where they did not come about. */
  replay: { replayed: number; before: Counted; after: Counted; commandsLeft: number } | null;
}

export interface Verdict {
  passed: boolean;
  checks: Record<string, boolean>;
  /** A sentence for each check that failed. */
  findings: string[];
}

/** A tier keeps its rate when it completes so large a share of it (interfaces §9). */
const RATE_SHARE = 0.95;
const SUPPLIERS = 6;
const OPERATORS = 3;
const LONGEST_TRANSACTION_S = 20;
const THROTTLED = 8;

export function judge(facts: TierFacts): Verdict {
  const judged = [
    ...before(facts),
    ...nothingLost(facts),
    ...submittedOnce(facts),
    ...statesRight(facts),
    ...moneyRight(facts),
    ...serverQuiet(facts),
    ...nothingTwiceAfterwards(facts),
    ...stopsActed(facts),
    clause("rate_kept", facts.reachedRate >= facts.nominalRate * RATE_SHARE, () => [
      `${facts.reachedRate.toFixed(1)} a second of ${facts.nominalRate}`,
    ]),
  ];
  return {
    passed: judged.every((it) => it.holds),
    checks: Object.fromEntries(judged.map(({ name, holds }) => [name, holds])),
    findings: judged.filter((it) => !it.holds).map(({ name, why }) => `${name}: ${why().join(", ")}`),
  };
}

interface Clause {
  name: string;
  holds: boolean;
  why: () => string[];
}

const clause = (name: string, holds: boolean, why: () => string[]): Clause => ({ name, holds, why });

/** Holds where there is no such thing; names a few of them where there is. */
const none = (name: string, found: readonly string[]): Clause =>
  clause(name, found.length === 0, () => [
    `${found.length}`,
    ...found.slice(0, NAMED),
    ...(found.length > NAMED ? ["…"] : []),
  ]);
const NAMED = 5;

const atMost = (name: string, value: number, most: number): Clause =>
  clause(name, value <= most, () => [`${value}, at most ${most}`]);

const exactly = (name: string, value: number, wanted: number): Clause =>
  clause(name, value === wanted, () => [`${value}, not ${wanted}`]);

function before({ before: it, planned, stored, unitPrice }: TierFacts): Clause[] {
  const prices = stored.messages.filter((m) => m.price_units !== unitPrice * BigInt(m.segment_count));
  return [
    exactly("before_suppliers_connected_in_simulator", it.suppliersInSimulator, SUPPLIERS),
    exactly("before_suppliers_connected_in_postgres", it.suppliersInPostgres, SUPPLIERS),
    none("before_nothing_left_over", counted(it.leftOver)),
    exactly("before_numbers_unused", it.numbersSeenBySuppliers, 0),
    exactly("before_three_operators", new Set(planned.map(({ operator }) => operator)).size, OPERATORS),
    none(
      "before_price_is_positive",
      unitPrice > 0n ? prices.map(({ id }) => id) : ["the price of a segment is 0"],
    ),
  ];
}

const counted = (counts: Readonly<Record<string, number>>): string[] =>
  Object.entries(counts).flatMap(([what, count]) => (count === 0 ? [] : [`${what}: ${count}`]));

/** L1. A refusal is explained only for the application that was disabled. */
function nothingLost(facts: TierFacts): Clause[] {
  const { planned, sent, stored, leftOver, streams } = facts;
  const ids = sent.flatMap(({ id }) => (id === null ? [] : [id]));
  const storedIds = new Set(stored.messages.map(({ id }) => id));
  const accepted = new Set(ids);
  const stopAt = facts.stops.find(({ what }) => what === "application")?.at ?? Infinity;
  const unexplained = sent.flatMap(({ id, status, code, dueAt }, index) =>
    id !== null || (planned[index]?.sender === "stopped" && status !== 0 && dueAt >= stopAt)
      ? []
      : [`number ${index} was answered ${status} ${code ?? ""}`.trimEnd()],
  );
  return [
    exactly("L1_every_submission_made", sent.length, planned.length),
    none("L1_every_submission_accepted", unexplained),
    none(
      "L1_nothing_lost",
      ids.filter((id) => !storedIds.has(id)),
    ),
    none(
      "L1_nothing_invented",
      [...storedIds].filter((id) => !accepted.has(id)),
    ),
    exactly("L1_message_ids_unique", accepted.size, ids.length),
    exactly("L1_messages_final", leftOver.messages, 0),
    exactly("L1_inbox_drained", leftOver.inbox, 0),
    exactly("L1_outbox_drained", leftOver.outbox + leftOver.dead_commands, 0),
    exactly("L1_streams_drained", streams.undelivered, 0),
    exactly("L1_pending_entries_drained", streams.pending, 0),
    exactly("L1_events_drained", leftOver.events, 0),
    exactly("L1_notifications_drained", leftOver.notifications, 0),
    exactly("L1_decisions_made", leftOver.decisions, 0),
    exactly("L1_submits_answered", leftOver.unanswered_takes, 0),
  ];
}

/** L2, from our rows and from what the suppliers read off the wire. */
function submittedOnce({ planned, sent, stored, submits }: TierFacts): Clause[] {
  const messageOf = new Map(
    sent.flatMap(({ id }, index) => (id === null ? [] : [[planned[index]?.to ?? "", id] as const])),
  );
  const attemptsOf = grouped(stored.attempts, (it) => it.message_id);
  const ids = new Set(stored.attempts.map(({ id }) => id));
  const successors = stored.attempts.flatMap(({ retry_of: it }) => (it === null ? [] : [it]));
  const written = submits.filter(({ result }) => result !== THROTTLED);
  const parts = written.map(({ to, supplier, part }) => `${to} ${supplier} ${part}`);
  const suppliersOf = grouped(written, ({ to }) => to);
  return [
    none(
      "L2_one_first_attempt_a_message",
      [...attemptsOf].flatMap(([id, all]) =>
        all.filter(({ retry_of: it }) => it === null).length === 1 ? [] : [id],
      ),
    ),
    none("L2_one_successor_an_attempt", repeated(successors)),
    none(
      "L2_successors_point_to_an_attempt",
      successors.filter((id) => !ids.has(id)),
    ),
    none("L2_no_part_twice_at_a_supplier", repeated(parts).map(withoutNumber)),
    none(
      "L2_no_more_suppliers_than_attempts",
      [...suppliersOf].flatMap(([to, all]) => {
        const id = messageOf.get(to) ?? "";
        const suppliers = new Set(all.map(({ supplier }) => supplier)).size;
        return suppliers <= (attemptsOf.get(id)?.length ?? 0) ? [] : [id];
      }),
    ),
    none(
      "L2_no_submit_of_nothing",
      [...suppliersOf.keys()].filter((to) => !messageOf.has(to)).map(withoutNumber),
    ),
  ];
}

/** A verdict is shown and kept: it names no recipient. */
const withoutNumber = (text: string): string => text.replace(/1\d{6}(\d{4})/, "…$1");

/** L3: by our facts, by what the number makes a supplier do, and by what the customer was told. */
function statesRight(facts: TierFacts): Clause[] {
  const { planned, sent, stored } = facts;
  const segmentsOf = grouped(stored.segments, (it) => it.attempt_id);
  const attempts = new Map(stored.attempts.map((it) => [it.id, it]));
  const notified = stored.notifications.map((it) => `${it.message_id} ${it.url}`);
  const messages = new Map(stored.messages.map((it) => [it.id, it]));
  const told = sent.flatMap((it) => (it.id === null ? [] : [{ ...it, id: it.id }]));
  return [
    none(
      "L3_state_equals_facts",
      stored.messages.flatMap((it) => {
        const segments = segmentsOf.get(it.current_attempt_id) ?? [];
        return agrees(it.status, it.reason, segments, attempts.has(it.current_attempt_id)) ||
          (it.status === "expired" && (it.final_at ?? 0) >= it.expires_at)
          ? []
          : [`${it.id} ${it.status}`];
      }),
    ),
    none(
      "L3_state_equals_supplier",
      sent.flatMap(({ id }, index) => {
        const message = id === null ? undefined : messages.get(id);
        const plan = planned[index];
        if (message === undefined || plan === undefined || message.status === plan.expected) return [];
        const stopped = plan.sender === "stopped" && message.status === "refused";
        return stopped ? [] : [`${message.id} is ${message.status}, not ${plan.expected}`];
      }),
    ),
    none("L3_one_notification_a_message_and_target", [
      ...repeated(notified),
      ...missing(
        stored.messages.map(({ id }) => id),
        stored.notifications.map((it) => it.message_id),
      ),
    ]),
    none(
      "L3_customer_told_once",
      told.flatMap(({ id, webhooks }) =>
        new Set(webhooks.map((it) => it.id)).size === 1 &&
        webhooks.every((it) => it.type === `message.${messages.get(id)?.status}`)
          ? []
          : [`${id} by ${webhooks.length} webhooks`],
      ),
    ),
    exactly("L3_every_webhook_of_a_message", facts.webhooksOfNoMessage, 0),
    exactly("L3_every_webhook_signed", facts.webhooksWithBadSignature, 0),
  ];
}

/** What the rules D4 and A3 make of the latest attempt's segments. */
function agrees(
  status: string,
  reason: string | null,
  segments: readonly SegmentFact[],
  hasAttempt: boolean,
): boolean {
  const some = (holds: (it: SegmentFact) => boolean): boolean => segments.some(holds);
  const rejected = some(({ result }) => result === "rejected" || result === "never_written");
  switch (status) {
    case "delivered":
      return segments.length > 0 && segments.every(({ receipt }) => receipt === "delivered");
    case "undelivered":
      return !rejected && some(({ receipt }) => receipt === "failed");
    case "failed":
      return rejected || !hasAttempt;
    case "refused":
      return reason !== null && segments.length === 0;
    default:
      return false;
  }
}

/** L4. */
function moneyRight({ stored, booksBalanced, unitPrice }: TierFacts): Clause[] {
  const total = (kind: string): bigint =>
    stored.transfers.reduce((sum, it) => (it.kind === kind ? sum + it.units : sum), 0n);
  const [reserved, charged, released, refunded] = ["reserve", "charge", "release", "refund"].map(total);
  const billed = stored.billing.reduce((sum, it) => (it.refunded ? sum : sum + it.amount_units), 0n);
  const { balance_units: balance, held_units: held, floor_units: floor } = stored.account;
  const charges = new Set(stored.transfers.flatMap((it) => (it.kind === "charge" ? [it.message_id] : [])));
  const refunds = new Set(stored.transfers.flatMap((it) => (it.kind === "refund" ? [it.message_id] : [])));
  return [
    clause("L4_reserved_is_charged_or_released", reserved === (charged ?? 0n) + (released ?? 0n), () => [
      `${reserved} reserved, ${charged} charged, ${released} released`,
    ]),
    clause("L4_charges_are_billed", (charged ?? 0n) - (refunded ?? 0n) === billed, () => [
      `${charged} charged, ${refunded} refunded, ${billed} billed`,
    ]),
    none("L4_one_entry_a_key", repeated(stored.transfers.map(({ key }) => key))),
    none(
      "L4_delivered_are_paid_and_others_are_not",
      stored.messages.flatMap(({ id, status }) => {
        const paid = charges.has(id) && !refunds.has(id);
        return paid === (status === "delivered") ? [] : [`${id} ${status}`];
      }),
    ),
    none(
      "L4_price_is_segments_times_unit",
      stored.messages.flatMap((it) =>
        it.price_units === unitPrice * BigInt(it.segment_count) ? [] : [it.id],
      ),
    ),
    clause("L4_no_balance_below_its_floor", balance >= floor, () => [`${balance}, floor ${floor}`]),
    clause("L4_nothing_held", held === 0n, () => [`${held} held`]),
    clause("L4_books_balance", booksBalanced, () => ["an account differs from its transfers"]),
  ];
}

/** L5. */
const serverQuiet = ({ server }: TierFacts): Clause[] => [
  exactly("L5_no_lock_waits_left", server.lockWaitsLeft, 0),
  exactly("L5_no_idle_in_transaction", server.idleInTransactionLeft, 0),
  atMost("L5_connections_within_budget", server.mostConnections, server.connectionBudget),
  atMost("L5_no_transaction_over_20_s", server.longestTransactionS, LONGEST_TRANSACTION_S),
  exactly("L5_no_unexpected_unique_violation", server.uniqueViolations, 0),
  exactly("L5_no_deadlock", server.deadlocks, 0),
];

/** L6. A replay of nothing proves nothing. */
function nothingTwiceAfterwards({ replay, stored }: TierFacts): Clause[] {
  const commands = stored.attempts.filter(({ published_at: it }) => it !== null).length;
  const { replayed = 0, commandsLeft = -1, before: was, after: is } = replay ?? {};
  return [
    clause("L6_outbox_replayed", replay !== null && replayed === commands && commandsLeft === 0, () => [
      replay === null
        ? "it was not reached"
        : `${replayed} of ${commands} commands, ${commandsLeft} not taken off the stream`,
    ]),
    exactly("L6_nothing_submitted_twice", (is?.submits ?? -1) - (was?.submits ?? 0), 0),
    exactly(
      "L6_nothing_charged_twice",
      (is?.transfers ?? -1) - (was?.transfers ?? 0) + (is?.billing ?? -1) - (was?.billing ?? 0),
      0,
    ),
  ];
}

/** L7. Each stop must have had something to stop, and the rest must have gone on. */
function stopsActed({ stops, stored, applications, personsWork, planned, sent }: TierFacts): Clause[] {
  const acted = (
    what: Stop["what"],
    concerns: (it: StoredFacts["attempts"][number], id: string) => boolean,
  ) => {
    const stop = stops.find((it) => it.what === what);
    const name = `L7_${what}_disabled_stops`;
    if (stop === undefined) return clause(name, false, () => [`no ${what} was disabled`]);
    const [concerned, others] = [true, false].map((is) =>
      stored.attempts.filter((it) => concerns(it, stop.id) === is && it.queued_at !== null),
    );
    const earlier = (concerned ?? []).filter((it) => plannedAt(it) <= stop.at).length;
    const later = (concerned ?? []).length - earlier;
    const goesOn = (others ?? []).some((it) => plannedAt(it) > stop.at);
    return clause(name, earlier > 0 && later === 0 && goesOn, () => [
      `${earlier} attempts before it, ${later} after it, ${goesOn ? "others went on" : "nothing went on"}`,
    ]);
  };
  const refusedLater = stored.messages.filter(
    (it) => it.application_id === applications.stopped && it.status === "refused",
  ).length;
  const turnedAway = sent.filter(
    (it, index) => planned[index]?.sender === "stopped" && it.id === null,
  ).length;
  return [
    acted("channel", (it, id) => it.channel_id === id),
    acted("application", (it, id) => it.application_id === id),
    clause("L7_stopped_application_was_refused", refusedLater + turnedAway > 0, () => [
      "it asked for nothing after it was disabled",
    ]),
    acted("filing", (it, id) => it.channel_id === id && it.application_id === applications.main),
    exactly("L7_no_person_needed", personsWork, 0),
  ];
}

/** A batch that is under way when something is disabled may still commit: so long at most. */
const BATCH_MS = 1_000;

/** A first attempt's row is as old as its batch's transaction; a successor's is older than its planning. */
const plannedAt = (it: StoredFacts["attempts"][number]): number =>
  it.retry_of === null ? it.created_at : (it.queued_at ?? it.created_at) - BATCH_MS;

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

const repeated = (items: readonly string[]): string[] =>
  [...grouped(items, (it) => it)].flatMap(([item, all]) => (all.length > 1 ? [item] : []));

function missing(wanted: readonly string[], present: readonly string[]): string[] {
  const found = new Set(present);
  return wanted.filter((it) => !found.has(it));
}
