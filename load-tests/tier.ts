/** One tier of a load run: sent at its rate, drained, watched, replayed, judged (rules L). */
import { type Database, POOL_BUDGET } from "../db/client.ts";
import { books } from "../db/ledger.ts";
import { type AttemptId, attemptWorkflowId } from "../domain/ids.ts";
import type { System } from "../scripts/system.ts";
import { readStreams } from "./command-streams.ts";
import { type Cost, costOf } from "./cost.ts";
import { drained } from "./drain.ts";
import type { Generator } from "./drive.ts";
import { countConnected, countPersonsWork, readActivity, readLeftOver, readStored } from "./facts.ts";
import { type Figures, type Stage, figuresOf, heldBy } from "./figures.ts";
import { type HistoryCost, historyCost } from "./histories.ts";
import { type LingerCounts, lingerSince, readLinger } from "./linger.ts";
import { type Numbers, type PlannedMessage, type Traffic, planTraffic } from "./plan.ts";
import { endOfLog, errorsSince } from "./postgres-log.ts";
import { restartAndReplay } from "./replay.ts";
import { type Senders, PRICE_UNITS, makeSenders } from "./sender.ts";
import { startChannels, stopThings } from "./stops.ts";
import { readReceipts, readSubmits, supplierTotals } from "./suppliers.ts";
import { type TierFacts, type Verdict, judge } from "./verdict.ts";
import { watch } from "./watch.ts";

/** What a whole run has in common. */
export interface Surroundings {
  /** The copy's state folder. */
  home: string;
  system: System;
  database: Database;
  generator: Generator;
  numbers: Numbers;
  /** The longest that a simulated receipt takes. */
  receiptDelayMs: number;
  signal: AbortSignal;
}

export interface TierResult extends Figures, Verdict, Cost {
  tier: string;
  sent: number;
  /** What was asked for. */
  nominalRate: number;
  /** Completed first submits over the window. */
  ratePerSecond: number;
  seconds: number;
  drainSeconds: number;
  history: HistoryCost;
  linger: LingerCounts | null;
  /** By which stage it was held, where it did not keep its rate. */
  heldBy?: Stage;
}

/** @param show told how far it is, for a person who waits */
export async function runTier(
  around: Surroundings,
  name: string,
  traffic: Traffic,
  show: (detail: string) => void,
): Promise<TierResult> {
  const { system, database, generator, numbers, signal } = around;
  const { run, children } = system;
  const planned = planTraffic(traffic, numbers);
  const recipients = new Set(planned.map(({ to }) => to));
  const before = {
    suppliersInSimulator: (await supplierTotals(run)).connected,
    suppliersInPostgres: await countConnected(database),
    leftOver: await readLeftOver(database),
    numbersSeenBySuppliers: (await readSubmits(run, recipients)).length,
  };
  const senders = await makeSenders(run, database, name, generator.webhookUrl);
  const applications = [senders.main.applicationId, senders.stopped.applicationId];
  const log = children.logOf("postgres");
  const logFrom = endOfLog(log);
  const lingerBefore = await readLinger(run);

  const watching = watch(database, () => ({ ...run.pids, load: generator.pid }));
  const ticking = setInterval(() => show(progressOf(generator, planned.length)), PROGRESS_MS);
  const stopping = stopThings(run, database, senders, traffic.seconds * 1_000, signal);
  const beganAt = await generator.send(run.api, ordersOf(planned, senders, name), null);
  const stops = await stopping;
  const patience = DRAIN_MS + around.receiptDelayMs + planned.length * DRAIN_MS_PER_MESSAGE;
  const isTold = (): boolean => generator.progress().told >= generator.progress().accepted;
  const leftOver = await drained(database, patience, signal, isTold);
  const drainedAt = Date.now();
  const watched = await watching.end();
  clearInterval(ticking);
  const activity = await settledActivity(database);
  const linger = lingerSince(lingerBefore, await readLinger(run));
  const { sent, strayWebhooks, refusedWebhooks } = await generator.collect();
  const [stored, submits, receipts, streams] = [
    await readStored(database, applications, senders.accountId),
    await readSubmits(run, recipients),
    await readReceipts(run, recipients),
    await readStreams(run.redisUrl, senders.channelIds),
  ];
  const figures = figuresOf({ beganAt, seconds: traffic.seconds, planned, sent, stored, submits, receipts });
  const history = await historyCost(
    run.temporalAddress,
    stored.attempts.map(({ id }) => attemptWorkflowId(id as AttemptId)),
  );

  show("drained; restarts every role and publishes everything once more");
  const isClean = Object.values(leftOver).every((count) => count === 0);
  const replay = isClean ? await restartAndReplay(system, database, senders, signal) : null;
  await startChannels(run, stops);

  const facts: TierFacts = {
    nominalRate: traffic.ratePerSecond,
    reachedRate: figures.rates.firstSubmits,
    unitPrice: BigInt(PRICE_UNITS),
    applications: { main: senders.main.applicationId, stopped: senders.stopped.applicationId },
    before,
    planned,
    sent,
    webhooksOfNoMessage: strayWebhooks,
    webhooksWithBadSignature: refusedWebhooks,
    stored,
    submits,
    leftOver,
    streams,
    booksBalanced: (await books(database)).balanced,
    server: {
      lockWaitsLeft: activity.lock_waits,
      idleInTransactionLeft: activity.idle_in_transaction,
      longestTransactionS: watched.longestTransactionS,
      mostConnections: watched.mostConnections,
      connectionBudget: Object.values<number>(POOL_BUDGET).reduce((sum, size) => sum + size, 0),
      ...errorsSince(log, logFrom),
    },
    stops,
    personsWork: await countPersonsWork(database),
    replay,
  };
  const verdict = judge(facts);
  const held = verdict.checks["rate_kept"] === false ? heldBy(figures) : undefined;
  return {
    tier: name,
    sent: sent.length,
    nominalRate: traffic.ratePerSecond,
    ratePerSecond: figures.rates.firstSubmits,
    seconds: traffic.seconds,
    drainSeconds: Math.max(0, Math.round(drainedAt - beganAt - traffic.seconds * 1_000) / 1_000),
    ...figures,
    ...costOf(watched, stored.messages.length),
    history,
    linger,
    ...verdict,
    ...(held === undefined ? {} : { heldBy: held }),
  };
}

const PROGRESS_MS = 500;
const DRAIN_MS = 60_000;
/** A machine that completes 20 a second drains what it was behind by. */
const DRAIN_MS_PER_MESSAGE = 50;

function progressOf(generator: Generator, planned: number): string {
  const { submitted, accepted, told } = generator.progress();
  return `${submitted} of ${planned} sent, ${accepted} accepted, ${told} told`;
}

export const ordersOf = (planned: readonly PlannedMessage[], senders: Senders, tier: string) =>
  planned.map(({ dueMs, to, text, sender }, index) => ({
    dueMs,
    to,
    text,
    apiKey: senders[sender].apiKey,
    key: `${tier}-${index}`,
  }));

/** Loops poll: a statement that is just now under way is no lock wait that was left. */
async function settledActivity(database: Database): Promise<Awaited<ReturnType<typeof readActivity>>> {
  let activity = await readActivity(database);
  for (let looks = 1; looks < LOOKS && activity.lock_waits + activity.idle_in_transaction > 0; looks++) {
    activity = await readActivity(database);
  }
  return activity;
}
const LOOKS = 50;
