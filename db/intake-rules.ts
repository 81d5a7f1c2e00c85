/**
 * What the rules of intake are read from: templates, blacklist, operator, limits (A3, A6). Everything is
 * read anew in each batch; what counts towards a limit is recorded once a message (A4).
 */
import { type Refusal, type Room, withinLimits } from "../domain/intake.ts";
import { type Session, statement } from "./client.ts";
import type { Vault } from "./vault.ts";

/** SQL over `messages m`: the recipient gets nothing, or nothing from this application. */
export const BLACKLISTED = `EXISTS (SELECT 1 FROM blacklist b
            WHERE b.number_hash = m.number_hash AND (b.application_id IS NULL OR b.application_id = m.application_id))`;

/** SQL over `t.prefixes`, as {@link prefixesOf} gives them: the longest entry wins (A6). */
export const OPERATOR = `(SELECT n.operator FROM number_prefixes n
            WHERE n.prefix = ANY (string_to_array(t.prefixes, ' '))
            ORDER BY length(n.prefix) DESC LIMIT 1)`;

/** Every entry that can speak of a number, the number itself only as its hash; told apart by spaces. */
export const prefixesOf = (vault: Vault, number: string): string =>
  [...[3, 4, 5, 6, 7, 8, 9, 10].map((length) => number.slice(0, length)), portedPrefix(vault, number)].join(
    " ",
  );

/** What a single number stands under among the prefixes. */
export const portedPrefix = (vault: Vault, number: string): string => `#${vault.hash(number)}`;

/** SQL over `applications p`: it has a limit of any kind. */
export const LIMITED = `(p.daily_limit IS NOT NULL
            OR EXISTS (SELECT 1 FROM frequency_limits f WHERE f.application_id = p.id))`;

/** Bodies of the approved templates of each application. */
export async function readTemplates(
  session: Session,
  applicationIds: readonly string[],
): Promise<Map<string, string[]>> {
  const bodies = new Map<string, string[]>();
  if (applicationIds.length === 0) return bodies;
  for (const row of await session.run(TEMPLATES, [[...new Set(applicationIds)]])) {
    const known = bodies.get(row.application_id);
    if (known === undefined) bodies.set(row.application_id, [row.body]);
    else known.push(row.body);
  }
  return bodies;
}

/** Bodies, by id, of those among these templates that the application may use. */
export async function findTemplates(
  session: Session,
  applicationId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await session.run(TEMPLATES_BY_ID, [applicationId, ids]);
  return new Map(rows.map((row) => [row.id, row.body]));
}

export interface Limited {
  id: string;
  applicationId: string;
  /** Hash of the number. */
  recipient: string;
}

/** What is left within the limits of each application that has some, until this transaction ends. */
export type Limits = Map<string, Room & { day: string; counted: number }>;

/**
 * Locks the applications, and reads in statements of their own, so that they see whom the lock waited
 * for. One lock for all limits of an application keeps parallel batches from letting too many pass; it
 * costs little, for the same batches meet at the application's account anyway. Taken in the order of the
 * ids, after the messages and before the accounts (D11).
 */
export async function lockLimits(tx: Session, messages: readonly Limited[]): Promise<Limits> {
  const limits: Limits = new Map();
  if (messages.length === 0) return limits;
  const applications = [...new Set(messages.map((it) => it.applicationId))];
  await tx.run(LOCK_APPLICATIONS, [applications]);
  const recipients = await readRecipients(tx, messages);
  for (const row of await tx.run(TODAY, [applications])) {
    limits.set(row.application_id, {
      day: row.day,
      counted: row.counted,
      today: row.daily_limit === null ? null : row.daily_limit - row.counted,
      recipients: recipients.get(row.application_id) ?? new Map<string, number[]>(),
    });
  }
  return limits;
}

/** Those that do not fit, with the reason; the earlier of two goes first. */
export function overLimits(messages: readonly Limited[], limits: Limits): Map<string, Refusal> {
  const reasons = new Map<string, Refusal>();
  for (const [applicationId, room] of limits) {
    const its = messages.filter((it) => it.applicationId === applicationId);
    for (const { message, reason } of withinLimits(its, room).over) reasons.set(message.id, reason);
  }
  return reasons;
}

