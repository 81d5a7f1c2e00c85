/**
 * What a route is planned from: read once a batch, and nothing of it kept longer, so that a channel
 * which an operator disables stops getting messages with the next batch (B1).
 */
import { messageIdOf } from "../domain/ids.ts";
import { type FinalStatus, isFinal, type MessageStatus, type Operator } from "../domain/message.ts";
import type { Candidate } from "../domain/route.ts";
import type { PlanAnswer } from "../domain/steps.ts";
import { type Session, statement } from "./client.ts";
import { BLACKLISTED } from "./intake-rules.ts";
import { lockAttemptsAndMessages } from "./locks.ts";
import { attemptOf } from "./of-message.ts";
import { endMessages } from "./settlement.ts";

export interface PlanFacts {
  attemptId: string;
  messageId: string;
  currentAttemptId: string;
  status: MessageStatus;
  operator: Operator | null;
  groupId: string;
  signatureId: string | null;
  /** The channel of an attempt that is committed already: it is used, never planned again (D6). */
  committedChannelId: string | null;
  triedChannelIds: string[];
  pastLimit: boolean;
  /** Today's rule that stands against sending it, whatever was checked before (D6); null where none does. */
  barredBy: Bar | null;
}

type Bar = "application_disabled" | "enterprise_disabled" | "recipient_blacklisted" | "retry_window_closed";

export async function readPlanFacts(
  session: Session,
  attemptIds: readonly string[],
): Promise<Map<string, PlanFacts>> {
  const rows = await session.run(FACTS, [attemptIds, attemptIds.map(messageIdOf)]);
  return new Map(
    rows.map((row) => [
      row.attempt_id,
      {
        attemptId: row.attempt_id,
        messageId: row.id,
        currentAttemptId: row.current_attempt_id,
        status: row.status,
        operator: row.operator,
        groupId: row.channel_group_id,
        signatureId: row.signature_id,
        committedChannelId: row.committed_channel_id,
        triedChannelIds: row.tried_channel_ids,
        pastLimit: row.past_limit,
        barredBy: row.barred_by,
      },
    ]),
  );
}

/** Candidates of each channel group and signature, under `<group>/<signature>`. */
export async function readCandidates(
  session: Session,
  wanted: readonly { groupId: string; signatureId: string | null }[],
): Promise<Map<string, Candidate[]>> {
  const keys = new Map(wanted.map((it) => [candidateKey(it), it]));
  const pairs = [...keys.values()];
  const found = new Map<string, Candidate[]>([...keys.keys()].map((key) => [key, []]));
  const rows = await session.run(CANDIDATES, [
    pairs.map((it) => it.groupId),
    pairs.map((it) => it.signatureId),
  ]);
  for (const row of rows) {
    found.get(candidateKey({ groupId: row.group_id, signatureId: row.signature_id }))?.push({
      channelId: row.channel_id,
      supplierId: row.supplier_id,
      srcId: row.src_id,
      priority: row.priority,
      weight: row.weight,
      active: row.active,
      operators: row.operators,
      filed: row.filed,
      connected: row.connected,
    });
  }
  return found;
}

export const candidateKey = (it: { groupId: string; signatureId: string | null }): string =>
  `${it.groupId}/${it.signatureId ?? ""}`;

/**
 * Ends a message for which no route is left. A first attempt never reached a supplier; a successor
 * ends with what its predecessor came to (D6). Where another run of this step was faster, what it
 * committed stands, and is answered: facts read before the locks end nothing.
 */
export async function endWithoutRoute(
  tx: Session,
  attemptId: string,
  first: { status: FinalStatus; reason: string },
): Promise<Exclude<PlanAnswer, { kind: "disconnected" }>> {
  await lockAttemptsAndMessages(tx, [attemptId]);
  const messageId = messageIdOf(attemptId);
  const [it] = await tx.run(STANDING, [messageId, attemptId]);
  if (it === undefined) throw new Error(`${messageId} is not stored`);
  if (isFinal(it.status)) return { kind: "ended", status: it.status };
  if (it.current_attempt_id !== attemptId) return { kind: "superseded" };
  if (it.channel_id !== null) return { kind: "planned", channelId: it.channel_id, considered: [] };
  const ending =
    it.predecessor_outcome === null || first.status === "expired"
      ? first
      : { status: it.predecessor_outcome, reason: it.predecessor_reason };
  await endMessages(tx, [{ messageId, attemptId, ...ending }]);
  return { kind: "ended", status: ending.status };
}

