/** One message's whole way for each fate that a supplier can have in store (interfaces §6). */
import { Webhook as Verifier } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { statement } from "../db/client.ts";
import { PREFIXES } from "../db/seed.ts";
import { type Chain, startChain, type Story } from "./chain.ts";

/** Three segments of 67 characters. */
const LONG = "长短信".repeat(50);
/** Seconds of the simulator's fates pass faster, and slowly enough that a late fact is late. */
const TIME_SCALE = 0.4;
const RESPONSE_TIMEOUT_MS = 1_000;

interface Expected {
  fate: string;
  what: string;
  status: string;
  reason?: string;
  /** Submits that the suppliers saw, over all attempts and parts. */
  submits: number;
  attempts: number;
  /** Kinds of ledger transfers, in order. */
  money: string[];
  text?: string;
  validitySeconds?: number;
}

const CHARGED = ["reserve", "charge"];
const REFUNDED = ["reserve", "charge", "refund"];
const RELEASED = ["reserve", "release"];

/** What a supplier does, what the customer sees, and what it costs. */
function fate(code: string, what: string, expected: Omit<Expected, "fate" | "what">): Expected {
  return { fate: code, what, ...expected };
}

const delivered = { status: "delivered", submits: 1, attempts: 1, money: CHARGED };
const expired = { status: "expired", submits: 1, attempts: 1, money: REFUNDED, validitySeconds: 10 };

const FATES: Expected[] = [
  fate("0000", "is delivered", delivered),
  fate("0000", "of three segments is delivered and paid for three times", {
    ...delivered,
    text: LONG,
    submits: 3,
  }),
  fate("0001", "undelivered everywhere tries each channel once and is refunded (D5, D6)", {
    status: "undelivered",
    reason: "receipt:UNDELIV",
    submits: 3,
    attempts: 3,
    money: REFUNDED,
  }),
  fate("0004", "without a receipt expires and is refunded (D7)", { ...expired, reason: "time_limit_passed" }),
  fate("0005", "with an unmapped receipt state decides nothing (D4)", expired),
  fate("0006", "with an interim receipt waits for the final one (D4)", delivered),
  fate("0109", "rejected everywhere fails and is released (D5)", {
    status: "failed",
    reason: "submit:9",
    submits: 3,
    attempts: 3,
    money: RELEASED,
  }),
  fate("0113", "rejected as a bad number is not tried elsewhere", {
    status: "failed",
    reason: "submit:13",
    submits: 1,
    attempts: 1,
    money: RELEASED,
  }),
  fate("0120", "throttled three times is written a fourth and no attempt is spent (C3)", {
    ...delivered,
    submits: 4,
  }),
  fate("0201", "whose receipt comes before its response is delivered (D14)", delivered),
  fate("0202", "without a response takes its receipt and is never written twice (D14)", delivered),
  fate("0203", "without any answer stays unknown until its limit (D6, D7)", { ...expired, money: RELEASED }),
  fate("0204", "with three responses counts one", delivered),
  fate("0205", "with each receipt three times is told once (D2)", delivered),
  fate("0207", "delivered stays delivered when a contradiction follows (D8)", delivered),
  fate("0208", "whose receipt comes on another connection is delivered (D14)", delivered),
  fate("0210", "with an all-zero Msg_Id takes its receipt (D14)", delivered),
  fate("0212", "whose response comes after the timeout is delivered", delivered),
  fate("0214", "with both receipts in one write is delivered (D8)", delivered),
  fate("0301", "long, with a receipt for one segment only, is no success (D4)", {
    ...expired,
    text: LONG,
    submits: 3,
  }),
  fate("0303", "long, with one segment undelivered, is not tried again (D6)", {
    text: LONG,
    status: "undelivered",
    reason: "receipt:UNDELIV",
    submits: 3,
    attempts: 1,
    money: REFUNDED,
  }),
  fate("0304", "long, with responses in reverse and receipts shuffled, is delivered", {
    ...delivered,
    text: LONG,
    submits: 3,
  }),
  fate("0305", "long, with one segment rejected, charges nothing (D5)", {
    text: LONG,
    status: "failed",
    reason: "submit:9",
    submits: 3,
    attempts: 1,
    money: RELEASED,
  }),
  fate("0501", "rejected by the first supplier is delivered by the second (D6)", {
    ...delivered,
    submits: 2,
    attempts: 2,
  }),
  fate("0502", "undelivered by the first supplier is delivered by the second (D6, D9)", {
    ...delivered,
    submits: 2,
    attempts: 2,
  }),
  fate("0503", "delivered late by the first supplier is not counted twice (D8)", {
    ...delivered,
    submits: 2,
    attempts: 2,
  }),
];

