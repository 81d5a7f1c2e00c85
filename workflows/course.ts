/**
 * The course of one attempt: which step it is at, what a person must decide, and what was said. A step
 * that was given up waits here, visibly, until a person or a limit moves it (D12).
 */
import {
  ActivityFailure,
  ApplicationFailure,
  condition,
  isCancellation,
  upsertSearchAttributes,
} from "@temporalio/workflow";
import type { Resolution, SettleAnswer } from "../domain/steps.ts";
import type { Bell } from "./bell.ts";
import type { Steps } from "./steps.ts";

export type StepName =
  | "reserve"
  | "plan-route"
  | "persist-outbox"
  | "publish"
  | "await-segments"
  | "settle-or-retry"
  | "done";

/** What query `status` shows: ids, states and codes, never a number or a text. */
export interface CourseStatus {
  step: StepName;
  since: string;
  needsReview: { reason: string; since: string } | null;
  /** When the message's own limit ends the wait; null before the command is committed. */
  nextDeadline: string | null;
  lastError: string | null;
  /** What the last signal did: also "none, and why". */
  lastResolution: { action: string; effect: string } | null;
}

/** Set while a person is needed, and only then (interfaces §5). */
const needsReview = { name: "WaybillNeedsReview", type: "KEYWORD" } as const;

export class Course {
  readonly status: CourseStatus = {
    step: "reserve",
    since: now(),
    needsReview: null,
    nextDeadline: null,
    lastError: null,
    lastResolution: null,
  };
  readonly #attemptId: string;
  readonly #steps: Steps;
  readonly #told: Bell;
  readonly #said: Resolution[] = [];

  constructor(attemptId: string, steps: Steps, told: Bell) {
    this.#attemptId = attemptId;
    this.#steps = steps;
    this.#told = told;
  }

  /** A person's word waits for the next point at which something can be done with it. */
  receive(resolution: Resolution): void {
    this.#said.push(resolution);
  }

  /** Runs a step; one that was given up is tried again after its review. */
  async step<Answer>(name: StepName, call: (steps: Steps) => Promise<Answer>): Promise<Answer> {
    for (;;) {
      this.#enter(name);
      try {
        return await call(this.#steps);
      } catch (error) {
        if (isCancellation(error)) throw error;
        await this.review(codeOf(error));
      }
    }
  }

  /**
   * Waits for a person. Being told to look ends it too, for the limits keep running: the step that is
   * tried again then notices that the message's own has passed (D7).
   */
  async review(code: string): Promise<void> {
    this.status.lastError = code;
    const reason = `${this.status.step}:${code}`;
    await this.#steps.openReview({ attemptId: this.#attemptId, reason });
    this.#show(reason);
    for (;;) {
      await condition(() => this.#said.length > 0 || this.#told.hasRung());
      const next = this.#said.length > 0 ? await this.#carryOut() : "retry_step";
      if (next !== "go_on") break;
    }
    this.#told.hear();
    await this.#steps.closeReview(this.#attemptId);
    this.#show(null);
  }

  /**
   * Keeps this workflow task open for a decision that comes soon; true where one is due. What tells a
   * workflow otherwise waits until the task is over.
   */
  async linger(atMostMs: number): Promise<boolean> {
    if (atMostMs <= 0) return false;
    this.#enter("await-segments");
    const answer = await this.#steps.linger({ attemptId: this.#attemptId, atMostMs });
    return answer.kind === "due";
  }

  /** Until it is told to look, a person said something that changes it, or the limit has passed. */
  async awaitSegments(deadline: number): Promise<void> {
    this.#enter("await-segments");
    this.status.nextDeadline = new Date(deadline).toISOString();
    for (;;) {
      const left = Math.max(deadline - Date.now(), 1);
      const woken = await condition(() => this.#told.hasRung() || this.#said.length > 0, left);
      if (!woken || this.#told.hasRung()) return;
      const next = await this.#carryOut();
      // A revived command needs somebody to publish it; the sweeper would, a little later.
      if (next === "retry_step") await this.step("publish", (steps) => steps.publish(this.#attemptId));
      return;
    }
  }

  /** The step that judges; it also says whether a person is needed while nothing is decided. */
  async look(call: (steps: Steps) => Promise<SettleAnswer>): Promise<SettleAnswer> {
    this.#told.hear();
    const answer = await this.step("settle-or-retry", call);
    this.#told.answerHeard();
    this.#show(answer.kind === "waiting" ? answer.review : null);
    return answer;
  }

  /** Everybody who waits is answered; what was said too late is written down as having had no effect. */
  async end(): Promise<void> {
    this.#enter("done");
    while (this.#said.length > 0) await this.#carryOut();
    this.#show(null);
    this.#told.answerAll();
  }

  async #carryOut(): Promise<"decided" | "retry_step" | "go_on"> {
    const resolution = this.#said.shift();
    if (resolution === undefined) return "go_on";
    const { effect, next } = await this.#steps.resolveReview({ attemptId: this.#attemptId, resolution });
    this.status.lastResolution = { action: resolution.action, effect };
    return next;
  }

  #enter(step: StepName): void {
    if (this.status.step === step) return;
    this.status.step = step;
    this.status.since = now();
  }

  #show(reason: string | null): void {
    if (reason === (this.status.needsReview?.reason ?? null)) return;
    this.status.needsReview = reason === null ? null : { reason, since: now() };
    upsertSearchAttributes([{ key: needsReview, value: reason }]);
  }
}

/** The stable code that a step gave up with, never a message. */
function codeOf(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  const detail = cause instanceof ApplicationFailure ? cause.details?.[0] : undefined;
  return typeof detail === "string" ? detail : "unknown";
}

function now(): string {
  return new Date(Date.now()).toISOString();
}
