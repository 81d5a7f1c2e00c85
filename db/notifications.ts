/**
 * Notifications on their way to customers: claimed for one call each, closed by the claim's token.
 *
 * A claim is only a `next_try_at` pushed ahead, by the database's clock: where its process vanishes
 * the row falls due again by itself. Hosts that fail are remembered apart and per application, so that
 * one endpoint's backlog is stepped over in one move and one tenant's failures pause nobody else (E3).
 */
import { applicationsWith } from "./applications-with.ts";
import { statement, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";
import { PREVIOUS_SIGNS } from "./webhook-secrets.ts";

export interface ClaimedNotification {
  id: string;
  applicationId: string;
  host: string;
  url: string;
  body: string;
  secret: string;
  previousSecret: string | null;
  /** Tries since the ladder began, this one included. */
  triesOnLadder: number;
  /** Its address has answered 410: close it without a call. */
  gone: boolean;
  /** Another claim held it and never said how its call ended. */
  takenOver: boolean;
}

/** What this process has under way with a host, and how much it dares to have. */
export interface HostLoad {
  applicationId: string;
  host: string;
  inFlight: number;
  allowed: number;
}

export interface ClaimRequest {
  /** Of this claim alone; whoever closes a row must show it. */
  token: string;
  /** Rows wanted at most: one a free slot, for each gets its call at once. */
  limit: number;
  leaseMs: number;
  /** Calls at a time to a host of which `loads` says nothing. */
  allowedAtFirst: number;
  loads: readonly HostLoad[];
  /** Applications that get no further call now. */
  crowded: readonly string[];
}

/**
 * Hosts of one application that a claim looks at: enough for anybody who is not after our time. Whoever
 * names more has them looked at in turns, from a random place on, so that 20,000 of them make no claim slow.
 */
const HOSTS_LOOKED_AT = 500;

/** From host to host in the order of their hash, an index probe each; `within` says on which stretch. */
const walk = (within: string): string =>
  `(WITH RECURSIVE walked AS (
      (SELECT md5(host) AS spot, host, 1 AS steps FROM notifications
        WHERE status = 'pending' AND application_id = tenant.application_id AND ${within}
        ORDER BY md5(host) LIMIT 1)
      UNION ALL
      SELECT further.spot, further.host, walked.steps + 1
        FROM walked CROSS JOIN LATERAL (
          SELECT md5(host) AS spot, host FROM notifications
           WHERE status = 'pending' AND application_id = tenant.application_id
             AND md5(host) > walked.spot AND ${within}
           ORDER BY md5(host) LIMIT 1) further
       WHERE walked.steps < ${HOSTS_LOOKED_AT}
    ) SELECT host FROM walked)`;

/**
 * Steps through the distinct hosts that have something pending (an index probe each), leaves out those
 * that pause, and takes from each no more than it has room for. Applications take turns; of one, hosts with
 * the least under way come first, equals in random order: nobody's backlog, however long or old or spread
 * over hosts, comes before somebody's only row.
 * A host that failed last time gets one call at a time until one succeeds.
 *
 * Prepared once, so it is written to have the same plan whatever its limits are: 57 pages with 10,000
 * rows due for one dead host, where a join by id read the whole table.
 */
const CLAIM = statement<Omit<ClaimedNotification, "body"> & { bodySealed: Buffer }>(
  "notifications.claim",
  `WITH RECURSIVE ${applicationsWith("tenants", "notifications", "status = 'pending'")},
   start AS MATERIALIZED (SELECT md5(random()::text) AS spot
   ), hosts AS MATERIALIZED (
     SELECT tenant.application_id, looked_at.host
       FROM tenants tenant CROSS JOIN start CROSS JOIN LATERAL (
         ${walk("md5(host) >= start.spot")} UNION ALL ${walk("md5(host) < start.spot")}
         LIMIT ${HOSTS_LOOKED_AT}) looked_at
      WHERE tenant.application_id <> ALL ($9::text[])
   ), room AS MATERIALIZED (
     SELECT application_id, host,
            CASE WHEN failing.paused_until IS NULL THEN coalesce(load.allowed, $4::int) ELSE 1 END
              - coalesce(load.in_flight, 0) AS calls
       FROM hosts
       LEFT JOIN webhook_hosts failing USING (application_id, host)
       LEFT JOIN unnest($5::text[], $6::text[], $7::int[], $8::int[])
              AS load (application_id, host, in_flight, allowed) USING (application_id, host)
      WHERE failing.paused_until IS NULL OR failing.paused_until <= now()
      ORDER BY row_number() OVER (PARTITION BY application_id ORDER BY coalesce(load.in_flight, 0), random()),
               random()
   ), due AS MATERIALIZED (
     SELECT head.id, head.lease_owner
       FROM room CROSS JOIN LATERAL (
         SELECT id, lease_owner FROM notifications
          WHERE status = 'pending' AND application_id = room.application_id AND md5(host) = md5(room.host)
            AND next_try_at <= now()
          ORDER BY next_try_at
          LIMIT greatest(room.calls, 0)
          FOR UPDATE SKIP LOCKED) head
      LIMIT $2
   )
   UPDATE notifications n
      SET lease_owner = $1, next_try_at = now() + $3::float8 * interval '1 millisecond'
     FROM applications a
    WHERE n.id = ANY (ARRAY(SELECT id FROM due)) AND a.id = n.application_id
   RETURNING n.id, n.application_id AS "applicationId", n.host, n.url, n.body_sealed AS "bodySealed",
             a.webhook_secret AS secret,
             CASE WHEN ${PREVIOUS_SIGNS} THEN a.webhook_secret_previous END AS "previousSecret",
             n.try_count - n.ladder_start + 1 AS "triesOnLadder",
             coalesce((SELECT true FROM webhook_gone g
                        WHERE g.application_id = n.application_id AND g.url = n.url), false) AS gone,
             (SELECT lease_owner IS NOT NULL FROM due WHERE due.id = n.id) AS "takenOver"`,
);

export async function claimNotifications(on: Session, wanted: ClaimRequest): Promise<ClaimedNotification[]> {
  const rows = await on.run(CLAIM, [
    wanted.token,
    wanted.limit,
    wanted.leaseMs,
    wanted.allowedAtFirst,
    wanted.loads.map((load) => load.applicationId),
    wanted.loads.map((load) => load.host),
    wanted.loads.map((load) => load.inFlight),
    wanted.loads.map((load) => load.allowed),
    wanted.crowded,
  ]);
  return rows.map(({ bodySealed, ...row }) => ({
    ...row,
    body: on.vault.openText("notifications.body", row.id, bodySealed),
  }));
}

/** One call, as it is remembered. */
export interface Try {
  id: string;
  token: string;
  httpStatus: number | null;
  error: string | null;
  durationMs: number;
}

/** The row closes and its try is written together, or neither: the token says whose call counts. */
const closing = (status: "pending" | "delivered" | "parked" | "disabled", set: string): string =>
  `tried AS (
     UPDATE notifications
        SET status = '${status}', try_count = try_count + 1, lease_owner = NULL${set}
      WHERE id = $1 AND lease_owner = $2 AND status = 'pending'
     RETURNING id, application_id, host, url, try_count
   ), told AS (
     INSERT INTO notification_tries (notification_id, try_number, http_status, error, duration_ms)
     SELECT id, try_count, $3::int, $4::text, $5::int FROM tried
   )`;

const tryValues = (it: Try): unknown[] => [it.id, it.token, it.httpStatus, it.error, it.durationMs];

const RECORD_DELIVERED = statement<{ id: string }>(
  "notifications.record_delivered",
  `WITH ${closing("delivered", ", delivered_at = now()")}, recovered AS (
     DELETE FROM webhook_hosts failing USING tried
      WHERE failing.application_id = tried.application_id AND failing.host = tried.host
   )
   SELECT id FROM tried`,
);

/** False where the claim was lost meanwhile: the record belongs to whoever holds it now. */
export async function recordDelivered(on: Session, it: Try): Promise<boolean> {
  return (await on.run(RECORD_DELIVERED, tryValues(it))).length > 0;
}

const RECORD_GONE = statement<{ id: string }>(
  "notifications.record_gone",
  `WITH ${closing("disabled", "")}, gone AS (
     INSERT INTO webhook_gone (application_id, url) SELECT application_id, url FROM tried
     ON CONFLICT (application_id, url) DO NOTHING
   )
   SELECT id FROM tried`,
);

/** The address answered 410; nothing else is sent there. False where the claim was lost meanwhile. */
export async function recordGone(on: Session, it: Try): Promise<boolean> {
  return (await on.run(RECORD_GONE, tryValues(it))).length > 0;
}

/** How a failed call weighs on its host. All in milliseconds. */
export interface HostFailure {
  failed: boolean;
  /** What the host asked for. */
  restMs: number;
  /** Failures in a row that are borne without a pause. */
  borne: number;
  firstPauseMs: number;
  longestPauseMs: number;
}

/**
 * Calls that were under way together when the host broke count as one failure once it pauses, or
 * sixteen of them would reach the longest pause at once.
 */
const failing = (status: "pending" | "parked", set: string): string =>
  `WITH ${closing(status, set)}, known AS (
     INSERT INTO webhook_hosts AS failing (application_id, host, failure_count, failing_since, paused_until)
     SELECT application_id, host, 1, now(), now() + $7::float8 * interval '1 millisecond'
       FROM tried WHERE $6::boolean
     ON CONFLICT (application_id, host) DO UPDATE
        SET failure_count = failing.failure_count + (failing.paused_until <= now())::int,
            paused_until = greatest(
              failing.paused_until,
              now() + $7::float8 * interval '1 millisecond',
              CASE WHEN failing.paused_until <= now() AND failing.failure_count + 1 > $8::int
                   THEN now() + least($10::float8, $9::float8 * 2 ^ least(failing.failure_count - $8::int, 30))
                                * interval '1 millisecond'
              END)
   )
   SELECT id FROM tried`;

const RECORD_RETRY = statement<{ id: string }>(
  "notifications.record_retry",
  failing("pending", ", next_try_at = now() + $11::float8 * interval '1 millisecond'"),
);
const RECORD_PARKED = statement<{ id: string }>("notifications.record_parked", failing("parked", ""));

/** Tried again after `afterMs`, or parked where that is undefined. False where the claim was lost meanwhile. */
export async function recordFailed(
  on: Session,
  it: Try,
  host: HostFailure,
  afterMs: number | undefined,
): Promise<boolean> {
  const values = [
    ...tryValues(it),
    host.failed,
    host.restMs,
    host.borne,
    host.firstPauseMs,
    host.longestPauseMs,
  ];
  const closed =
    afterMs === undefined
      ? await on.run(RECORD_PARKED, values)
      : await on.run(RECORD_RETRY, [...values, afterMs]);
  return closed.length > 0;
}

const CLOSE_GONE = statement<{ id: string }>(
  "notifications.close_gone",
  `UPDATE notifications SET status = 'disabled', lease_owner = NULL
    WHERE id = ANY($1::text[]) AND lease_owner = $2 AND status = 'pending'
   RETURNING id`,
);

/** Claimed rows of which the address is gone: no call was made, so there is no try to record. */
export async function closeGone(on: Session, ids: readonly string[], token: string): Promise<number> {
  return (await on.run(CLOSE_GONE, [ids, token])).length;
}

/**
 * Rows that waited for their turn so long because their host pauses would wait for ever: a probe now
 * and then is all it gets. Only where it pauses at this moment, so that our own absence parks nothing.
 */
const PARK_OVERDUE = statement<{ id: string }>(
  "notifications.park_overdue",
  `UPDATE notifications n SET status = 'parked', lease_owner = NULL
     FROM (
       SELECT late.id
         FROM webhook_hosts failing CROSS JOIN LATERAL (
           SELECT id FROM notifications
            WHERE status = 'pending' AND application_id = failing.application_id
              AND md5(host) = md5(failing.host)
              AND next_try_at < now() - $1::float8 * interval '1 millisecond'
            ORDER BY next_try_at LIMIT $2
            FOR UPDATE SKIP LOCKED) late
        WHERE failing.paused_until > now()
          AND failing.failing_since < now() - $1::float8 * interval '1 millisecond'
        LIMIT $2) late
    WHERE n.id = late.id
   RETURNING n.id`,
);

/** Gives up on notifications whose turn has not come for `ladderMs`; answers how many, at most `limit`. */
export async function parkOverdue(on: Session, ladderMs: number, limit: number): Promise<number> {
  return (await on.run(PARK_OVERDUE, [ladderMs, limit])).length;
}

export type Replay = { kind: "replayed" } | { kind: "not_found" } | { kind: "in_progress" };

/** The ladder begins again, and the address is called whatever it answered before: a person says so. */
const REPLAY = statement<{ status: string }>(
  "notifications.replay",
  `WITH again AS (
     UPDATE notifications SET status = 'pending', next_try_at = now(), ladder_start = try_count
      WHERE id = $1 AND application_id = $2 AND status <> 'pending'
     RETURNING application_id, host, url
   ), back AS (
     DELETE FROM webhook_gone gone USING again
      WHERE gone.application_id = again.application_id AND gone.url = again.url
   ), resumed AS (
     UPDATE webhook_hosts failing SET paused_until = now() FROM again
      WHERE failing.application_id = again.application_id AND failing.host = again.host
   )
   SELECT status FROM notifications WHERE id = $1 AND application_id = $2`,
);

/** Sends one notification again, under its id, unless it is still under way (E3). */
export async function replayNotification(on: Session, applicationId: string, id: string): Promise<Replay> {
  const [before] = await on.run(REPLAY, [id, applicationId]);
  if (before === undefined) return { kind: "not_found" };
  return { kind: before.status === "pending" ? "in_progress" : "replayed" };
}

export interface ReplayRange {
  /** RFC 3339. */
  since: string;
  until: string;
  status: readonly ("delivered" | "parked" | "disabled")[];
  /** Goes on behind this one. */
  after: { at: string; id: string } | undefined;
  limit: number;
}

export interface ReplayedPage {
  count: number;
  /** The newest of them. */
  last: { at: string; id: string } | undefined;
}

/** The oldest first, so that a cursor passes each row once, also one that is delivered meanwhile. */
const REPLAY_RANGE = statement<{ count: number; at: string | null; id: string | null }>(
  "notifications.replay_range",
  `WITH chosen AS MATERIALIZED (
     SELECT id, created_at FROM notifications
      WHERE application_id = $1 AND created_at >= $2::timestamptz AND created_at < $3::timestamptz
        AND (created_at, id) > (coalesce($5::timestamptz, '-infinity'), coalesce($6::text, ''))
        AND status = ANY ($4::text[])
      ORDER BY created_at, id LIMIT $7 FOR NO KEY UPDATE
   ), again AS (
     UPDATE notifications n SET status = 'pending', next_try_at = now(), ladder_start = try_count
       FROM chosen WHERE n.id = chosen.id
     RETURNING n.application_id, n.host, n.url
   ), back AS (
     DELETE FROM webhook_gone gone USING again
      WHERE gone.application_id = again.application_id AND gone.url = again.url
   ), resumed AS (
     UPDATE webhook_hosts failing SET paused_until = now()
       FROM (SELECT DISTINCT application_id, host FROM again) again
      WHERE failing.application_id = again.application_id AND failing.host = again.host
   )
   SELECT (SELECT count(*)::int FROM again) AS count, ${rfc3339("last.created_at")} AS at, last.id
     FROM (SELECT 1) one
     LEFT JOIN (SELECT created_at, id FROM chosen ORDER BY created_at DESC, id DESC LIMIT 1) last ON true`,
);

/** Sends a page of those made in a stretch of time again, each under its id (E3). */
export async function replayNotifications(
  on: Session,
  applicationId: string,
  { since, until, status, after, limit }: ReplayRange,
): Promise<ReplayedPage> {
  const values = [applicationId, since, until, status, after?.at, after?.id, limit];
  const [row] = await on.run(REPLAY_RANGE, values);
  const last =
    row === undefined || row.at === null || row.id === null ? undefined : { at: row.at, id: row.id };
  return { count: row?.count ?? 0, last };
}
