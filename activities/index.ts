/** The steps of an attempt as Temporal activities, in reading order. Workflows import the type alone. */
import type { Planned } from "../db/attempts.ts";
import { type Database, isAway } from "../db/client.ts";
import type {
  LingerAnswer,
  PersistAnswer,
  PlanAnswer,
  PublishAnswer,
  ReserveAnswer,
  SettleAnswer,
} from "../domain/steps.ts";
import type { Streams } from "../gateway-bridge/streams.ts";
import { coalesce, type CoalesceOptions } from "./coalesce.ts";
import type { Lingers } from "./linger.ts";
import { persevering } from "./persevere.ts";
import { persistBatch } from "./persist-outbox.ts";
import { planBatch } from "./plan-route.ts";
import { publishBatch } from "./publish.ts";
import { reserveBatch } from "./reserve.ts";
import { type ReviewActivities, reviewActivities } from "./review.ts";
import { settleBatch } from "./settle-or-retry.ts";

export interface ActivityDeps {
  /** Settlement has a pool of its own: a flood of receipts leaves the others their connections (D1). */
  planning: Database;
  settlement: Database;
  publisher: Database;
  streams: Streams;
  lingers: Lingers;
  coalesce: CoalesceOptions;
  /** Counted tries of a step before a person looks, those of its local form included (D12). */
  tries: { inAll: number; local: number };
  onBatch?: (step: string, size: number) => void;
}

export interface Activities extends ReviewActivities {
  reserve(attemptId: string): Promise<ReserveAnswer>;
  planRoute(attemptId: string): Promise<PlanAnswer>;
  persistOutbox(planned: Planned): Promise<PersistAnswer>;
  publish(attemptId: string): Promise<PublishAnswer>;
  linger(it: { attemptId: string; atMostMs: number }): Promise<LingerAnswer>;
  settleOrRetry(attemptId: string): Promise<SettleAnswer>;
}

export function createActivities(deps: ActivityDeps): Activities {
  function step<Item, Answer>(
    name: string,
    run: (items: Item[]) => Promise<Answer[]>,
    notNow?: (answer: Answer) => boolean,
  ): (item: Item) => Promise<Answer> {
    const one = coalesce(run, {
      ...deps.coalesce,
      mayBeOneItem: (error) => !isAway(error),
      onBatch: (size) => deps.onBatch?.(name, size),
    });
    return persevering(one, {
      countedTries: deps.tries.inAll - deps.tries.local,
      ...(notNow === undefined ? {} : { notNow }),
    });
  }
  const { planning, settlement, publisher: database, streams, lingers } = deps;
  const publish = step("publish", publishBatch({ database, streams }));
  const review = reviewActivities(settlement);
  // A review is where counting ends: what writes it down is tried for ever.
  const forEver = { countedTries: Number.POSITIVE_INFINITY };
  return {
    reserve: step("reserve", reserveBatch(planning)),
    planRoute: step("plan_route", planBatch(planning, Math.random), (it) => it.kind === "disconnected"),
    persistOutbox: step("persist_outbox", persistBatch(planning)),
    publish(attemptId) {
      lingers.expect(attemptId);
      return publish(attemptId);
    },
    linger: ({ attemptId, atMostMs }) => lingers.linger(attemptId, atMostMs),
    settleOrRetry: step("settle_or_retry", settleBatch(settlement)),
    openReview: persevering(review.openReview, forEver),
    closeReview: persevering(review.closeReview, forEver),
    resolveReview: persevering(review.resolveReview, forEver),
  };
}
