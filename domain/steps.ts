/**
 * What the steps of an attempt answer to the workflow: ids and states only, so that no number, text
 * or price ever gets into a history.
 */
import type { Considered } from "./route.ts";
import type { FinalStatus } from "./message.ts";

/** The message needs no more work by this attempt. */
export type Ended =
  | { kind: "ended"; status: FinalStatus }
  /** Another attempt took this one's place. */
  | { kind: "superseded" };

export type ReserveAnswer = { kind: "reserved" } | Ended;

export type PlanAnswer =
  | { kind: "planned"; channelId: string; considered: Considered[] }
  /** Only connections are missing (B4). */
  | { kind: "disconnected" }
  | Ended;

export type PersistAnswer =
  /** `existing`: an earlier run committed it, so facts may be waiting already. */
  | { kind: "queued"; existing: boolean; limitInMs: number }
  /** The route did not hold at commit time (B3). */
  | { kind: "replan" }
  | Ended;

export type PublishAnswer =
  | { kind: "published" }
  /** Publication never waits: the sweeper brings the row to the stream (design §3). */
  | { kind: "left_to_sweeper"; why: "paused" | "shadow" | "stream_unavailable" | "dead" };

/** Whether a decision became due while the first workflow task was kept open for it. */
export type LingerAnswer = { kind: "due" } | { kind: "not_yet" };

export type SettleAnswer =
  | { kind: "final"; status: FinalStatus }
  | { kind: "retrying"; successorId: string }
  /**
   * Nothing to decide yet; the message's own limit passes in so many milliseconds. `review`: why a person
   * is needed meanwhile; null where none is.
   */
  | { kind: "waiting"; limitInMs: number; review: string | null };

/** What a person may say about an attempt in review (interfaces §4). */
export const RESOLUTION_ACTIONS = [
  "retry_step",
  "wait",
  "mark_delivered",
  "mark_failed",
  "allow_new_attempt",
] as const;
export type ResolutionAction = (typeof RESOLUTION_ACTIONS)[number];

/** As it arrives: from the API, the command line, or Temporal's own UI, so nothing about it is certain. */
export interface Resolution {
  action: string;
  note?: string | undefined;
  by?: string | undefined;
}

/** `effect` is what the audit row says too: "none, and why" where it changed nothing (D12). */
export interface ResolveAnswer {
  effect: string;
  next: "decided" | "retry_step" | "go_on";
}
