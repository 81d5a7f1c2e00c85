/** How much the whole chain completes when 200 messages are always in flight. */
import { books } from "../db/ledger.ts";
import { readStored } from "./facts.ts";
import { type Cost, costOf } from "./cost.ts";
import { drained } from "./drain.ts";
import { rounded } from "./latency.ts";
import { type LingerCounts, lingerSince, readLinger } from "./linger.ts";
import { planTraffic } from "./plan.ts";
import { makeSenders } from "./sender.ts";
import { type Surroundings, ordersOf } from "./tier.ts";
import { watch } from "./watch.ts";
import { Trouble } from "../scripts/trouble.ts";
import { delay } from "../workers/service.ts";

export interface Saturated extends Cost {
  /** Webhooks received a second, between the warm-up and the moment when the last message was submitted. */
  perSecond: number;
  measured: number;
  /** Messages without exactly one final state and one notification; 0 is the only good figure. */
  lost: number;
  booksBalanced: boolean;
  linger: LingerCounts | null;
}

const IN_FLIGHT = 200;
const WARM_UP = 500;
const PATIENCE_MS = 120_000;
const POLL_MS = 20;

/** @param messages measured, behind a warm-up that is not */
export async function saturate(
  { system, database, generator, numbers, signal }: Surroundings,
  messages: number,
  show: (detail: string) => void,
): Promise<Saturated> {
  const { run } = system;
  const name = "saturated";
  const senders = await makeSenders(run, database, name, generator.webhookUrl);
  const planned = planTraffic(
    { ratePerSecond: WARM_UP + messages + IN_FLIGHT, seconds: 1, longShare: 0, fates: "delivered" },
    numbers,
  ).filter(({ sender }) => sender === "main");
  const sending = generator.send(run.api, ordersOf(planned, senders, name), IN_FLIGHT);
  const deadline = Date.now() + PATIENCE_MS;
  const told = async (count: number): Promise<void> => {
    while (generator.progress().told < count) {
      signal.throwIfAborted();
      if (Date.now() > deadline)
        throw new Trouble(`Of ${count} messages, ${generator.progress().told} were told in time.`);
      await delay(POLL_MS, signal);
      show(`${generator.progress().told} of ${planned.length}`);
    }
  };
  await told(WARM_UP);
  const lingerBefore = await readLinger(run);
  const watching = watch(database, () => ({ ...run.pids, load: generator.pid }));
  const toldBefore = generator.progress().told;
  await told(WARM_UP + messages);
  const toldAfter = generator.progress().told;
  const watched = await watching.end();
  await sending;
  const linger = lingerSince(lingerBefore, await readLinger(run));
  await drained(database, PATIENCE_MS, signal, () => true);
  const { sent } = await generator.collect();
  const stored = await readStored(database, [senders.main.applicationId], senders.accountId);
  const final = new Set(stored.messages.flatMap((it) => (it.status === "delivered" ? [it.id] : [])));
  const times = sent
    .flatMap(({ webhooks }) => webhooks.slice(0, 1).map(({ at }) => at))
    .sort((a, b) => a - b);
  const [first = 0, last = 0] = [times[WARM_UP], times[WARM_UP + messages]];
  return {
    perSecond: rounded((messages * 1_000) / (last - first)),
    measured: messages,
    lost: sent.filter(({ id, webhooks }) => id === null || !final.has(id) || webhooks.length === 0).length,
    booksBalanced: (await books(database)).balanced,
    ...costOf(watched, toldAfter - toldBefore),
    linger,
  };
}