/** Counts each message once, whatever is run again: the message is the key (A4). */
export async function countTowardsLimits(
  tx: Session,
  messages: readonly Limited[],
  limits: Limits,
): Promise<void> {
  const next = new Map([...limits].map(([applicationId, { counted }]) => [applicationId, counted + 1]));
  const rows = messages.flatMap(({ id, applicationId }) => {
    const day = limits.get(applicationId)?.day;
    const numberOfDay = next.get(applicationId);
    if (day === undefined || numberOfDay === undefined) return [];
    next.set(applicationId, numberOfDay + 1);
    return [{ id, day, numberOfDay }];
  });
  if (rows.length === 0) return;
  await tx.run(ADMIT, [
    rows.map((row) => row.id),
    rows.map((row) => row.day),
    rows.map((row) => row.numberOfDay),
  ]);
}

async function readRecipients(
  tx: Session,
  messages: readonly Limited[],
): Promise<Map<string, Map<string, number[]>>> {
  const pairs = new Map(messages.map((it) => [`${it.applicationId}/${it.recipient}`, it]));
  const rows = await tx.run(RECIPIENTS, [
    [...pairs.values()].map((it) => it.applicationId),
    [...pairs.values()].map((it) => it.recipient),
  ]);
  const byApplication = new Map<string, Map<string, number[]>>();
  for (const row of rows) {
    const recipients = byApplication.get(row.application_id) ?? new Map<string, number[]>();
    recipients.set(row.recipient, [...(recipients.get(row.recipient) ?? []), row.room]);
    byApplication.set(row.application_id, recipients);
  }
  return byApplication;
}

const TEMPLATES = statement<{ application_id: string; body: string }>(
  "intake_rules.templates",
  `SELECT application_id, body FROM templates
    WHERE application_id = ANY($1::text[]) AND status = 'approved'`,
);

const TEMPLATES_BY_ID = statement<{ id: string; body: string }>(
  "intake_rules.templates_by_id",
  `SELECT id, body FROM templates
    WHERE application_id = $1 AND id = ANY($2::text[]) AND status = 'approved'`,
);

/** Not a key lock: submissions refer to the application's row meanwhile. */
const LOCK_APPLICATIONS = statement<{ id: string }>(
  "intake_rules.lock_applications",
  `SELECT id FROM applications WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
);

/** One step down an index an application, however many were sent today. */
const TODAY = statement<{
  application_id: string;
  daily_limit: number | null;
  day: string;
  counted: number;
}>(
  "intake_rules.today",
  `SELECT p.id AS application_id, p.daily_limit, t.day::text,
          coalesce((SELECT max(d.number_of_day) FROM admissions d
                     WHERE d.application_id = p.id AND d.day = t.day), 0) AS counted
     FROM applications p, (SELECT (statement_timestamp() AT TIME ZONE 'Asia/Shanghai')::date AS day) t
    WHERE p.id = ANY($1::text[])`,
);

/** Never reads more rows than the window allows messages. */
const RECIPIENTS = statement<{ application_id: string; recipient: string; room: number }>(
  "intake_rules.recipients",
  `SELECT t.application_id, t.recipient,
          f.max_messages - (SELECT count(*) FROM (
            SELECT 1 FROM admissions d
             WHERE d.application_id = t.application_id AND d.number_hash = t.recipient
               AND d.counted_at > statement_timestamp() - make_interval(secs => f.window_seconds)
             LIMIT f.max_messages) counted)::int AS room
     FROM unnest($1::text[], $2::text[]) AS t(application_id, recipient)
     JOIN frequency_limits f ON f.application_id = t.application_id`,
);

const ADMIT = statement<Record<string, never>>(
  "intake_rules.admit",
  `INSERT INTO admissions (message_id, enterprise_id, application_id, number_hash, counted_at, day, number_of_day)
   SELECT m.id, m.enterprise_id, m.application_id, m.number_hash, statement_timestamp(), t.day, t.number_of_day
     FROM unnest($1::text[], $2::date[], $3::int[]) AS t(id, day, number_of_day)
     JOIN messages m ON m.id = t.id
   ON CONFLICT (message_id) DO NOTHING`,
);
