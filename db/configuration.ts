/**
 * Applies a declarative document, and writes one: all that can be set from outside, in one transaction,
 * compared with what is stored so that a second time changes nothing. What the document does not name,
 * an entry or a field of one, stays as it is.
 */
import type { FieldError } from "../domain/errors.ts";
import { audit, type Author } from "./audit.ts";
import { type Database, type Session, statement } from "./client.ts";
import {
  type Change,
  changeOf,
  compare,
  type Entry,
  type Made,
  type ProfileCheck,
  repeated,
  summed,
  type Wanted,
  wantedIn,
} from "./configuration-diff.ts";
import { type ConfigurationDocument, type Section, SECTIONS } from "./configuration-document.ts";
import {
  chunksOf,
  type Fields,
  fieldsOf,
  readAll,
  readStored,
  remove,
  surplusRows,
  unnamed,
  write,
} from "./configuration-rows.ts";

export type Applied = { ok: true; changes: Change[]; made: Made[] } | { ok: false; errors: FieldError[] };

export interface ApplyOptions {
  author: Author;
  /** Everything is tried, also against the tables' own checks, and nothing stays. */
  dryRun: boolean;
  checkProfile: ProfileCheck;
}

/** Exceptions are PostgreSQL's: what a document can be blamed for comes back as errors. */
export function applyConfiguration(
  database: Database,
  document: ConfigurationDocument,
  { author, dryRun, checkProfile }: ApplyOptions,
): Promise<Applied> {
  const sections = SECTIONS.map((section) => ({ section, ...wantedIn(document, section) }));
  const named: Named = new Map(
    sections.map(({ section, entries }) => [section.name, new Set(entries.map((it) => it.key))]),
  );
  return database.transaction(async (tx): Promise<Applied> => {
    await tx.run(ONE_AT_A_TIME);
    await tx.run(SAVEPOINT);
    const found: Found = { errors: [], changes: [], made: [] };
    for (const wanted of sections) await applySection(tx, wanted, named, checkProfile, found);
    const errors = [...found.errors, ...(await mismatches(tx, document))];
    if (errors.length > 0 || dryRun) await tx.run(UNDO);
    if (errors.length > 0) return { ok: false, errors };
    const changes = summed(found.changes);
    if (dryRun) return { ok: true, changes, made: [] };
    for (const change of changes) await audit(tx, author, auditOf(change));
    return { ok: true, changes, made: found.made };
  });
}

/** All that is stored, as a document that changes nothing where it came from. Secrets are left out. */
export function exportConfiguration(database: Database): Promise<Record<string, unknown>> {
  return database.transaction(async (tx) => {
    await tx.run(ONE_AT_A_TIME);
    const document: Record<string, unknown> = { version: 1 };
    for (const section of SECTIONS) {
      const entries = (await readAll(tx, section)).map((fields) => shown(section, fields));
      if (section.owner === undefined) document[section.name] = entries;
      else nest(document, section, entries);
    }
    return document;
  });
}

/** Keys of the entries that the document has, by section. */
type Named = ReadonlyMap<string, ReadonlySet<string>>;

interface Found {
  errors: FieldError[];
  changes: Change[];
  made: Made[];
}

/**
 * Adds to what was found. Once anything is wrong, it only compares: an entry that was refused is not
 * there for the next to refer to.
 */
async function applySection(
  tx: Session,
  { section, entries, owners }: Wanted & { section: Section },
  named: Named,
  checkProfile: ProfileCheck,
  found: Found,
): Promise<void> {
  found.errors.push(...repeated(entries), ...(await unknownReferences(tx, section, entries, named)));
  for (const chunk of chunksOf(entries)) {
    const stored = await readStored(
      tx,
      section,
      chunk.map((it) => it.fields),
    );
    const plan = compare(section, chunk, stored, checkProfile);
    found.errors.push(...plan.errors);
    found.changes.push(...plan.changes);
    found.made.push(...plan.made);
    if (found.errors.length === 0) await write(tx, section, plan);
  }
  const surplus = await surplusRows(tx, section, owners, new Set(entries.map((it) => it.key)));
  found.changes.push(...surplus.map((row) => changeOf("remove", section, fieldsOf(tx.vault, section, row))));
  if (found.errors.length === 0) await remove(tx, section, surplus);
}