const prefixes = Object.values(PREFIXES).flat();
let chain: Chain;
const sent = new Map<Expected, { id: string; to: string }>();

beforeAll(async () => {
  chain = await startChain({ timeScale: TIME_SCALE, responseTimeoutMs: RESPONSE_TIMEOUT_MS });
  for (const [index, it] of FATES.entries()) {
    const to = `${prefixes[index]}9999${it.fate}`;
    const validity = it.validitySeconds === undefined ? {} : { validitySeconds: it.validitySeconds };
    sent.set(it, { to, id: await chain.send(to, it.text, validity) });
  }
});
afterAll(() => chain.stop());

const storyOf = async (it: Expected): Promise<{ story: Story; to: string }> => {
  const { id, to } = sent.get(it) ?? { id: "", to: "" };
  return { story: await chain.untilFinal(id), to };
};

describe("a message", () => {
  it.each(FATES)("$what [$fate]", async (it) => {
    const { story, to } = await storyOf(it);
    const kinds = (story["ledger"] as { kind: string }[]).map((entry) => entry.kind);
    expect({
      status: story.status,
      attempts: story.attempts.length,
      submits: (await chain.witnessed(to)).length,
      money: kinds,
    }).toEqual({ status: it.status, attempts: it.attempts, submits: it.submits, money: it.money });
    if (it.reason !== undefined) expect(story.reason).toBe(it.reason);
  });

  it("is told to its webhook once, signed, with the state that it ended in (E1)", async () => {
    for (const [it, { id }] of sent) {
      const hook = await chain.untilWebhook(id);
      const told = new Verifier(chain.webhookSecret).verify(hook.body, hook.headers);
      expect(told).toMatchObject({ type: `message.${it.status}`, data: { id, status: it.status } });
    }
    const ids = chain.webhooks.map((hook) => hook.headers["webhook-id"]);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("a message that the platform refuses", () => {
  it("to a prefix that nobody knows costs nothing and reaches no supplier (A3, A6)", async () => {
    const id = await chain.send("14099990000");
    const story = await chain.untilFinal(id);
    expect(story).toMatchObject({ status: "refused", reason: "operator_unknown", attempts: [], ledger: [] });
    expect(await chain.witnessed("14099990000")).toEqual([]);
    await chain.untilWebhook(id);
  });

  it("under a signature that is not approved says so (A3)", async () => {
    const story = await chain.untilFinal(await chain.send("13800000002", "【别人】hello"));
    expect(story).toMatchObject({ status: "refused", reason: "signature_unknown" });
  });
});

describe("afterwards", () => {
  it("the books balance and nothing is held (D5)", async () => {
    for (const it of FATES) await storyOf(it);
    expect(await chain.books()).toMatchObject({ balanced: true, differences: [] });
    const [account] = await chain.database.run(HELD);
    expect(account).toEqual({ held: 0n });
  });

  it("contradictions are kept as anomalies (D8)", async () => {
    for (const it of FATES) await storyOf(it);
    const rows = await chain.database.run(ANOMALIES);
    expect(rows.map((row) => row.kind)).toContain("late_receipt_contradicts");
  });
});

const HELD = statement<{ held: bigint }>("test.held", `SELECT sum(held_units)::bigint AS held FROM accounts`);
const ANOMALIES = statement<{ kind: string }>("test.anomalies", `SELECT kind FROM anomalies`);
