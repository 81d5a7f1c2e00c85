import { describe, expect, test } from "vitest";
import type { Sent } from "./generator-protocol.ts";
import type { PlannedMessage } from "./plan.ts";
import { type TierFacts, judge } from "./verdict.ts";

const NOTHING_LEFT = {
  messages: 0,
  inbox: 0,
  outbox: 0,
  dead_commands: 0,
  unanswered_takes: 0,
  events: 0,
  notifications: 0,
  decisions: 0,
};
const OPERATORS = ["china_mobile", "china_unicom", "china_telecom"] as const;
const MESSAGES = 8;
/** The channel and the application stop at 2,000, the filing at 2,500; main messages come each 500 ms. */
const STOPPED_AT = 2_000;
const FILING_STOPPED_AT = 2_500;

/** A tier on which nothing is wrong: six messages of the load, two of the application that is stopped. */
function good() {
  const planned: PlannedMessage[] = [];
  const sent: Sent[] = [];
  for (let index = 0; index < MESSAGES; index++) {
    const isStopped = index >= 6;
    planned.push({
      dueMs: at(index),
      to: number(index),
      operator: OPERATORS[index % 3] ?? "china_mobile",
      text: "hello",
      segments: 1,
      expected: "delivered",
      sender: isStopped ? "stopped" : "main",
    });
    sent.push({
      dueAt: at(index),
      sentAt: at(index),
      answeredAt: at(index) + 5,
      status: 202,
      id: `msg_${index}`,
      code: null,
      webhooks: [
        {
          at: at(index) + 400,
          id: `evt_${index}`,
          type: `message.${isRefused(index) ? "refused" : "delivered"}`,
        },
      ],
    });
  }
  const all = planned.map((_, index) => index);
  const attempted = all.filter((index) => !isRefused(index));
  return {
    nominalRate: 2,
    reachedRate: 2,
    unitPrice: 325n,
    applications: { main: "app_main", stopped: "app_stopped" },
    before: {
      suppliersInSimulator: 6,
      suppliersInPostgres: 6,
      leftOver: { ...NOTHING_LEFT },
      numbersSeenBySuppliers: 0,
    },
    planned,
    sent,
    webhooksOfNoMessage: 0,
    webhooksWithBadSignature: 0,
    stored: {
      messages: all.map((index) => ({
        id: `msg_${index}`,
        application_id: index >= 6 ? "app_stopped" : "app_main",
        status: isRefused(index) ? "refused" : "delivered",
        reason: isRefused(index) ? "application_disabled" : null,
        segment_count: 1,
        price_units: 325n,
        current_attempt_id: `att_${index}_1`,
        created_at: at(index),
        final_at: at(index) + 390,
        expires_at: 1e12,
      })),
      attempts: attempted.map((index) => attempt(index, channelOf(index))),
      segments: attempted.map((index) => ({
        attempt_id: `att_${index}_1`,
        part: 1,
        result: "accepted",
        receipt: "delivered",
        taken_at: at(index) + 40,
        result_at: at(index) + 60,
      })),
      transfers: attempted.flatMap((index) => [transfer(index, "reserve"), transfer(index, "charge")]),
      billing: attempted.map((index) => ({
        message_id: `msg_${index}`,
        amount_units: 325n,
        refunded: false,
      })),
      notifications: all.map((index) => ({
        id: `evt_${index}`,
        message_id: `msg_${index}`,
        url: "http://127.0.0.1/hook",
        status: "delivered",
      })),
      account: { balance_units: 1_000n, held_units: 0n, floor_units: 0n },
    },
    submits: attempted.map((index) => ({
      at: at(index) + 50,
      supplier: `supplier-${channelOf(index)}`,
      to: number(index),
      part: 1,
      result: 0,
    })),
    leftOver: { ...NOTHING_LEFT },
    streams: { undelivered: 0, pending: 0 },
    booksBalanced: true as boolean,
    server: {
      lockWaitsLeft: 0,
      idleInTransactionLeft: 0,
      longestTransactionS: 0.2,
      mostConnections: 40,
      connectionBudget: 74,
      uniqueViolations: 0,
      deadlocks: 0,
    },
    stops: [
      { what: "channel", id: "busy", at: STOPPED_AT },
      { what: "application", id: "app_stopped", at: STOPPED_AT },
      { what: "filing", id: "next", at: FILING_STOPPED_AT },
    ],
    personsWork: 0,
    replay: {
      replayed: attempted.length,
      before: { submits: 7, transfers: 14, billing: 7 },
      after: { submits: 7, transfers: 14, billing: 7 },
      commandsLeft: 0,
    },
  } satisfies TierFacts;
}

