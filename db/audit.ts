/** Who changed what, when and why, and what came of it; written by the transaction that made the change. */
import { statement, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";

/** On whose behalf something is changed. */
export interface Author {
  /** Id of the token that asked. */
  actor: string;
  note: string | undefined;
}

export interface AuditedChange {
  action: string;
  /** Id of what was changed. */
  subject: string;
  /** What came of it; where that is nothing, "none" and why. */
  effect: string;
}

export async function audit(tx: Session, { actor, note }: Author, change: AuditedChange): Promise<void> {
  await tx.run(AUDIT, [actor, change.action, change.subject, note, change.effect]);
}

export interface AuditRow extends AuditedChange {
  id: bigint;
  at: string;
  actor: string;
  note: string | null;
}

/** Newest first; of everything where no subject is named. */
export const listAudit = (
  session: Session,
  subject: string | undefined,
  before: bigint | undefined,
  limit: number,
): Promise<AuditRow[]> =>
  subject === undefined
    ? session.run(NEWEST, [before, limit])
    : session.run(NEWEST_OF_SUBJECT, [before, limit, subject]);

const AUDIT = statement<Record<string, never>>(
  "audit.write",
  "INSERT INTO audit_log (actor, action, subject, note, effect) VALUES ($1, $2, $3, $4, $5)",
);

const newest = (condition: string): string =>
  `SELECT id, ${rfc3339("at")} AS at, actor, action, subject, note, effect FROM audit_log
    WHERE id < coalesce($1::bigint, 9223372036854775807) ${condition} ORDER BY id DESC LIMIT $2`;

const NEWEST = statement<AuditRow>("audit.newest", newest(""));
const NEWEST_OF_SUBJECT = statement<AuditRow>("audit.newest_of_subject", newest("AND subject = $3"));