/** An attempt may have waited for a connection since its rules were checked, so they are read again. */
const FACTS = statement<{
  attempt_id: string;
  id: string;
  current_attempt_id: string;
  status: MessageStatus;
  operator: Operator | null;
  channel_group_id: string;
  signature_id: string | null;
  committed_channel_id: string | null;
  tried_channel_ids: string[];
  past_limit: boolean;
  barred_by: Bar | null;
}>(
  "planning.facts",
  `SELECT t.attempt_id, m.id, m.current_attempt_id, m.status, m.operator, p.channel_group_id, m.signature_id,
          a.channel_id AS committed_channel_id,
          ARRAY(SELECT b.channel_id FROM attempts b
                 WHERE ${attemptOf("m.id", "b.id")} AND b.id <> t.attempt_id AND b.channel_id IS NOT NULL
                   AND a.may_repeat_channels IS NOT TRUE) AS tried_channel_ids,
          m.expires_at <= now() AS past_limit,
          CASE WHEN NOT p.active THEN 'application_disabled'
               WHEN NOT e.active THEN 'enterprise_disabled'
               WHEN ${BLACKLISTED} THEN 'recipient_blacklisted'
               WHEN a.retry_of IS NOT NULL AND NOT a.may_repeat_channels
                    AND now() >= m.created_at + make_interval(secs => g.retry_window_seconds)
                    THEN 'retry_window_closed' END AS barred_by
     FROM unnest($1::text[], $2::text[]) AS t(attempt_id, message_id)
     JOIN messages m ON m.id = t.message_id
     JOIN applications p ON p.id = m.application_id
     JOIN enterprises e ON e.id = p.enterprise_id
     JOIN channel_groups g ON g.id = p.channel_group_id
     LEFT JOIN attempts a ON a.id = t.attempt_id`,
);

const CANDIDATES = statement<{
  group_id: string;
  signature_id: string | null;
  channel_id: string;
  supplier_id: string;
  src_id: string;
  priority: number;
  weight: number;
  active: boolean;
  operators: string[];
  filed: boolean;
  connected: boolean;
}>(
  "planning.candidates",
  `SELECT t.group_id, t.signature_id, c.id AS channel_id, c.supplier_id, c.src_id, gm.priority, gm.weight,
          c.active AND s.active AS active, c.operators,
          EXISTS (SELECT 1 FROM filings f JOIN signatures g ON g.id = f.signature_id
                   WHERE f.channel_id = c.id AND f.signature_id = t.signature_id AND f.active
                     AND g.status = 'approved') AS filed,
          EXISTS (SELECT 1 FROM connections n
                   WHERE n.supplier_id = c.supplier_id AND n.connected
                     AND n.heartbeat_at > now() - interval '10 seconds') AS connected
     FROM unnest($1::text[], $2::text[]) AS t(group_id, signature_id)
     JOIN channel_group_members gm ON gm.group_id = t.group_id
     JOIN channels c ON c.id = gm.channel_id
     JOIN suppliers s ON s.id = c.supplier_id`,
);

const STANDING = statement<{
  status: MessageStatus;
  current_attempt_id: string;
  channel_id: string | null;
  predecessor_outcome: FinalStatus | null;
  predecessor_reason: string | null;
}>(
  "planning.standing",
  `SELECT m.status, m.current_attempt_id, a.channel_id, b.outcome AS predecessor_outcome,
          b.reason AS predecessor_reason
     FROM messages m
     LEFT JOIN attempts a ON a.id = $2
     LEFT JOIN attempts b ON b.id = a.retry_of
    WHERE m.id = $1`,
);