const at = (index: number): number => (index >= 6 ? (index === 6 ? 1_000 : 2_200) : index * 600);
const number = (index: number): string => `1380000000${index}`;
const isRefused = (index: number): boolean => index === 7;
const channelOf = (index: number): string =>
  at(index) < 1_000 ? "busy" : at(index) < 2_500 ? "next" : "third";

const attempt = (index: number, channel: string) => ({
  id: `att_${index}_1`,
  message_id: `msg_${index}`,
  application_id: index >= 6 ? "app_stopped" : "app_main",
  retry_of: null as string | null,
  submit_id: `sub_${index}_1`,
  channel_id: channel,
  supplier_id: `sup_${channel}`,
  state: "decided",
  outcome: "delivered",
  created_at: at(index) + 20,
  queued_at: at(index) + 25,
  published_at: at(index) + 30,
});

const transfer = (index: number, kind: string) => ({
  key: `${kind === "charge" ? "close" : kind}:msg_${index}`,
  kind,
  message_id: `msg_${index}`,
  units: 325n,
});

type Facts = ReturnType<typeof good>;

const first = <Item>(items: readonly Item[]): Item => {
  const [item] = items;
  if (item === undefined) throw new Error("there is none");
  return item;
};

test("a tier on which nothing is wrong passes, and names every clause of rules L", () => {
  const verdict = judge(good());
  expect(verdict.findings).toEqual([]);
  expect(verdict.passed).toBe(true);
  const clauses = new Set(Object.keys(verdict.checks).map((name) => name.split("_")[0]));
  expect(clauses).toEqual(new Set(["before", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "rate"]));
});

