/** The secret that signs an application's webhooks, and the one before it while both sign (interfaces §3). */
import { audit } from "./audit.ts";
import { statement, type Database } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";

export interface SecretRotation {
  applicationId: string;
  /** `whsec_…`; naming the one that signs already changes nothing. */
  secret: string;
  /** How long the secret before it signs too. */
  overlapSeconds: number;
  /** Replace the newest secret although an overlap runs; the older one keeps its time. */
  force: boolean;
}

export type RotationOutcome =
  | { kind: "rotated" | "unchanged"; previousUntil: string | null }
  /** Two secrets sign already: a third would shut out whoever still verifies with the first. */
  | { kind: "under_way"; previousUntil: string | null };

export function rotateWebhookSecret(
  database: Database,
  { applicationId, secret, overlapSeconds, force }: SecretRotation,
): Promise<RotationOutcome> {
  return database.transaction(async (tx) => {
    const [held] = await tx.run(LOCK, [applicationId, secret]);
    if (held === undefined) throw new Error("the application of a caller is always there");
    if (held.same) return { kind: "unchanged", previousUntil: held.until };
    if (held.overlaps && !force) return { kind: "under_way", previousUntil: held.until };
    const [now] = held.overlaps
      ? await tx.run(REPLACE_NEWEST, [applicationId, secret])
      : await tx.run(ROTATE, [applicationId, secret, overlapSeconds]);
    const effect = held.overlaps ? "newest secret replaced, the one before keeps its time" : "rotated";
    const author = { actor: applicationId, note: undefined };
    await audit(tx, author, { action: "rotate_webhook_secret", subject: applicationId, effect });
    return { kind: "rotated", previousUntil: now?.until ?? null };
  });
}

/** Whether the secret before still signs; one without an end does until it is taken out. */
export const PREVIOUS_SIGNS = `(a.webhook_secret_previous IS NOT NULL
  AND coalesce(a.webhook_secret_previous_until > now(), true))`;

const UNTIL = `${rfc3339("a.webhook_secret_previous_until")} AS until`;

const LOCK = statement<{ same: boolean; overlaps: boolean; until: string | null }>(
  "webhook_secrets.lock",
  `SELECT a.webhook_secret = $2 AS same, ${PREVIOUS_SIGNS} AS overlaps, ${UNTIL}
     FROM applications a WHERE a.id = $1 FOR NO KEY UPDATE`,
);

const ROTATE = statement<{ until: string | null }>(
  "webhook_secrets.rotate",
  `UPDATE applications a
      SET webhook_secret = $2,
          webhook_secret_previous = CASE WHEN $3::int > 0 THEN webhook_secret END,
          webhook_secret_previous_until = CASE WHEN $3::int > 0 THEN now() + $3::int * interval '1 second' END
    WHERE a.id = $1 RETURNING ${UNTIL}`,
);

const REPLACE_NEWEST = statement<{ until: string | null }>(
  "webhook_secrets.replace_newest",
  `UPDATE applications a SET webhook_secret = $2 WHERE a.id = $1 RETURNING ${UNTIL}`,
);
