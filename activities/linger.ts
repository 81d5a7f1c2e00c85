/**
 * Keeps an attempt's first workflow task open for a moment after `publish`: a decision that comes by then
 * is settled in that same task, at half of Temporal's cost (design §3, Linger).
 *
 * It changes no rule. Whoever is not here in time, for whatever reason, is told by an update as before; a
 * call that is lost costs the linger and nothing else.
 */
import type { LingerAnswer } from "../domain/steps.ts";

/** `no_room`: as many lingered as may; `ended`: the worker stops. */
export type LingerOutcome = "hit" | "miss" | "no_room" | "ended";

export interface Lingers {
  /** Before the attempt's command can reach anybody: what is called from now on is not missed. */
  expect(attemptId: string): void;
  /** Until a decision is due, at most so long. */
  linger(attemptId: string, atMostMs: number): Promise<LingerAnswer>;
  /** Decisions are due for these attempts; those that linger elsewhere, or no more, are passed over. */
  call(attemptIds: readonly string[]): void;
  /** Sends everybody on, now and from now on: the worker stops, and open tasks would hold it up. */
  end(): void;
}

export interface LingerOptions {
  /** Workflow tasks that may be kept open at a time; the other slots are for attempts that have work. */
  room: number;
  /** How long an attempt is remembered that is expected and never comes, in milliseconds; longer than any lingers. */
  rememberMs: number;
  onOutcome?: (outcome: LingerOutcome) => void;
  now?: () => number;
}

interface Expected {
  since: number;
  called: boolean;
  /** Set while it lingers. */
  go?: (outcome: LingerOutcome) => void;
}

export function createLingers(options: LingerOptions): Lingers {
  const { room, rememberMs, onOutcome, now = () => performance.now() } = options;
  const attempts = new Map<string, Expected>();
  let lingering = 0;
  let ended = false;

  /** The oldest stand first, so at most one that stays is looked at. */
  function forgetOld(): void {
    const before = now() - rememberMs;
    for (const [id, it] of attempts) {
      if (it.since > before) return;
      attempts.delete(id);
    }
  }

  function wait(it: Expected, atMostMs: number): Promise<LingerOutcome> {
    if (it.called) return Promise.resolve("hit");
    if (ended) return Promise.resolve("ended");
    if (lingering >= room) return Promise.resolve("no_room");
    lingering++;
    return new Promise<LingerOutcome>((resolve) => {
      const timer = setTimeout(() => it.go?.("miss"), atMostMs);
      it.go = (outcome) => {
        clearTimeout(timer);
        lingering--;
        delete it.go;
        resolve(outcome);
      };
    });
  }

  return {
    expect(attemptId) {
      forgetOld();
      // A second run of the same step does not unsay what was called.
      if (!attempts.has(attemptId)) attempts.set(attemptId, { since: now(), called: false });
    },
    async linger(attemptId, atMostMs) {
      const before = attempts.get(attemptId);
      // A task that timed out at the server is run again while its first run still lingers here.
      before?.go?.("ended");
      const it: Expected = { since: now(), called: before?.called ?? false };
      attempts.delete(attemptId);
      attempts.set(attemptId, it);
      const outcome = await wait(it, atMostMs);
      if (attempts.get(attemptId) === it) attempts.delete(attemptId);
      onOutcome?.(outcome);
      return { kind: outcome === "hit" ? "due" : "not_yet" };
    },
    call(attemptIds) {
      for (const id of attemptIds) {
        const it = attempts.get(id);
        if (it === undefined) continue;
        it.called = true;
        it.go?.("hit");
      }
    },
    end() {
      ended = true;
      for (const it of attempts.values()) it.go?.("ended");
    },
  };
}
