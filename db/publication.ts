/**
 * Whether commands go to their live streams, wait, or go to a shadow stream (C5, H): one mode of all, and
 * applications that have one of their own. What an operator stored wins over the flags of a start.
 */
import { audit, type Author } from "./audit.ts";
import { statement, type Database, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";

export type PublicationMode = "live" | "paused" | "shadow";

/** What flags say: a mode, and the applications for which they say another. */
export interface PublicationStart {
  mode: PublicationMode;
  applications: ReadonlyMap<string, PublicationMode>;
}

/** SQL for the mode that holds for an application; live where nobody has said anything yet. */
export const modeOf = (application: string): string =>
  `coalesce((SELECT p.mode FROM application_publication p WHERE p.application_id = ${application}),
            (SELECT p.mode FROM publication p), 'live')`;

/** False where no command of anybody may be published. */
export async function publishesAnything(session: Session): Promise<boolean> {
  const [row] = await session.run(PUBLISHES);
  return row?.publishes ?? true;
}

/**
 * What the flags say counts until an operator stored a mode, of all or of that application (H). Throws
 * where they name an application that does not exist: a rollout that begins with nobody is a mistake.
 */
export function startPublication(database: Database, start: PublicationStart): Promise<void> {
  const ids = [...start.applications.keys()];
  return database.transaction(async (tx) => {
    const known = new Set((await tx.run(KNOWN, [ids])).map(({ id }) => id));
    const unknown = ids.filter((id) => !known.has(id));
    if (unknown.length > 0) throw new Error(`the publication flags name no application: ${unknown.join()}`);
    await tx.run(START_ALL, [start.mode]);
    await tx.run(START_NO_MORE, [ids]);
    await tx.run(START_SOME, [ids, [...start.applications.values()]]);
  });
}

export interface PublicationRow {
  mode: PublicationMode;
  changed_by: string | null;
  changed_at: string | null;
}

export interface ApplicationPublicationRow extends PublicationRow {
  application_id: string;
}

export interface PublicationState extends PublicationRow {
  /** Those with a mode of their own, by id. */
  applications: ApplicationPublicationRow[];
}

export async function readPublication(session: Session): Promise<PublicationState> {
  const [all] = await session.run(ALL);
  const applications = await session.run(SOME);
  return { ...(all ?? { mode: "live", changed_by: null, changed_at: null }), applications };
}

export interface PublicationChange {
  publication: PublicationState;
  effect: string;
}

/** Of all; applications with a mode of their own keep it. */
export function setPublication(
  database: Database,
  author: Author,
  mode: PublicationMode,
): Promise<PublicationChange> {
  return database.transaction(async (tx) => {
    await tx.run(ENSURE_ALL);
    const [was] = await tx.run(LOCK_ALL);
    const same = was?.mode === mode;
    if (!same) await tx.run(SET_ALL, [mode, author.actor]);
    const effect = same ? `none: it was ${mode} already` : `changed from ${was?.mode ?? "live"} to ${mode}`;
    await audit(tx, author, { action: "set_publication", subject: "publication", effect });
    return { publication: await readPublication(tx), effect };
  });
}

/** Of one application, or `inherit`: the mode of all again. Undefined where there is no such application. */
export function setApplicationPublication(
  database: Database,
  author: Author,
  application: string,
  mode: PublicationMode | "inherit",
): Promise<PublicationChange | undefined> {
  return database.transaction(async (tx) => {
    const [held] = await tx.run(LOCK_APPLICATION, [application]);
    if (held === undefined) return undefined;
    const was = held.mode ?? "inherit";
    if (mode === "inherit") await tx.run(INHERIT, [application]);
    else await tx.run(SET_ONE, [application, mode, author.actor]);
    const effect = was === mode ? `none: it was ${mode} already` : `changed from ${was} to ${mode}`;
    await audit(tx, author, { action: "set_publication", subject: application, effect });
    return { publication: await readPublication(tx), effect };
  });
}

const PUBLISHES = statement<{ publishes: boolean }>(
  "publication.publishes",
  `SELECT coalesce((SELECT mode FROM publication), 'live') = 'live'
          OR EXISTS (SELECT 1 FROM application_publication WHERE mode = 'live') AS publishes`,
);

const KNOWN = statement<{ id: string }>(
  "publication.known",
  `SELECT id FROM applications WHERE id = ANY($1::text[]) ORDER BY id FOR SHARE`,
);

const START_ALL = statement<Record<string, never>>(
  "publication.start_all",
  `INSERT INTO publication (mode) VALUES ($1)
   ON CONFLICT (singleton) DO UPDATE SET mode = excluded.mode
    WHERE publication.changed_by IS NULL AND publication.mode <> excluded.mode`,
);

const START_NO_MORE = statement<Record<string, never>>(
  "publication.start_no_more",
  `DELETE FROM application_publication WHERE changed_by IS NULL AND application_id <> ALL ($1::text[])`,
);

const START_SOME = statement<Record<string, never>>(
  "publication.start_some",
  `INSERT INTO application_publication AS p (application_id, mode)
   SELECT * FROM unnest($1::text[], $2::text[])
   ON CONFLICT (application_id) DO UPDATE SET mode = excluded.mode, changed_at = clock_timestamp()
    WHERE p.changed_by IS NULL AND p.mode <> excluded.mode`,
);

const COLUMNS = `mode, changed_by, ${rfc3339("changed_at")} AS changed_at`;

const ALL = statement<PublicationRow>("publication.all", `SELECT ${COLUMNS} FROM publication`);

const SOME = statement<ApplicationPublicationRow>(
  "publication.some",
  `SELECT application_id, ${COLUMNS} FROM application_publication ORDER BY application_id`,
);

const ENSURE_ALL = statement<Record<string, never>>(
  "publication.ensure_all",
  "INSERT INTO publication DEFAULT VALUES ON CONFLICT DO NOTHING",
);

/** Two who change it at once: the second must see what the first one made of it. */
const LOCK_ALL = statement<{ mode: PublicationMode }>(
  "publication.lock_all",
  "SELECT mode FROM publication FOR NO KEY UPDATE",
);

const SET_ALL = statement<Record<string, never>>(
  "publication.set_all",
  "UPDATE publication SET mode = $1, changed_by = $2, changed_at = clock_timestamp()",
);

/** The application's own row stands in for a mode that it may not have yet. */
const LOCK_APPLICATION = statement<{ mode: PublicationMode | null }>(
  "publication.lock_application",
  `SELECT (SELECT p.mode FROM application_publication p WHERE p.application_id = a.id) AS mode
     FROM applications a WHERE a.id = $1 FOR NO KEY UPDATE`,
);

const SET_ONE = statement<Record<string, never>>(
  "publication.set_one",
  `INSERT INTO application_publication AS p (application_id, mode, changed_by) VALUES ($1, $2, $3)
   ON CONFLICT (application_id) DO UPDATE
      SET mode = excluded.mode, changed_by = excluded.changed_by, changed_at = clock_timestamp()
    WHERE p.mode <> excluded.mode OR p.changed_by IS NULL`,
);

const INHERIT = statement<Record<string, never>>(
  "publication.inherit",
  "DELETE FROM application_publication WHERE application_id = $1",
);
