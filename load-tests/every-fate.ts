/**
 * Random messages through every fate on a running system, each judged from outside: by its story, its
 * webhook, the suppliers' own logs, and at the end the books:
 *
 *   npx tsx load-tests/every-fate.ts [--count 10000] [--seed 1] [--under-way 300] [--cancel 0.03]
 *       [--receipts per_segment|message_level] [--fates 0001,0502] [--disturb] [--run .waybill/run.json]
 *
 * Sends to the simulated suppliers of `npm start` alone. Prints one line of JSON; exit 1 where anything was
 * not as the rules say. One number has one message under way at a time: a receipt that names nothing could
 * belong to either of two (D14).
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import { PREFIXES } from "../db/seed.ts";
import { caller, readRunFile, Refused } from "./calls.ts";
import { DISTURBED, startDisturbing } from "./disturbances.ts";
import {
  CUTS,
  ENDLESS,
  type Expected,
  expectedOf,
  MONEY,
  type Ordered,
  PLAIN,
  type ReceiptMode,
  THROTTLED,
  WAITING,
} from "./fates-expected.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    "under-way": { type: "string", default: "300" },
    cancel: { type: "string", default: "0.03" },
    receipts: { type: "string", default: "per_segment" },
    fates: { type: "string" },
    disturb: { type: "boolean", default: false },
    run: { type: "string", default: ".waybill/run.json" },
  },
});
const mode: ReceiptMode = values.receipts === "message_level" ? "message_level" : "per_segment";
const count = Number(values.count);

const run = await readRunFile(values.run);
const call = caller(run);

interface Planned extends Ordered {
  index: number;
  to: string;
  text: string;
  /** Hex of what every one of its parts holds, and no other message's. */
  tagHex: string;
  cancelAfterMs: number | undefined;
}

interface Sent extends Planned {
  id: string;
  canceled: boolean;
}

interface Story {
  status: string;
  reason: string | null;
  price: { units: number };
  attempts: { channel: { id: string } | null; segments: { writes: number }[] }[];
  ledger: { kind: string; units: number }[];
  notifications: unknown[];
}

interface Submit {
  supplier: string;
  textHex: string;
  result: number | null;
}

/** Of this run alone: the suppliers' logs hold earlier ones too. */
const NAME = Math.floor(Date.now() / 1_000)
  .toString(36)
  .slice(-5);

const random = generator(Number(values.seed));
const wrong: string[] = [];
const toldIds = new Map<string, Set<string>>();
const finals = new Map<string, () => void>();
const receiver = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
  request.on("end", () => {
    response.writeHead(204).end();
    const { id } = (JSON.parse(body) as { data: { id: string } }).data;
    toldIds.set(id, (toldIds.get(id) ?? new Set()).add(String(request.headers["webhook-id"])));
    finals.get(id)?.();
  });
});
await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;

const begun = performance.now();
const planned = Array.from({ length: count }, (_, index) => plan(index));
const cutting = planned.filter((it) => CUTS.some((fate) => fate === it.fate));
const rest = planned.filter((it) => !cutting.includes(it));
const disturbing = values.disturb ? startDisturbing(call, random) : undefined;
const sent = [...(await sendAll(rest)), ...(await sendAll(cutting))];
const disturbances = (await disturbing?.stop()) ?? 0;
const seconds = (performance.now() - begun) / 1_000;

const byStatus: Record<string, number> = {};
const byFate: Record<string, Record<string, number>> = {};
await inParallel(group(sent), 16, async (ofOneNumber) => {
  const submits = await submitsTo(ofOneNumber[0]?.to ?? "");
  for (const it of ofOneNumber) {
    const story = await call<Story>("GET", `/v1/messages/${it.id}`);
    byStatus[story.status] = (byStatus[story.status] ?? 0) + 1;
    const ofFate = (byFate[it.fate] ??= {});
    ofFate[story.status] = (ofFate[story.status] ?? 0) + 1;
    const ours = submits.filter((submit) => submit.textHex.includes(it.tagHex));
    check(it, story, ours);
    checkWritesOnce(ours);
  }
});
receiver.close();
receiver.closeAllConnections();

interface Books {
  balanced: boolean;
  differences: unknown[];
}
const books = await call<Books>("GET", "/ops/v1/books");
const account = await call<{ held: { units: number } }>("GET", "/v1/account");
if (!books.balanced) wrong.push(`the books differ: ${JSON.stringify(books.differences)}`);
if (account.held.units !== 0) wrong.push(`${account.held.units} units are still held`);
process.stdout.write(
  `${JSON.stringify({
    seed: Number(values.seed),
    receipts: mode,
    sent: sent.length,
    seconds: Math.round(seconds),
    disturbances,
    byStatus,
    byFate,
    books,
    wrong: wrong.length,
    examples: wrong.slice(0, 20),
  })}\n`,
);
process.exitCode = wrong.length === 0 ? 0 : 1;

// ---- sending ------------------------------------------------------------------------------------

