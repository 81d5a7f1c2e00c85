/**
 * Tells customers of final states: as many calls under way as there are slots, a claim for each call,
 * its outcome recorded with the claim's token (E1, E3).
 *
 * Nothing here can hold up the send chain: it has a pool and a process of its own (D1).
 */
import { randomUUID } from "node:crypto";
import type { Database } from "../db/client.ts";
import {
  claimNotifications,
  closeGone,
  parkOverdue,
  recordDelivered,
  recordFailed,
  recordGone,
  type ClaimedNotification,
  type HostLoad,
  type Try,
} from "../db/notifications.ts";
import { HOST_PAUSE, judgeCall, LADDER_SUM_MS, type CallOutcome, type Verdict } from "../domain/webhook.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { delay, errorName, every, loop, type Log, type Service } from "./service.ts";
import { createWebhookClient } from "./webhook-call.ts";
import type { Resolve } from "./webhook-dial.ts";

/**
 * What became of a claim. `taken_over`: its claimer before vanished in mid-call; `stale`: ours came
 * too late, another claim holds the row; `unrecorded`: the call was made and no database could be told.
 */
export type NotifierOutcome =
  | "delivered"
  | "retried"
  | "parked"
  | "disabled"
  | "taken_over"
  | "stale"
  | "unrecorded";

export interface NotifierOptions {
  database: Database;
  log: Log;
  /** Loopback may be called too: the demo's own receiver. */
  allowLoopback: boolean;
  onOutcome?: (outcome: NotifierOutcome) => void;
  /** Calls under way at a time, over all hosts. */
  slots?: number;
  /** For one whole call, in milliseconds. */
  timeoutMs?: number;
  /** How long a claim keeps others off, in milliseconds: longer than a call and its record. */
  leaseMs?: number;
  /** Between two looks while nothing happens, in milliseconds. */
  pollMs?: number;
  /** How long `stop` waits for calls before it gives them up, in milliseconds. */
  graceMs?: number;
  resolve?: Resolve;
}

/**
 * Calls at a time to one host. It begins low and grows with each success: a host that hangs holds two
 * slots and not sixteen, and one that comes back is not run over.
 */
const PER_HOST = { first: 2, most: 16 };
const OVERDUE = { everyMs: 60_000, rows: 500 };
const RECORD_RETRY_MS = 500;

export interface Notifier extends Service {
  /** When it last looked for work, for a liveness that is progress. */
  lastTurnAt(): number;
}

export function createNotifier(options: NotifierOptions): Notifier {
  const { database, log, slots = 256, timeoutMs = 15_000, leaseMs = 30_000, pollMs = 200 } = options;
  if (leaseMs <= timeoutMs) throw new RangeError("a lease must outlast its call");
  const told = options.onOutcome ?? (() => undefined);
  const client = (): ReturnType<typeof createWebhookClient> =>
    createWebhookClient({ ...options, timeoutMs, connectionsPerHost: PER_HOST.most });
  const underWay = new Set<Promise<void>>();
  const hosts = hostLoads();
  let webhooks = client();
  let gaveUp = false;
  let wake = new AbortController();

  const taking = loop({
    name: "notifier",
    log,
    turn: async () => {
      wake = new AbortController();
      const free = slots - underWay.size;
      const did = free === 0 ? 0 : await take(free);
      return { did, full: did > 0 };
    },
    pause: async (stopping) => {
      const woken = wake;
      const stop = (): void => woken.abort();
      stopping.addEventListener("abort", stop);
      if (!stopping.aborted) await delay(pollMs, woken.signal);
      stopping.removeEventListener("abort", stop);
    },
  });
  const sweeping = loop({
    name: "notifier-overdue",
    log,
    turn: async () => {
      const did = await parkOverdue(database, LADDER_SUM_MS, OVERDUE.rows);
      for (let row = 0; row < did; row++) told("parked");
      return { did, full: did === OVERDUE.rows };
    },
    pause: every(OVERDUE.everyMs),
  });

  async function take(free: number): Promise<number> {
    const token = randomUUID();
    const wish = {
      token,
      // Half of what is free: whoever comes next finds a slot, whatever hangs.
      limit: Math.ceil(free / 2),
      leaseMs,
      allowedAtFirst: PER_HOST.first,
      loads: hosts.list(),
      crowded: hosts.crowded(free),
    };
    const claimed = await atPoint("notification_claim", () => claimNotifications(database, wish));
    const leaseEnds = performance.now() + leaseMs;
    for (const one of claimed) if (one.takenOver) told("taken_over");
    const gone = claimed.filter((one) => one.gone).map((one) => one.id);
    for (const one of claimed) if (!one.gone) begin(one, token, leaseEnds);
    if (gone.length > 0) await disable(gone, token);
    return claimed.length;
  }

  /** No promise of `deliver` rejects, so what is under way only has to be waited for. */
  function begin(claim: ClaimedNotification, token: string, leaseEnds: number): void {
    hosts.began(claim);
    const call = deliver(claim, token, leaseEnds).finally(() => {
      underWay.delete(call);
      wake.abort();
    });
    underWay.add(call);
  }

  async function deliver(claim: ClaimedNotification, token: string, leaseEnds: number): Promise<void> {
    const startedAt = performance.now();
    const secrets = [claim.secret, claim.previousSecret].filter((secret) => secret !== null);
    const outcome = await webhooks.call({ ...claim, secrets });
    const durationMs = Math.round(performance.now() - startedAt);
    const verdict = judgeCall(outcome, claim.triesOnLadder, Math.random(), Date.now());
    hosts.ended(claim, verdict.kind === "delivered" || verdict.kind === "gone");
    // A call that we broke off says nothing about the endpoint: the lease offers it again.
    if (gaveUp && outcome.kind === "unanswered") return;
    const it = { id: claim.id, token, durationMs, ...asRecorded(outcome, verdict) };
    await record(it, verdict, leaseEnds);
  }

  /** Tried for as long as the lease holds: a database that is away for a moment costs no second call. */
  async function record(it: Try, verdict: Verdict, leaseEnds: number): Promise<void> {
    while (performance.now() < leaseEnds) {
      try {
        const mine = await atPoint("notification_record", () => writeDown(database, it, verdict));
        told(mine ? NAMES[verdict.kind] : "stale");
        if (verdict.kind === "parked")
          log.warn({ notification: it.id, error: it.error }, "notification parked");
        return;
      } catch (error) {
        log.warn({ notification: it.id, error: errorName(error) }, "notification try not recorded yet");
        if (gaveUp) break;
        await delay(RECORD_RETRY_MS);
      }
    }
    told("unrecorded");
  }

  async function disable(ids: readonly string[], token: string): Promise<void> {
    const closed = await closeGone(database, ids, token);
    for (let row = 0; row < closed; row++) told("disabled");
  }

  return {
    name: "notifier",
    lastTurnAt: () => taking.lastTurnAt(),
    async start() {
      if (gaveUp) {
        gaveUp = false;
        webhooks = client();
      }
      await Promise.all([taking.start(), sweeping.start()]);
    },
    async stop() {
      await Promise.all([taking.stop(), sweeping.stop()]);
      const over = new AbortController();
      await Promise.race([Promise.all(underWay), delay(options.graceMs ?? 5_000, over.signal)]);
      over.abort();
      gaveUp = true;
      await webhooks.close();
      await Promise.all(underWay);
    },
  };
}