/** Each spoils one thing, and the checks that must say so. */
const SPOILED: [string, (facts: Facts) => unknown, string[]][] = [
  [
    "a supplier is not connected",
    (it) => (it.before.suppliersInSimulator = 5),
    ["before_suppliers_connected_in_simulator"],
  ],
  [
    "PostgreSQL knows of five suppliers",
    (it) => (it.before.suppliersInPostgres = 5),
    ["before_suppliers_connected_in_postgres"],
  ],
  ["an earlier tier left a message", (it) => (it.before.leftOver.messages = 1), ["before_nothing_left_over"]],
  ["a number was used before", (it) => (it.before.numbersSeenBySuppliers = 1), ["before_numbers_unused"]],
  [
    "all numbers are of two operators",
    (it) =>
      it.planned.forEach(
        (each) => (each.operator = each.operator === "china_telecom" ? "china_mobile" : each.operator),
      ),
    ["before_three_operators"],
  ],
  [
    "a message cost something else",
    (it) => (first(it.stored.messages).price_units = 0n),
    ["before_price_is_positive", "L4_price_is_segments_times_unit"],
  ],
  ["an accepted message is not stored", (it) => it.stored.messages.shift(), ["L1_nothing_lost"]],
  [
    "a message is stored that nobody sent",
    (it) => it.stored.messages.push({ ...first(it.stored.messages), id: "msg_x" }),
    [
      "L1_nothing_invented",
      "L3_one_notification_a_message_and_target",
      "L4_delivered_are_paid_and_others_are_not",
    ],
  ],
  [
    "two submissions got one id",
    (it) => Object.assign(it.sent[1] ?? {}, { id: "msg_0", webhooks: first(it.sent).webhooks }),
    ["L1_message_ids_unique", "L1_nothing_invented"],
  ],
  [
    "a submission got no answer",
    (it) => Object.assign(it.sent[1] ?? {}, { id: null, status: 0 }),
    ["L1_every_submission_accepted", "L1_nothing_invented", "L2_no_submit_of_nothing"],
  ],
  [
    "a submission was refused without a reason to",
    (it) => Object.assign(it.sent[1] ?? {}, { id: null, status: 429, code: "rate_limited" }),
    ["L1_every_submission_accepted", "L1_nothing_invented", "L2_no_submit_of_nothing"],
  ],
  ["a submission was not made", (it) => it.sent.pop(), ["L1_every_submission_made", "L1_nothing_invented"]],
  ["a message is not final", (it) => (it.leftOver.messages = 1), ["L1_messages_final"]],
  ["the inbox is not empty", (it) => (it.leftOver.inbox = 1), ["L1_inbox_drained"]],
  ["a command is not published", (it) => (it.leftOver.outbox = 1), ["L1_outbox_drained"]],
  ["a command is dead", (it) => (it.leftOver.dead_commands = 1), ["L1_outbox_drained"]],
  ["a stream holds an entry nobody read", (it) => (it.streams.undelivered = 1), ["L1_streams_drained"]],
  ["a pending entry is left over", (it) => (it.streams.pending = 1), ["L1_pending_entries_drained"]],
  ["an event is not folded", (it) => (it.leftOver.events = 1), ["L1_events_drained"]],
  ["a notification is not delivered", (it) => (it.leftOver.notifications = 1), ["L1_notifications_drained"]],
  ["an attempt is undecided", (it) => (it.leftOver.decisions = 1), ["L1_decisions_made"]],
  [
    "a part was written and not answered",
    (it) => (it.leftOver.unanswered_takes = 1),
    ["L1_submits_answered"],
  ],
  [
    "a message has two first attempts",
    (it) => it.stored.attempts.push({ ...attempt(0, "busy"), id: "att_0_2" }),
    ["L2_one_first_attempt_a_message", "L6_outbox_replayed"],
  ],
  [
    "an attempt has two successors",
    (it) => it.stored.attempts.push(successor("att_0_2"), successor("att_0_3")),
    ["L2_one_successor_an_attempt"],
  ],
  [
    "a successor points to nothing",
    (it) => it.stored.attempts.push({ ...successor("att_0_2"), retry_of: "att_x_1" }),
    ["L2_successors_point_to_an_attempt"],
  ],
  [
    "a part was written twice",
    (it) => it.submits.push(first(it.submits)),
    ["L2_no_part_twice_at_a_supplier"],
  ],
  [
    "a second supplier got a message of one attempt",
    (it) => it.submits.push({ ...first(it.submits), supplier: "supplier-other" }),
    ["L2_no_more_suppliers_than_attempts"],
  ],
  [
    "a supplier got a text that nobody sent",
    (it) => it.submits.push({ ...first(it.submits), to: "13811112222" }),
    ["L2_no_submit_of_nothing"],
  ],
  [
    "a delivered message has no receipt",
    (it) => Object.assign(first(it.stored.segments), { receipt: null }),
    ["L3_state_equals_facts"],
  ],
  ["a message failed whose number delivers", (it) => failed(it), ["L3_state_equals_supplier"]],
  [
    "a refusal has no reason",
    (it) => Object.assign(it.stored.messages[7] ?? {}, { reason: null }),
    ["L3_state_equals_facts"],
  ],
  [
    "a message is notified twice",
    (it) => it.stored.notifications.push({ ...first(it.stored.notifications), id: "evt_x" }),
    ["L3_one_notification_a_message_and_target"],
  ],
  [
    "a message is not notified",
    (it) => it.stored.notifications.shift(),
    ["L3_one_notification_a_message_and_target"],
  ],
  [
    "a customer heard under two ids",
    (it) => first(it.sent).webhooks.push({ at: 1, id: "evt_x", type: "message.delivered" }),
    ["L3_customer_told_once"],
  ],
  ["a customer heard nothing", (it) => (first(it.sent).webhooks = []), ["L3_customer_told_once"]],
  [
    "a customer heard another state",
    (it) => Object.assign(first(first(it.sent).webhooks), { type: "message.failed" }),
    ["L3_customer_told_once"],
  ],
  ["a webhook was of no message", (it) => (it.webhooksOfNoMessage = 1), ["L3_every_webhook_of_a_message"]],
  ["a signature did not hold", (it) => (it.webhooksWithBadSignature = 1), ["L3_every_webhook_signed"]],
  [
    "a reservation is still open",
    (it) => it.stored.transfers.push(transfer(9, "reserve")),
    ["L4_reserved_is_charged_or_released"],
  ],
  ["a charge has no billing record", (it) => it.stored.billing.shift(), ["L4_charges_are_billed"]],
  [
    "a refund left its billing record open",
    (it) => it.stored.transfers.push({ ...transfer(0, "refund"), message_id: "msg_7" }),
    ["L4_charges_are_billed"],
  ],
  [
    "a ledger key is there twice",
    (it) => it.stored.transfers.push({ ...first(it.stored.transfers), units: 0n }),
    ["L4_one_entry_a_key"],
  ],
  [
    "a delivered message was not paid",
    (it) => Object.assign(it.stored.transfers[1] ?? {}, { message_id: "msg_7" }),
    ["L4_delivered_are_paid_and_others_are_not"],
  ],
  [
    "a balance is below its floor",
    (it) => (it.stored.account.balance_units = -1n),
    ["L4_no_balance_below_its_floor"],
  ],
  ["money is still held", (it) => (it.stored.account.held_units = 325n), ["L4_nothing_held"]],
  ["the books do not balance", (it) => (it.booksBalanced = false), ["L4_books_balance"]],
  ["somebody waits for a lock", (it) => (it.server.lockWaitsLeft = 1), ["L5_no_lock_waits_left"]],
  ["a transaction is idle", (it) => (it.server.idleInTransactionLeft = 1), ["L5_no_idle_in_transaction"]],
  [
    "a pool took more than its budget",
    (it) => (it.server.mostConnections = 75),
    ["L5_connections_within_budget"],
  ],
  ["a transaction took 21 s", (it) => (it.server.longestTransactionS = 21), ["L5_no_transaction_over_20_s"]],
  [
    "PostgreSQL logged a unique violation",
    (it) => (it.server.uniqueViolations = 1),
    ["L5_no_unexpected_unique_violation"],
  ],
  ["PostgreSQL logged a deadlock", (it) => (it.server.deadlocks = 1), ["L5_no_deadlock"]],
  ["a replayed command was not republished", (it) => (it.replay.replayed = 6), ["L6_outbox_replayed"]],
  ["a replay submitted something", (it) => (it.replay.after.submits = 8), ["L6_nothing_submitted_twice"]],
  ["a replay charged something", (it) => (it.replay.after.transfers = 15), ["L6_nothing_charged_twice"]],
  ["a replay billed something", (it) => (it.replay.after.billing = 8), ["L6_nothing_charged_twice"]],
  [
    "a disabled channel went on",
    (it) => Object.assign(it.stored.attempts[5] ?? {}, { channel_id: "busy" }),
    ["L7_channel_disabled_stops"],
  ],
  [
    "a disabled application went on",
    (it) => Object.assign(it.stored.attempts[5] ?? {}, { application_id: "app_stopped" }),
    ["L7_application_disabled_stops"],
  ],
  [
    "a disabled filing went on",
    (it) => Object.assign(it.stored.attempts[5] ?? {}, { channel_id: "next" }),
    ["L7_filing_disabled_stops"],
  ],
  [
    "a disabled application was still let through",
    (it) => Object.assign(it.stored.messages[7] ?? {}, { status: "delivered" }),
    ["L3_state_equals_facts", "L7_stopped_application_was_refused"],
  ],
  ["no channel was disabled", (it) => it.stops.shift(), ["L7_channel_disabled_stops"]],
  [
    "the disabled channel had nothing to stop",
    (it) => Object.assign(first(it.stops), { id: "unused" }),
    ["L7_channel_disabled_stops"],
  ],
  ["a person had to decide", (it) => (it.personsWork = 1), ["L7_no_person_needed"]],
  ["the rate was not kept", (it) => (it.reachedRate = 1.89), ["rate_kept"]],
];