function plan(index: number): Planned {
  const fate = values.fates === undefined ? anyFate() : oneOf(values.fates.split(","));
  const prefix = oneOf(Object.values(PREFIXES).flat());
  const tag = `m${String(index).padStart(5, "0")}${NAME} `;
  const chinese = random() < 0.5;
  const length = random() < 0.3 ? (chinese ? 67 : 153) * (2 + Math.floor(random() * 2)) : 24;
  const text = (chinese ? `信${tag}` : tag).repeat(length).slice(0, length);
  const waits = WAITING.has(fate);
  return {
    index,
    fate,
    to: `${prefix}9999${fate}`,
    text,
    parts: length > 24 ? Math.ceil(length / (chinese ? 67 : 153)) : 1,
    tagHex: chinese ? Buffer.from(tag, "utf16le").swap16().toString("hex") : Buffer.from(tag).toString("hex"),
    validitySeconds: random() < 0.05 ? 5 : waits ? 30 : 600,
    cancelAfterMs: random() < Number(values.cancel) ? random() * 500 : undefined,
  };
}

/** Those that wait for their limit, or make a connection wait, are few: the rest would stand behind them. */
function anyFate(): string {
  const draw = random();
  if (draw < 0.004) return oneOf(CUTS);
  if (draw < 0.005) return oneOf(THROTTLED);
  return draw < 0.07 ? oneOf(ENDLESS) : oneOf(PLAIN);
}

async function sendAll(messages: readonly Planned[]): Promise<Sent[]> {
  const done: Sent[] = [];
  await inParallel(group(messages), Number(values["under-way"]), async (ofOneNumber) => {
    for (const it of ofOneNumber) done.push(await sendOne(it));
  });
  return done;
}

async function sendOne(it: Planned): Promise<Sent> {
  const { to, text, validitySeconds } = it;
  const body = { to, text, validitySeconds, webhookUrl: hook };
  const { id } = await call<{ id: string }>("POST", "/v1/messages", body);
  const final = new Promise<void>((resolve) => finals.set(id, resolve));
  if (toldIds.has(id)) finals.get(id)?.();
  const canceled = it.cancelAfterMs !== undefined && (await cancel(id, it.cancelAfterMs));
  await final;
  finals.delete(id);
  return { ...it, id, canceled };
}

async function cancel(id: string, afterMs: number): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  try {
    await call("POST", `/v1/messages/${id}/cancel`);
    return true;
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 409) throw error;
    return false;
  }
}

// ---- judging ------------------------------------------------------------------------------------

function check(it: Sent, story: Story, submits: readonly Submit[]): void {
  const say = (what: string): void => void wrong.push(`${it.id} fate ${it.fate} parts ${it.parts}: ${what}`);
  const expected = it.canceled
    ? { statuses: ["canceled"], attempts: 0 }
    : underDisturbance(expectedOf(it, mode));
  if (!expected.statuses.includes(story.status)) say(`${story.status} ${story.reason ?? ""}`);
  const reached = new Set(submits.map((submit) => submit.supplier)).size;
  if (expected.attempts !== undefined && reached !== expected.attempts) say(`${reached} suppliers saw it`);
  const channels = story.attempts.flatMap((attempt) => attempt.channel?.id ?? []);
  if (new Set(channels).size !== channels.length) say("a channel was tried twice");
  const writes = story.attempts.flatMap((attempt) => attempt.segments.map((segment) => segment.writes));
  const told = writes.reduce((sum, each) => sum + each, 0);
  if (told < submits.length) say(`the story tells of ${told} writes, the suppliers of ${submits.length}`);
  const money = story.ledger.map((entry) => entry.kind).join();
  if (MONEY[story.status]?.includes(money) !== true) say(`${story.status} and ${money}`);
  if (story.ledger.some((entry) => entry.units !== story.price.units)) say("an entry is not the price");
  if (story.notifications.length !== 1) say(`${story.notifications.length} notifications`);
  if (toldIds.get(it.id)?.size !== 1) say(`${toldIds.get(it.id)?.size} webhook ids`);
}

function underDisturbance(expected: Expected): Expected {
  return values.disturb ? { statuses: [...expected.statuses, ...DISTURBED] } : expected;
}

/** A part goes to one supplier once; again only after that one's own throttle answer (C3). */
function checkWritesOnce(submits: readonly Submit[]): void {
  const taken = new Set<string>();
  for (const { supplier, textHex, result } of submits) {
    const key = `${supplier} ${textHex}`;
    if (taken.has(key)) wrong.push(`a part was written twice to ${supplier}`);
    if (result !== 8) taken.add(key);
  }
}

async function submitsTo(to: string): Promise<Submit[]> {
  const logs = await Promise.all(
    run.suppliers.map(async ({ name, logUrl }) => {
      const response = await fetch(`${logUrl}/submits?to=${to}`);
      const submits = (await response.json()) as Omit<Submit, "supplier">[];
      return submits.map((it) => ({ ...it, supplier: name }));
    }),
  );
  return logs.flat();
}

// ---- small parts --------------------------------------------------------------------------------

/** The messages of each number, in their order. */
function group<Item extends { to: string }>(messages: readonly Item[]): Item[][] {
  const groups = new Map<string, Item[]>();
  for (const it of messages) {
    const ofOneNumber = groups.get(it.to);
    if (ofOneNumber === undefined) groups.set(it.to, [it]);
    else ofOneNumber.push(it);
  }
  return [...groups.values()];
}

async function inParallel<Item>(
  items: readonly Item[],
  most: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await work(next);
  };
  await Promise.all(Array.from({ length: most }, worker));
}

function oneOf<Item>(items: readonly Item[]): Item {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("nothing to choose from");
  return item;
}

/** The same numbers in [0, 1) for the same seed (mulberry32). */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
