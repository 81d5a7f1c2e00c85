/** What a configuration document asks for, held against what is stored. */
import type { FieldError } from "../domain/errors.ts";
import type { ConfigurationDocument, Section } from "./configuration-document.ts";
import { type Fields, keyFields, keyOf, type Writes } from "./configuration-rows.ts";
import { newToken, newWebhookSecret, tokenHash } from "./keys.ts";

export interface Change {
  kind: "create" | "change" | "remove";
  section: string;
  /** Undefined where only the count is told. */
  id?: string;
  count: number;
  /** Values that may be shown; of a secret only that it changes. */
  fields: { field: string; from: unknown; to: unknown }[];
}

/** A credential that was made now and is stored as a hash, or never shown again. */
export interface Made {
  section: "apiKeys" | "applications";
  id: string;
  what: "API key" | "webhook secret";
  value: string;
}

export interface Entry {
  path: string;
  key: string;
  fields: Fields;
  absent: boolean;
}

export interface Plan extends Writes {
  errors: FieldError[];
  changes: Change[];
  made: Made[];
}

/** What is wrong with a supplier's profile, with paths inside it. */
export type ProfileCheck = (profile: unknown) => FieldError[];

export interface Wanted {
  entries: Entry[];
  /** Entries whose list is named, and so is whole; empty where the section is no list inside another. */
  owners: string[];
}

export function wantedIn(document: ConfigurationDocument, section: Section): Wanted {
  const [outer = "", inner] = section.name.split(".");
  const parents = ((document as Fields)[outer] ?? []) as Fields[];
  if (inner === undefined) {
    return { entries: parents.map((it, at) => entryOf(section, `${outer}[${at}]`, it)), owners: [] };
  }
  const owner = section.owner ?? "";
  const lists = parents.flatMap((parent, at) => {
    const list = parent[inner] as Fields[] | undefined;
    return list === undefined ? [] : [{ id: String(parent["id"]), path: `${outer}[${at}].${inner}`, list }];
  });
  return {
    owners: lists.map((it) => it.id),
    entries: lists.flatMap(({ id, path, list }) =>
      list.map((it, at) => entryOf(section, `${path}[${at}]`, { ...it, [owner]: id })),
    ),
  };
}

function entryOf(section: Section, path: string, given: Fields): Entry {
  const names = Object.keys(section.columns).filter((field) => given[field] !== undefined);
  const fields = Object.fromEntries(names.map((field) => [field, given[field]]));
  return { path, key: keyOf(section, fields), fields, absent: given["absent"] === true };
}

export function repeated(entries: readonly Entry[]): FieldError[] {
  const seen = new Map<string, string>();
  return entries.flatMap(({ key, path }) => {
    const first = seen.get(key);
    if (first !== undefined) return [{ path, message: `says again what ${first} says` }];
    seen.set(key, path);
    return [];
  });
}

export function compare(
  section: Section,
  entries: readonly Entry[],
  stored: ReadonlyMap<string, Fields>,
  checkProfile: ProfileCheck,
): Plan {
  const plan: Plan = { errors: [], changes: [], made: [], created: [], changed: [], removed: [] };
  for (const entry of entries) {
    const before = stored.get(entry.key);
    const fields = withProfile(entry.fields, before);
    plan.errors.push(...profileErrors(entry, fields["profile"], checkProfile));
    if (entry.absent) {
      if (before !== undefined) {
        plan.removed.push(before);
        plan.changes.push(changeOf("remove", section, before));
      }
    } else if (before === undefined) {
      create(plan, section, entry, fields);
    } else {
      change(plan, section, entry, fields, before);
    }
  }
  return plan;
}

const profileErrors = ({ path }: Entry, profile: unknown, checkProfile: ProfileCheck): FieldError[] =>
  profile === undefined
    ? []
    : checkProfile(profile).map((error) => ({
        path: [path, "profile", error.path].filter((it) => it !== "").join("."),
        message: error.message,
      }));

/** A profile is changed key by key, like an entry field by field. */
const withProfile = (fields: Fields, before: Fields | undefined): Fields =>
  fields["profile"] === undefined
    ? fields
    : {
        ...fields,
        profile: { ...(before?.["profile"] as Fields | undefined), ...(fields["profile"] as Fields) },
      };

function create(plan: Plan, section: Section, entry: Entry, given: Fields): void {
  const fields = { ...given };
  for (const field of section.needed) {
    if (fields[field] === undefined) {
      plan.errors.push({ path: `${entry.path}.${field}`, message: `is needed, for ${entry.key} is new` });
    }
  }
  if (section.name === "apiKeys" && fields["sha256"] === undefined) {
    const value = newToken("wbk");
    fields["sha256"] = tokenHash(value).toString("hex");
    plan.made.push({ section: "apiKeys", id: entry.key, what: "API key", value });
  }
  if (section.name === "applications" && fields["webhookSecret"] === undefined) {
    const value = newWebhookSecret();
    fields["webhookSecret"] = value;
    plan.made.push({ section: "applications", id: entry.key, what: "webhook secret", value });
  }
  plan.created.push(fields);
  plan.changes.push(changeOf("create", section, fields));
}

function change(plan: Plan, section: Section, entry: Entry, fields: Fields, before: Fields): void {
  const names = Object.keys(fields).filter((field) => !same(fields[field], before[field]));
  for (const field of names) {
    if (section.fixed.includes(field)) {
      plan.errors.push({ path: `${entry.path}.${field}`, message: "cannot be changed: make a new entry" });
    }
  }
  if (names.length === 0) return;
  const differing = Object.fromEntries(names.map((field) => [field, fields[field]]));
  plan.changed.push({ ...keyFields(section, before), ...differing });
  plan.changes.push({
    ...changeOf("change", section, before),
    fields: names.flatMap((field) => differencesOf(section, field, before[field], fields[field])),
  });
}

function differencesOf(section: Section, field: string, from: unknown, to: unknown): Change["fields"] {
  if (section.secret.includes(field)) return [{ field, from: HIDDEN, to: HIDDEN }];
  if (field !== "profile") return [{ field, from: from ?? null, to }];
  const [was, becomes] = [from as Fields, to as Fields];
  return Object.keys(becomes)
    .filter((name) => !same(becomes[name], was[name]))
    .map((name) => ({ field: `profile.${name}`, from: was[name] ?? null, to: becomes[name] }));
}

const HIDDEN = "(secret)";

export const changeOf = (kind: Change["kind"], section: Section, fields: Fields): Change => ({
  kind,
  section: section.name,
  ...(section.countedOnly ? {} : { id: keyOf(section, fields) }),
  count: 1,
  fields: [],
});

/** Changes that are told by their count alone become one of each kind. */
export function summed(changes: readonly Change[]): Change[] {
  const sums = new Map<string, Change>();
  const told: Change[] = [];
  for (const it of changes) {
    if (it.id !== undefined) {
      told.push(it);
      continue;
    }
    const key = `${it.section}/${it.kind}`;
    const sum = sums.get(key) ?? { ...it, count: 0, fields: [] };
    if (sum.count === 0) told.push(sum);
    sum.count += 1;
    sums.set(key, sum);
  }
  return told;
}

const same = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b);

const canonical = (value: unknown): string =>
  JSON.stringify(value ?? null, (_name, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