const successor = (id: string) => ({
  ...attempt(0, "third"),
  id,
  submit_id: id,
  retry_of: "att_0_1",
  published_at: null as never,
});

function failed(it: Facts): void {
  Object.assign(first(it.stored.messages), { status: "failed" });
  Object.assign(first(it.stored.segments), { result: "rejected", receipt: null });
  Object.assign(first(first(it.sent).webhooks), { type: "message.failed" });
  Object.assign(it.stored.transfers[1] ?? {}, { kind: "release" });
  it.stored.billing.shift();
}

describe("a tier does not pass when", () => {
  test.each(SPOILED)("%s (L)", (_what, spoil, named) => {
    const facts = good();
    spoil(facts);
    const { passed, checks, findings } = judge(facts);
    expect(passed).toBe(false);
    expect(Object.keys(checks).filter((name) => checks[name] === false)).toEqual(
      expect.arrayContaining(named),
    );
    expect(findings).toHaveLength(Object.values(checks).filter((holds) => !holds).length);
  });

  test("a replay did not come about (L6)", () => {
    const { checks } = judge({ ...good(), replay: null });
    expect(checks["L6_outbox_replayed"]).toBe(false);
    expect(checks["L6_nothing_submitted_twice"]).toBe(false);
    expect(checks["L6_nothing_charged_twice"]).toBe(false);
  });
});

test("every check can fail: each is named by at least one of the spoiled tiers", () => {
  const named = new Set(SPOILED.flatMap(([, , names]) => names));
  expect(Object.keys(judge(good()).checks).filter((name) => !named.has(name))).toEqual([]);
});

test("a part that was throttled may be written again (C3)", () => {
  const facts = good();
  facts.submits.unshift({ ...first(facts.submits), result: 8 });
  expect(judge(facts).findings).toEqual([]);
});

test("a finding names no recipient", () => {
  const facts = good();
  facts.submits.push(first(facts.submits));
  expect(judge(facts).findings.join()).not.toMatch(/1380000/);
});
