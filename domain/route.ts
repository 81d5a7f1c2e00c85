/** The choice of a channel for one attempt, with what spoke for or against each candidate (B1, B4, B5). */
import type { Operator } from "./message.ts";

export interface Candidate {
  channelId: string;
  supplierId: string;
  srcId: string;
  /** Smaller goes first. */
  priority: number;
  weight: number;
  /** Channel and supplier are enabled. */
  active: boolean;
  operators: readonly string[];
  /** The message's signature is filed here. */
  filed: boolean;
  /** A connection of the supplier is up and its heartbeat fresh. */
  connected: boolean;
}

export type Verdict =
  | "eligible"
  | "disabled"
  | "wrong_operator"
  | "signature_not_filed"
  | "tried_before"
  | "disconnected";

export interface Considered {
  channelId: string;
  priority: number;
  verdict: Verdict;
}

export type Route =
  | { kind: "chosen"; candidate: Candidate; considered: Considered[] }
  /** Only connections are missing: wait and plan again, it is not "no route" (B4). */
  | { kind: "disconnected"; considered: Considered[] }
  | { kind: "no_route"; considered: Considered[] };

/** `draw` is a number in [0, 1) and picks by weight among the eligible of the best priority. */
export function planRoute(
  candidates: readonly Candidate[],
  operator: Operator,
  triedChannels: ReadonlySet<string>,
  draw: number,
): Route {
  const judged = candidates.map((candidate) => ({
    candidate,
    verdict: verdictOn(candidate, operator, triedChannels),
  }));
  const considered = judged
    .map(({ candidate, verdict }) => ({
      channelId: candidate.channelId,
      priority: candidate.priority,
      verdict,
    }))
    .sort((a, b) => a.priority - b.priority || (a.channelId < b.channelId ? -1 : 1));
  const eligible = judged.filter(({ verdict }) => verdict === "eligible").map(({ candidate }) => candidate);
  const chosen = pickByWeight(bestPriority(eligible), draw);
  if (chosen !== undefined) return { kind: "chosen", candidate: chosen, considered };
  const waiting = judged.some(({ verdict }) => verdict === "disconnected");
  return { kind: waiting ? "disconnected" : "no_route", considered };
}

function verdictOn(candidate: Candidate, operator: Operator, tried: ReadonlySet<string>): Verdict {
  if (!candidate.active) return "disabled";
  if (!candidate.operators.includes(operator)) return "wrong_operator";
  if (!candidate.filed) return "signature_not_filed";
  if (tried.has(candidate.channelId)) return "tried_before";
  return candidate.connected ? "eligible" : "disconnected";
}

function bestPriority(eligible: readonly Candidate[]): Candidate[] {
  const best = Math.min(...eligible.map((candidate) => candidate.priority));
  return eligible.filter((candidate) => candidate.priority === best);
}

function pickByWeight(candidates: readonly Candidate[], draw: number): Candidate | undefined {
  const total = candidates.reduce((sum, candidate) => sum + candidate.weight, 0);
  let rest = draw * total;
  for (const candidate of candidates) {
    rest -= candidate.weight;
    if (rest < 0) return candidate;
  }
  return candidates.at(-1);
}