const NAMES = {
  delivered: "delivered",
  gone: "disabled",
  retry: "retried",
  parked: "parked",
} as const satisfies Record<Verdict["kind"], NotifierOutcome>;

const asRecorded = (outcome: CallOutcome, verdict: Verdict): Pick<Try, "httpStatus" | "error"> => ({
  httpStatus: outcome.kind === "answered" ? outcome.httpStatus : null,
  error: verdict.kind === "delivered" ? null : verdict.error,
});

function writeDown(database: Database, it: Try, verdict: Verdict): Promise<boolean> {
  switch (verdict.kind) {
    case "delivered":
      return recordDelivered(database, it);
    case "gone":
      return recordGone(database, it);
    case "retry":
    case "parked": {
      const host = { ...HOST_PAUSE, failed: verdict.hostFailed, restMs: verdict.restMs };
      return recordFailed(database, it, host, verdict.kind === "retry" ? verdict.afterMs : undefined);
    }
  }
}

type HostOf = Pick<ClaimedNotification, "applicationId" | "host">;

interface HostLoads {
  list(): HostLoad[];
  /** Applications with more calls under way than slots are free: a customer can name any number of hosts. */
  crowded(free: number): string[];
  began(of: HostOf): void;
  ended(of: HostOf, well: boolean): void;
}

/** What is under way with each host, and what each has earned. Quiet hosts are forgotten, oldest first. */
function hostLoads(remembered = 200): HostLoads {
  const loads = new Map<string, HostLoad>();

  function of({ applicationId, host }: HostOf): HostLoad {
    const key = `${applicationId} ${host}`;
    const load = loads.get(key) ?? { applicationId, host, inFlight: 0, allowed: PER_HOST.first };
    loads.delete(key);
    loads.set(key, load);
    return load;
  }

  function forgetQuiet(): void {
    for (const [key, load] of loads) {
      if (loads.size <= remembered) return;
      if (load.inFlight === 0) loads.delete(key);
    }
  }

  return {
    list: () => [...loads.values()],
    crowded(free) {
      const calls = new Map<string, number>();
      for (const { applicationId, inFlight } of loads.values()) {
        calls.set(applicationId, (calls.get(applicationId) ?? 0) + inFlight);
      }
      return [...calls].filter(([, inFlight]) => inFlight > free).map(([applicationId]) => applicationId);
    },
    began(claim) {
      of(claim).inFlight++;
      forgetQuiet();
    },
    ended(claim, well) {
      const load = of(claim);
      load.inFlight--;
      load.allowed = well ? Math.min(load.allowed + 1, PER_HOST.most) : PER_HOST.first;
    },
  };
}
