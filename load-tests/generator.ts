/**
 * The customer of a load run: submits at fixed times whatever the answers do (open loop), or keeps a number
 * of messages in flight (closed loop), and takes the signed webhooks. A process of its own, so that what it
 * costs is told apart, and a busy verifier delays nothing.
 */
import { Pool } from "undici";
import { receiveWebhooks } from "../scripts/webhook-receiver.ts";
import type { FromGenerator, Progress, SendOrder, Sent, ToGenerator } from "./generator-protocol.ts";

const CONNECTIONS = 64;
const ANSWER_TIMEOUT_MS = 30_000;
const PROGRESS_MS = 500;
/** Timers fire to the millisecond and late: what is due by then goes out together. */
const TICK_MS = 2;

interface Round {
  sent: Sent[];
  byId: Map<string, Sent>;
  /** Webhooks that overtook the answer to their submission. */
  early: Map<string, Sent["webhooks"]>;
  progress: Progress;
  /** For a closed loop: a message has come to its end. */
  onTold: () => void;
}

const now = (): number => performance.timeOrigin + performance.now();
const say = (what: FromGenerator): void => void process.send?.(what);

let round = emptyRound();
let strayWebhooks = 0;
const receiver = await receiveWebhooks(
  process.env["WAYBILL_WEBHOOK_SECRET"] ?? "",
  ({ id, messageId, type }) => {
    const webhook = { at: now(), id, type };
    const sent = round.byId.get(messageId);
    if (sent === undefined) {
      round.early.set(messageId, [...(round.early.get(messageId) ?? []), webhook]);
    } else noteWebhook(sent, webhook);
  },
);

setInterval(() => say({ kind: "progress", ...round.progress }), PROGRESS_MS);
process.on("message", (told: ToGenerator) => {
  if (told.kind === "end") process.exit(0);
  if (told.kind === "collect") return collect();
  void send(told);
});
process.once("disconnect", () => process.exit(0));
say({ kind: "ready", webhookUrl: receiver.url });

function emptyRound(): Round {
  return {
    sent: [],
    byId: new Map(),
    early: new Map(),
    progress: { submitted: 0, answered: 0, accepted: 0, told: 0 },
    onTold: () => undefined,
  };
}

function collect(): void {
  strayWebhooks += round.early.size;
  say({ kind: "sent", sent: round.sent, strayWebhooks, refusedWebhooks: receiver.refusedCount() });
}

async function send({ api, orders, inFlight }: Extract<ToGenerator, { kind: "send" }>): Promise<void> {
  round = emptyRound();
  const pool = new Pool(api, { connections: CONNECTIONS, pipelining: 1 });
  const beganAt = now();
  const calls =
    inFlight === null ? await openLoop(pool, orders, beganAt) : await closedLoop(pool, orders, inFlight);
  await Promise.all(calls);
  await pool.close();
  say({ kind: "answered", beganAt });
}

async function openLoop(pool: Pool, orders: readonly SendOrder[], beganAt: number): Promise<Promise<void>[]> {
  const calls: Promise<void>[] = [];
  for (const order of orders) {
    const dueAt = beganAt + order.dueMs;
    while (now() < dueAt) await pause(Math.max(TICK_MS, dueAt - now()));
    calls.push(submit(pool, order, dueAt));
  }
  return calls;
}

async function closedLoop(
  pool: Pool,
  orders: readonly SendOrder[],
  inFlight: number,
): Promise<Promise<void>[]> {
  const calls: Promise<void>[] = [];
  let next = 0;
  await new Promise<void>((resolve) => {
    const more = (): void => {
      const order = orders[next++];
      if (order === undefined) {
        if (round.progress.told + refused() >= orders.length) resolve();
        return;
      }
      calls.push(submit(pool, order, now()));
    };
    round.onTold = more;
    for (let i = 0; i < inFlight; i++) more();
  });
  return calls;
}

const refused = (): number => round.progress.answered - round.progress.accepted;

async function submit(pool: Pool, { apiKey, to, text, key }: SendOrder, dueAt: number): Promise<void> {
  const { progress, byId, early, sent: all } = round;
  const sent: Sent = {
    dueAt,
    sentAt: now(),
    answeredAt: null,
    status: 0,
    id: null,
    code: null,
    webhooks: [],
  };
  all.push(sent);
  progress.submitted++;
  try {
    const { statusCode, body } = await pool.request({
      method: "POST",
      path: "/v1/messages",
      headers: {
        authorization: `Bearer ${apiKey}`,
        "content-type": "application/json",
        "idempotency-key": key,
      },
      body: JSON.stringify({ to, text, reference: key }),
      headersTimeout: ANSWER_TIMEOUT_MS,
      bodyTimeout: ANSWER_TIMEOUT_MS,
    });
    const answer = (await body.json()) as { id?: string; code?: string };
    sent.answeredAt = now();
    sent.status = statusCode;
    if (statusCode === 202) sent.id = answer.id ?? null;
    else sent.code = answer.code ?? null;
  } catch {
    // No answer is a fact that the verdict judges: status stays 0.
  }
  progress.answered++;
  if (sent.id === null) return round.onTold();
  progress.accepted++;
  byId.set(sent.id, sent);
  for (const webhook of early.get(sent.id) ?? []) noteWebhook(sent, webhook);
  early.delete(sent.id);
}

function noteWebhook(sent: Sent, webhook: Sent["webhooks"][number]): void {
  sent.webhooks.push(webhook);
  if (sent.webhooks.length > 1) return;
  round.progress.told++;
  round.onTold();
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
