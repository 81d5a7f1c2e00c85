/**
 * One attempt to hand one message to one supplier channel:
 *
 *   reserve -> plan-route -> persist-outbox -> publish -> await-segments -> settle-or-retry
 *
 * Where it lingers, all of that happens in one workflow task; else the wait begins the second one.
 *
 * It carries ids and states only. PostgreSQL holds the facts; this history says where the attempt is
 * and what happens next. Every step may run twice and changes nothing the second time.
 */
import {
  allHandlersFinished,
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  setHandler,
} from "@temporalio/workflow";
import type { PersistAnswer, Resolution, SettleAnswer } from "../domain/steps.ts";
import { Bell } from "./bell.ts";
import { Course, type CourseStatus } from "./course.ts";
import { type StepPolicy, stepsUnder } from "./steps.ts";

export interface AttemptInput {
  attemptId: string;
  policy: StepPolicy & {
    /** A route that does not hold at commit time is planned again this often before a person looks. */
    plans: number;
    /**
     * How long after its start an attempt may keep its first workflow task open for a decision; 0 or nothing
     * in the input: not at all. It stands in the input, so attempts that began without it replay without it.
     */
    lingerMs?: number;
  };
}

export type AttemptResult =
  | Exclude<SettleAnswer, { kind: "waiting" }>
  | Exclude<PersistAnswer, { kind: "queued" | "replan" }>;

/** "Look again": facts have changed and a decision is due. Returns when what follows is committed. */
export const look = defineUpdate("look");

/** What a person decided about an attempt in review (interfaces §4). */
export const resolve = defineSignal<[Resolution]>("resolve");

/** Where the attempt is, since when and why (interfaces §5). */
export const status = defineQuery<CourseStatus>("status");

export async function attempt(input: AttemptInput): Promise<AttemptResult> {
  const told = new Bell();
  const course = new Course(input.attemptId, stepsUnder(input.policy), told);
  // Before the first await: a decision may be told while the first steps still run.
  setHandler(look, () => told.ring());
  setHandler(resolve, (resolution) => course.receive(resolution));
  setHandler(status, () => course.status);

  const result = await walk(input, course);
  await course.end();
  await condition(allHandlersFinished);
  return result;
}

async function walk({ attemptId, policy }: AttemptInput, course: Course): Promise<AttemptResult> {
  const lingersUntil = Date.now() + (policy.lingerMs ?? 0);
  const reserved = await course.step("reserve", (steps) => steps.reserve(attemptId));
  if (reserved.kind !== "reserved") return reserved;

  const queued = await planAndPersist(attemptId, policy.plans, course);
  if (queued.kind !== "queued") return queued;

  const endsAt = Date.now() + queued.limitInMs;
  const published = await course.step("publish", (steps) => steps.publish(attemptId));

  // An attempt that was committed before may have its facts already.
  let isDue = queued.existing;
  if (!isDue && published.kind === "published") isDue = await course.linger(lingersUntil - Date.now());

  return awaitAndSettle(attemptId, endsAt, isDue, course);
}

type Queued = Extract<PersistAnswer, { kind: "queued" }>;

/** A route that no longer holds when it is committed is planned again (B3). */
async function planAndPersist(
  attemptId: string,
  mostPlans: number,
  course: Course,
): Promise<Queued | Exclude<AttemptResult, SettleAnswer>> {
  for (let plans = 1; ; plans++) {
    const route = await course.step("plan-route", (steps) => steps.planRoute(attemptId));
    if (route.kind === "disconnected") continue;
    if (route.kind !== "planned") return route;
    const { channelId, considered } = route;
    const answer = await course.step("persist-outbox", (steps) =>
      steps.persistOutbox({ attemptId, channelId, considered }),
    );
    if (answer.kind !== "replan") return answer;
    if (plans % mostPlans === 0) await course.review("route_never_held");
  }
}

/** Waits until there is something to look at, or the message's limit passes; looks; until it is decided. */
async function awaitAndSettle(
  attemptId: string,
  firstEndsAt: number,
  isDue: boolean,
  course: Course,
): Promise<Exclude<SettleAnswer, { kind: "waiting" }>> {
  let endsAt = firstEndsAt;
  for (let waits = !isDue; ; waits = true) {
    if (waits) await course.awaitSegments(endsAt);
    const answer = await course.look((steps) => steps.settleOrRetry(attemptId));
    if (answer.kind !== "waiting") return answer;
    // Never a tight loop, should the clocks of database and Temporal differ by a little.
    endsAt = Date.now() + Math.max(answer.limitInMs, 1_000);
  }
}
