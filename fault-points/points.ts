/**
 * Named places in the send chain at which a fault run makes a process fail, in the order in which a text
 * passes them (I). Only a process that is told of a folder of orders looks at them at all.
 */

/**
 * kill: the process ends with kill -9 before the step; kill_after: once the step is done and before anybody
 * learns it. throw: the step is not done and fails. hang: it is done half as late again as the timeout that
 * guards it. lose: it is done, and its answer gets lost.
 */
export const MODES = ["kill", "kill_after", "throw", "hang", "lose"] as const;
export type Mode = (typeof MODES)[number];

export interface PointFacts {
  /** The role whose process passes here. */
  role: "api" | "attempts" | "results" | "notifier" | "sweeper" | "gateway";
  modes: readonly Mode[];
  /** What a hang at this point has to outlast, in milliseconds. */
  timeoutMs: number;
}

/** A step that something waits for: every mode is possible. */
const step = (role: PointFacts["role"], timeoutMs: number): PointFacts => ({ role, timeoutMs, modes: MODES });

/** A place between two bytes or two lines, where nothing can be waited for and nothing answered. */
const place = (role: PointFacts["role"], timeoutMs: number): PointFacts => ({
  role,
  timeoutMs,
  modes: ["kill", "throw", "hang"],
});

/** Longest that each is given by what guards it; db/client.ts and temporal-config.yaml hold the same values. */
const LOCK_MS = 5_000;
const LOCAL_ACTIVITY_MS = 2_000;
const OUTBOX_LEASE_MS = 5_000;
const TELL_MS = 5_000;
const TAKE_MS = 2_500;
const CLAIM_IDLE_MS = 2_500;
const HEARTBEAT_STALE_MS = 10_000;
const REQUEST_MS = 5_000;
const WEBHOOK_LEASE_MS = 5_000;

export const POINTS = {
  api_accept: step("api", REQUEST_MS),
  api_cancel: step("api", REQUEST_MS),
  intake_claim: step("attempts", LOCK_MS),
  intake_start: step("attempts", LOCK_MS),
  reserve: step("attempts", LOCAL_ACTIVITY_MS),
  /** Inside the transaction: `kill_after` is a crash between the last statement and COMMIT. */
  reserve_uncommitted: step("attempts", LOCK_MS),
  plan_route: step("attempts", LOCAL_ACTIVITY_MS),
  persist_outbox: step("attempts", LOCAL_ACTIVITY_MS),
  persist_outbox_uncommitted: step("attempts", LOCK_MS),
  publish_claim: step("attempts", LOCAL_ACTIVITY_MS),
  publish_add: step("attempts", OUTBOX_LEASE_MS),
  publish_mark: step("attempts", OUTBOX_LEASE_MS),
  sweep_publish: step("sweeper", OUTBOX_LEASE_MS),
  sweep_lost: step("sweeper", LOCK_MS),
  command_read: place("gateway", CLAIM_IDLE_MS),
  take: step("gateway", TAKE_MS),
  half_frame_written: place("gateway", TAKE_MS),
  all_written: place("gateway", TAKE_MS),
  response_read: place("gateway", HEARTBEAT_STALE_MS),
  event_store: step("gateway", LOCK_MS),
  result_committed: place("gateway", CLAIM_IDLE_MS),
  entry_acknowledge: step("gateway", CLAIM_IDLE_MS),
  sweep_unanswered: step("sweeper", LOCK_MS),
  fold: step("results", LOCK_MS),
  fold_uncommitted: step("results", LOCK_MS),
  tell: step("results", TELL_MS),
  sweep_told: step("sweeper", TELL_MS),
  settle: step("attempts", LOCAL_ACTIVITY_MS),
  settle_uncommitted: step("attempts", LOCK_MS),
  sweep_rebuild: step("sweeper", LOCK_MS),
  notification_claim: step("notifier", WEBHOOK_LEASE_MS),
  notification_call: step("notifier", WEBHOOK_LEASE_MS),
  notification_record: step("notifier", WEBHOOK_LEASE_MS),
} as const satisfies Record<string, PointFacts>;

export type PointName = keyof typeof POINTS;

/** One fault ordered at one point; it happens once, to whichever process comes by first. */
export interface Order {
  id: string;
  mode: Mode;
  /** For a hang. */
  hangMs: number;
}
