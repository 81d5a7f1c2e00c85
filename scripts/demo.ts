/**
 * The demo of `npm start`: three messages over HTTP, as a customer would send them, and each one's story as
 * it happens. What is printed is what the API answers and what the webhook receiver verified, nothing else.
 */
import { delay } from "../workers/service.ts";
import { type MessageStory, sendMessage, showMessage } from "./api-client.ts";
import type { Steps } from "./copy.ts";
import type { RunFile } from "./run-file.ts";
import { lineOf, summaryOf, unseen } from "./story.ts";
import { type WebhookReceiver, receiveWebhooks } from "./webhook-receiver.ts";

export interface DemoResult {
  sent: number;
  delivered: number;
  /** Notifications that came with a valid signature. */
  webhooks: number;
  ms: number;
  /** Why not everything came out as it should. */
  trouble?: string;
}

const LONG_TEXT =
  "【测试】尊敬的用户：您的快递已到达小区驿站，取件码为 7-3-2041，请于今日二十一点前携带手机前往领取。" +
  "如需改期，请回复 1 并注明时间；如需送货上门，请回复 2 并注明地址与联系人。" +
  "超过三日未领取的包裹将退回发件人，由此产生的费用请与卖家协商。感谢您的理解与支持，祝您生活愉快！" +
  "本条短信共三段，由同一条长短信拆分而成。";

/** The last number's fate (interfaces §6, 0502): the first supplier reports it undelivered. */
const MESSAGES = [
  {
    label: "short",
    shows: "fits into one part",
    to: "13800138001",
    text: "【测试】您的验证码是 4821，五分钟内有效。",
  },
  {
    label: "long",
    shows: "is sent in three parts, which the phone joins",
    to: "13900139002",
    text: LONG_TEXT,
  },
  {
    label: "retry",
    shows: "fails at the first supplier and is delivered by the second",
    to: "13599990502",
    text: "【测试】第一家供应商送不到，第二家会送到。",
  },
] as const;

const POLL_MS = 120;
const DEADLINE_MS = 60_000;
const COLOURS = [36, 35, 33];
const DIM = 2;

interface Sent {
  label: string;
  id: string;
  seen: Set<string>;
  story: MessageStory | undefined;
}

export async function runDemo(run: RunFile, steps: Steps, signal: AbortSignal): Promise<DemoResult> {
  const startedAt = Date.now();
  const receiver = await receiveWebhooks(run.webhookSecret);
  try {
    steps.line("\nThree messages over HTTP, and what becomes of them:\n");
    const sent = await sendAll(run, receiver, steps);
    await follow(run, sent, receiver, steps, signal);
    steps.line();
    for (const [index, each] of sent.entries()) {
      if (each.story !== undefined) steps.line(`${tag(index, steps)}${summaryOf(each.story)}`);
    }
    return judge(sent, receiver, Date.now() - startedAt);
  } finally {
    receiver.close();
  }
}

async function sendAll(run: RunFile, receiver: WebhookReceiver, steps: Steps): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (const [index, { label, shows, to, text }] of MESSAGES.entries()) {
    const { id } = await sendMessage(run, { to, text, webhookUrl: receiver.url });
    steps.line(`${tag(index, steps)}to ${to}, ${shows}: ${id}`);
    sent.push({ label, id, seen: new Set(), story: undefined });
  }
  steps.line();
  return sent;
}

/** Prints what is new until every message is final and its notification was taken, or time is up. */
async function follow(
  run: RunFile,
  sent: readonly Sent[],
  receiver: WebhookReceiver,
  steps: Steps,
  signal: AbortSignal,
): Promise<void> {
  const dim = (text: string): string => steps.paint(DIM, text);
  const deadline = Date.now() + DEADLINE_MS;
  while (Date.now() < deadline && !sent.every((each) => isOver(each, receiver))) {
    signal.throwIfAborted();
    for (const [index, each] of sent.entries()) {
      if (isOver(each, receiver)) continue;
      each.story = await showMessage(run, each.id);
      for (const entry of unseen(each.seen, each.story))
        steps.line(`${tag(index, steps)}${lineOf(entry, dim)}`);
    }
    await delay(POLL_MS, signal);
  }
}

const isOver = ({ id, story }: Sent, receiver: WebhookReceiver): boolean =>
  story !== undefined &&
  story.finalAt !== null &&
  receiver.verified.has(id) &&
  story.notifications.every(({ status }) => status !== "pending");

function tag(index: number, steps: Steps): string {
  return steps.paint(COLOURS[index] ?? 0, (MESSAGES[index]?.label ?? "").padEnd(7));
}

function judge(sent: readonly Sent[], receiver: WebhookReceiver, ms: number): DemoResult {
  const delivered = sent.filter(({ story }) => story?.status === "delivered").length;
  const webhooks = sent.filter(({ id }) => receiver.verified.has(id)).length;
  const counts = { sent: sent.length, delivered, webhooks, ms };
  const faults = [
    ...sent.flatMap(({ label, story }) =>
      story?.status === "delivered"
        ? []
        : [`the ${label} message is ${story?.status ?? "unknown"}${waitingFor(story)}`],
    ),
    ...(webhooks === sent.length ? [] : [`${sent.length - webhooks} webhooks did not come`]),
    ...(receiver.refusedCount() === 0
      ? []
      : [`${receiver.refusedCount()} webhooks had a signature that does not hold`]),
  ];
  return faults.length === 0
    ? counts
    : { ...counts, trouble: `The demo did not come out as it should: ${faults.join("; ")}.` };
}

const waitingFor = (story: MessageStory | undefined): string =>
  story?.waitingFor === undefined ? "" : `, waiting for ${story.waitingFor.what}`;
