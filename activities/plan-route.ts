/** Step 2: a channel for each attempt, from candidates that this batch alone shares (B1). */
import type { Database } from "../db/client.ts";
import {
  candidateKey,
  endWithoutRoute,
  type PlanFacts,
  readCandidates,
  readPlanFacts,
} from "../db/planning.ts";
import { isFinal } from "../domain/message.ts";
import { type Candidate, planRoute } from "../domain/route.ts";
import type { PlanAnswer } from "../domain/steps.ts";
import { atPoint } from "../fault-points/at-point.ts";

export const planBatch =
  (database: Database, draw: () => number) =>
  (attemptIds: string[]): Promise<PlanAnswer[]> =>
    atPoint("plan_route", async () => {
      const facts = await readPlanFacts(database, attemptIds);
      const candidates = await readCandidates(database, [...facts.values()]);
      const answers: PlanAnswer[] = [];
      for (const id of attemptIds) {
        const it = facts.get(id);
        answers.push(
          it === undefined
            ? { kind: "superseded" }
            : await plan(database, it, candidates.get(candidateKey(it)) ?? [], draw()),
        );
      }
      return answers;
    });

async function plan(
  database: Database,
  it: PlanFacts,
  candidates: readonly Candidate[],
  draw: number,
): Promise<PlanAnswer> {
  if (isFinal(it.status)) return { kind: "ended", status: it.status };
  if (it.currentAttemptId !== it.attemptId) return { kind: "superseded" };
  if (it.committedChannelId !== null) {
    return { kind: "planned", channelId: it.committedChannelId, considered: [] };
  }
  const end = (status: "expired" | "failed" | "refused", reason: string) =>
    database.transaction((tx) => endWithoutRoute(tx, it.attemptId, { status, reason }));
  if (it.pastLimit) return end("expired", "time_limit_passed");
  if (it.barredBy !== null) return end("refused", it.barredBy);
  if (it.operator === null) throw new Error("a reserved message has an operator");
  const route = planRoute(candidates, it.operator, new Set(it.triedChannelIds), draw);
  switch (route.kind) {
    case "chosen":
      return { kind: "planned", channelId: route.candidate.channelId, considered: route.considered };
    case "disconnected":
      return { kind: "disconnected" };
    case "no_route":
      return end("failed", "no_route");
  }
}
