/**
 * Rows of the configuration's tables, read and written by what a section says of them: the text of these
 * statements is put together from its own tables and columns alone.
 */
import { type Session, statement } from "./client.ts";
import type { Section } from "./configuration-document.ts";
import type { Vault } from "./vault.ts";

/** An entry by the names of the document. */
export type Fields = Record<string, unknown>;
/** As PostgreSQL gives a row in JSON: bytes in hexadecimal, eight-byte integers as numbers. */
export type Row = Record<string, unknown>;

/** A blacklist may hold millions; no statement should take long over a part of it. */
const ROWS_AT_ONCE = 5_000;

export function chunksOf<Item>(items: readonly Item[]): Item[][] {
  const chunks: Item[][] = [];
  for (let at = 0; at < items.length; at += ROWS_AT_ONCE) chunks.push(items.slice(at, at + ROWS_AT_ONCE));
  return chunks;
}

/** Many texts, each used seldom: none is prepared. */
export const unnamed = <Result>(text: string) => statement<Result>("", text);

export async function readStored(
  tx: Session,
  section: Section,
  entries: readonly Fields[],
): Promise<Map<string, Fields>> {
  const rows = await tx.run(
    unnamed<{ row: Row }>(
      `SELECT to_jsonb(t) AS row FROM ${section.table} t JOIN ${given(section)} ON ${sameKey(section)}`,
    ),
    [JSON.stringify(entries.map((it) => rowOf(tx.vault, section, keyFields(section, it))))],
  );
  return new Map(
    rows.map(({ row }) => {
      const fields = fieldsOf(tx.vault, section, row);
      return [keyOf(section, fields), fields];
    }),
  );
}

export async function readAll(tx: Session, section: Section): Promise<Fields[]> {
  const order = columnsOf(section, section.key).join(", ");
  const rows = await tx.run(
    unnamed<{ row: Row }>(`SELECT to_jsonb(t) AS row FROM ${section.table} t ORDER BY ${order}`),
  );
  const all = rows.map(({ row }) => fieldsOf(tx.vault, section, row));
  // By its hashes the database's order would say nothing to a reader.
  return section.sealed === undefined
    ? all
    : all.sort((a, b) => (keyOf(section, a) < keyOf(section, b) ? -1 : 1));
}

/** Rows of lists that are whole, and do not hold them. */
export async function surplusRows(
  tx: Session,
  section: Section,
  owners: readonly string[],
  wanted: ReadonlySet<string>,
): Promise<Row[]> {
  if (section.owner === undefined || owners.length === 0) return [];
  const [column] = columnsOf(section, [section.owner]);
  const rows = await tx.run(
    unnamed<{ row: Row }>(
      `SELECT to_jsonb(t) AS row FROM ${section.table} t WHERE ${column} = ANY($1::text[])`,
    ),
    [owners],
  );
  return rows
    .map((it) => it.row)
    .filter((row) => !wanted.has(keyOf(section, fieldsOf(tx.vault, section, row))));
}

export interface Writes {
  created: Fields[];
  /** With their key, and the fields that change. */
  changed: Fields[];
  removed: Fields[];
}

export async function write(tx: Session, section: Section, plan: Writes): Promise<void> {
  for (const entries of bySameFields(plan.created)) {
    const rows = entries.map((fields) => newRowOf(tx.vault, section, fields));
    const columns = Object.keys(rows[0] ?? {}).join(", ");
    await tx.run(
      unnamed(`INSERT INTO ${section.table} (${columns}) SELECT ${columns} FROM ${given(section)}`),
      [JSON.stringify(rows)],
    );
  }
  for (const rows of bySameFields(plan.changed)) {
    const changing = Object.keys(rows[0] ?? {}).filter((field) => !section.key.includes(field));
    const columns = columnsOf(section, changing).map((column) => `${column} = k.${column}`);
    await tx.run(
      unnamed(
        `UPDATE ${section.table} t SET ${columns.join(", ")} FROM ${given(section)} WHERE ${sameKey(section)}`,
      ),
      [JSON.stringify(rows.map((fields) => rowOf(tx.vault, section, fields)))],
    );
  }
  await remove(
    tx,
    section,
    plan.removed.map((fields) => rowOf(tx.vault, section, fields)),
  );
}

export async function remove(tx: Session, section: Section, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.run(unnamed(`DELETE FROM ${section.table} t USING ${given(section)} WHERE ${sameKey(section)}`), [
    JSON.stringify(rows),
  ]);
}

/** Entries that say the same fields are written together; the database fills in the others. */
function bySameFields(entries: readonly Fields[]): Fields[][] {
  const groups = new Map<string, Fields[]>();
  for (const fields of entries) {
    const names = Object.keys(fields).sort().join();
    const group = groups.get(names);
    if (group === undefined) groups.set(names, [fields]);
    else group.push(fields);
  }
  return [...groups.values()];
}

const given = ({ table }: Section): string => `jsonb_populate_recordset(NULL::${table}, $1::jsonb) k`;

/** Only an application can be missing from a key: the whole platform is meant then. */
const sameKey = (section: Section): string =>
  columnsOf(section, section.key)
    .map((column) =>
      column === "application_id" && section.owner === undefined
        ? `t.${column} IS NOT DISTINCT FROM k.${column}`
        : `t.${column} = k.${column}`,
    )
    .join(" AND ");

export const columnsOf = (section: Section, fields: readonly string[]): string[] =>
  fields.map((field) => {
    const column = section.columns[field];
    if (column === undefined) throw new Error(`${section.name} has no field ${field}`);
    return column;
  });

const rowOf = (vault: Vault, section: Section, fields: Fields): Row =>
  Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [
      columnsOf(section, [field])[0],
      field === "sha256" ? `\\x${String(value)}` : (hashOf(vault, section, field, value) ?? value),
    ]),
  );

const hashOf = (vault: Vault, { sealed }: Section, field: string, value: unknown): string | undefined =>
  sealed?.field === field && typeof value === "string" ? sealed.hashOf(vault, value) : undefined;

/** As it is inserted: with the value itself beside its hash. */
function newRowOf(vault: Vault, section: Section, fields: Fields): Row {
  const row = rowOf(vault, section, fields);
  const { sealed } = section;
  if (sealed === undefined) return row;
  const value = fields[sealed.field];
  const hash = hashOf(vault, section, sealed.field, value);
  const bytes = hash === undefined ? null : vault.seal(sealed.column, hash, textOf(value)).toString("hex");
  return { ...row, [SEALED]: bytes && `\\x${bytes}` };
}

const SEALED = "number_sealed";

export const fieldsOf = (vault: Vault, section: Section, row: Row): Fields =>
  Object.fromEntries(
    Object.entries(section.columns).map(([field, column]) => [
      field,
      field === "sha256"
        ? String(row[column]).slice(2)
        : (openedIn(vault, section, field, row) ?? row[column]),
    ]),
  );

function openedIn(vault: Vault, { sealed, columns }: Section, field: string, row: Row): string | undefined {
  const bytes = row[SEALED];
  if (sealed?.field !== field || typeof bytes !== "string") return undefined;
  return vault.openText(sealed.column, textOf(row[columns[field] ?? ""]), Buffer.from(bytes.slice(2), "hex"));
}

export const keyOf = (section: Section, fields: Fields): string =>
  section.key.map((field) => textOf(fields[field])).join("/");

const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

export const keyFields = (section: Section, fields: Fields): Fields =>
  Object.fromEntries(section.key.map((field) => [field, fields[field] ?? null]));