/** An entry may name one that is stored, or one of the same document. */
async function unknownReferences(
  tx: Session,
  section: Section,
  entries: readonly Entry[],
  named: Named,
): Promise<FieldError[]> {
  const errors: FieldError[] = [];
  for (const [field, other] of Object.entries(section.refers)) {
    const table = SECTIONS.find((it) => it.name === other)?.table;
    const wanted = entries.flatMap((entry) => {
      const value = entry.fields[field];
      const isHere = typeof value !== "string" || named.get(other)?.has(value) === true;
      return isHere ? [] : [{ path: `${entry.path}.${field}`, id: value }];
    });
    if (wanted.length === 0) continue;
    const rows = await tx.run(unnamed<{ id: string }>(`SELECT id FROM ${table} WHERE id = ANY($1::text[])`), [
      [...new Set(wanted.map((it) => it.id))],
    ]);
    const known = new Set(rows.map((row) => row.id));
    errors.push(
      ...wanted
        .filter((it) => !known.has(it.id))
        .map(({ path, id }) => ({ path, message: `there is no ${id} in ${other}` })),
    );
  }
  return errors;
}

const PAST = { create: "created", change: "changed", remove: "removed" } as const;

function auditOf({ kind, section, id, count, fields }: Change) {
  const names = fields.map((it) => it.field).join(", ");
  const what = id === undefined ? `${count} ${PAST[kind]}` : `${PAST[kind]} in ${section}`;
  return { action: "apply", subject: id ?? section, effect: names === "" ? what : `${what}: ${names}` };
}

const shown = (section: Section, fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(([field, value]) => value !== null && !section.secret.includes(field)),
  );

/** Each of a section's entries with its list, also where that is empty: a list is whole. */
function nest(document: Record<string, unknown>, section: Section, entries: readonly Fields[]): void {
  const [outer = "", inner = ""] = section.name.split(".");
  const owner = section.owner ?? "";
  const lists = new Map<unknown, Fields[]>();
  for (const { [owner]: id, ...rest } of entries) {
    const list = lists.get(id);
    if (list === undefined) lists.set(id, [rest]);
    else list.push(rest);
  }
  for (const parent of document[outer] as Fields[]) parent[inner] = lists.get(parent["id"]) ?? [];
}

/** What no entry shows by itself, whichever of them the document names. */
async function mismatches(tx: Session, document: ConfigurationDocument): Promise<FieldError[]> {
  const applications = document.applications ?? [];
  const pathTo = (id: string, field: string): string => {
    const at = applications.findIndex((it) => it.id === id);
    return at < 0 ? `${id}.${field}` : `applications[${at}].${field}`;
  };
  const foreign = await tx.run(MISMATCHES, [applications.map((it) => it.id)]);
  const long = await tx.run(LONG_NUMBERS);
  return [
    ...foreign.map(({ id, field }) => ({
      path: pathTo(id, field),
      message: "belongs to another enterprise",
    })),
    ...long.map(({ id, channel_id, digits }) => ({
      path: pathTo(id, "extension"),
      message: `makes a number of ${digits} digits of that of ${channel_id}; 21 is the most`,
    })),
  ];
}

/** A Src_Id has 21 bytes, and no supplier is trusted to cut one (cmpp §13). */
const LONG_NUMBERS = statement<{ id: string; channel_id: string; digits: number }>(
  "configuration.long_numbers",
  `SELECT DISTINCT ON (p.id) p.id, c.id AS channel_id, length(c.src_id) + length(p.extension) AS digits
     FROM applications p
     JOIN channel_group_members gm ON gm.group_id = p.channel_group_id
     JOIN channels c ON c.id = gm.channel_id
    WHERE length(c.src_id) + length(p.extension) > 21
    ORDER BY p.id, c.id`,
);

/** An application pays from, and signs as, its own enterprise. */
const MISMATCHES = statement<{ id: string; field: string }>(
  "configuration.mismatches",
  `SELECT p.id, 'account' AS field FROM applications p JOIN accounts a ON a.id = p.account_id
    WHERE p.id = ANY($1::text[]) AND a.enterprise_id <> p.enterprise_id
   UNION ALL
   SELECT p.id, 'defaultSignature' FROM applications p JOIN signatures s ON s.id = p.default_signature_id
    WHERE p.id = ANY($1::text[]) AND s.enterprise_id <> p.enterprise_id`,
);

/** Two documents at once would compare with what the other is about to change; an export would mix both. */
const ONE_AT_A_TIME = statement<Record<string, never>>(
  "configuration.one_at_a_time",
  "SELECT pg_advisory_xact_lock(hashtext('waybill.configuration'))",
);

const SAVEPOINT = statement<Record<string, never>>("configuration.savepoint", "SAVEPOINT configuration");

const UNDO = statement<Record<string, never>>("configuration.undo", "ROLLBACK TO SAVEPOINT configuration");
