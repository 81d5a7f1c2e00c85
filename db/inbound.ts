/**
 * Inbound texts: parts that the gateway stored become texts that belong to somebody, with what they wish
 * and what the customer is told of them, in one transaction. Whoever is killed in it leaves the parts due,
 * and the next one comes to the same.
 */
import {
  assemble,
  contentOf,
  type InboundPart,
  type JoinedText,
  OPT_IN_WORDS,
  OPT_OUT_WORDS,
  type OptWords,
  wishIn,
} from "../domain/inbound.ts";
import { type InboundId, inboundNotificationIdOf } from "../domain/ids.ts";
import { inboundBody } from "../domain/webhook.ts";
import { audit, type Author } from "./audit.ts";
import { type Database, type Session, type Statement, statement } from "./client.ts";
import { keepWishes } from "./opt-outs.ts";
import { rfc3339 } from "./rfc3339.ts";
import type { Vault } from "./vault.ts";

export interface Joined {
  /** Parts looked at: a full batch is followed by the next one. */
  partCount: number;
  texts: number;
  unmatched: number;
}

const NOTHING: Joined = { partCount: 0, texts: 0, unmatched: 0 };

/**
 * Call it inside one transaction. One process at a time: the parts of a text come over several
 * connections, and two that join it at once would make two of it. The other finds nothing to do.
 */
export async function joinInbound(tx: Session, limit: number, newId: () => InboundId): Promise<Joined> {
  const [turn] = await tx.run(MY_TURN);
  if (turn?.mine !== true) return NOTHING;
  const due = await tx.run(DUE, [limit]);
  if (due.length === 0) return NOTHING;
  // A statement of its own, after the lock: only then does it see what the other process joined.
  const parts = await tx.run(PARTS, [due.map((row) => row.id)]);
  const texts: Ready[] = [];
  for (const group of byText(parts)) texts.push(...(await put(tx, group)));
  const matched = await keepTexts(tx, inOrder(texts, parts), newId);
  return { partCount: due.length, texts: texts.length, unmatched: texts.length - matched };
}

interface PartRow {
  id: bigint;
  event_key: string;
  supplier_id: string;
  number_hash: string;
  number_sealed: Buffer;
  dest_id: string;
  reference: string | null;
  msg_fmt: number;
  content_sealed: Buffer;
  part: number;
  total: number;
  age_ms: number;
  inbound_id: string | null;
}

function byText(rows: readonly PartRow[]): PartRow[][] {
  const groups = new Map<string, PartRow[]>();
  for (const row of rows) {
    const key =
      row.reference === null
        ? String(row.id)
        : JSON.stringify([row.supplier_id, row.number_hash, row.dest_id, row.reference]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return [...groups.values()];
}

interface Ready extends JoinedText {
  first: PartRow;
}

/** Says of each part of a group what becomes of it, and answers the texts that are whole. */
async function put(tx: Session, group: PartRow[]): Promise<Ready[]> {
  const [first] = group;
  if (first === undefined) return [];
  const { texts, repeats, waiting } = assemble(group.map((row) => partOf(tx.vault, row)));
  if (waiting.length > 0) {
    await tx.run(WAIT, [waiting.map((it) => it.part.id), waiting.map((it) => it.forMs)]);
  }
  if (repeats.length > 0) {
    await tx.run(BELONG, [repeats.map((it) => it.part.id), repeats.map((it) => it.inboundId)]);
  }
  return texts.map((text) => ({ ...text, first }));
}

/** As they became whole: of two wishes the later one counts. */
function inOrder(texts: readonly Ready[], parts: readonly PartRow[]): Ready[] {
  const arrival = new Map(parts.map((row, at) => [row.id, at]));
  const last = (text: Ready): number => Math.max(...text.parts.map((it) => arrival.get(it.id) ?? 0));
  return texts.toSorted((a, b) => last(a) - last(b));
}

const partOf = (vault: Vault, row: PartRow): InboundPart => ({
  id: row.id,
  msgFmt: row.msg_fmt,
  content: vault.open("inbound_parts.content", row.event_key, row.content_sealed),
  part: row.part,
  total: row.total,
  ageMs: row.age_ms,
  inboundId: row.inbound_id,
});

/** Answers how many belong to an application. */
async function keepTexts(tx: Session, ready: readonly Ready[], newId: () => InboundId): Promise<number> {
  if (ready.length === 0) return 0;
  const texts = ready.map((it) => ({ ...it, id: newId(), number: senderOf(tx.vault, it.first) }));
  const owners = new Map(
    (
      await tx.run(OWNERS, [
        texts.map((it) => it.id),
        texts.map((it) => it.first.supplier_id),
        texts.map((it) => it.first.number_hash),
        texts.map((it) => it.first.dest_id),
      ])
    ).map((row) => [row.id, row]),
  );
  const records = texts.map((it) => recordOf(it, owners.get(it.id)));
  await tx.run(KEEP, [JSON.stringify(records.map((it) => sealed(tx.vault, it)))]);
  const all = texts.map((it) => [...it.parts, ...it.repeats, ...it.conflicts].map((part) => part.id));
  await tx.run(BELONG, [all.flat(), all.flatMap((ids, at) => ids.map(() => texts[at]?.id))]);
  const odd = texts.flatMap((it) => it.conflicts.map((part) => part.id));
  if (odd.length > 0) await tx.run(CONFLICTS, [odd]);
  const ids = records.flatMap((it) => (it.application_id === undefined ? [] : [it.id]));
  await handOn(tx, ids);
  return ids.length;
}

const senderOf = (vault: Vault, row: PartRow): string =>
  vault.openText("inbound_parts.number", row.event_key, row.number_sealed);

/** Who wrote, and what, is stored as the vault seals it. */
function sealed(vault: Vault, { number, content, ...rest }: ReturnType<typeof recordOf>) {
  const bytes = "text" in content ? content.text : Buffer.from(content.bytes);
  return {
    ...rest,
    is_text: "text" in content,
    number_hash: vault.hash(number),
    number_sealed: vault.seal("inbound_messages.number", rest.id, number).toString("base64"),
    content_sealed: vault.seal("inbound_messages.content", rest.id, bytes).toString("base64"),
  };
}

function recordOf(text: Ready & { id: InboundId; number: string }, owner: OwnerRow | undefined) {
  const content = contentOf(text.parts);
  const said = "text" in content ? content.text : null;
  const mine = owner === undefined || owner.matched_by === null ? undefined : owner;
  return {
    id: text.id,
    supplier_id: text.first.supplier_id,
    channel_id: owner?.channel_id,
    application_id: mine?.application_id,
    enterprise_id: mine?.enterprise_id,
    matched_by: mine?.matched_by,
    number: text.number,
    dest_id: text.first.dest_id,
    content,
    part_count: text.parts.length,
    complete: text.complete,
    wish: mine === undefined ? undefined : wishOf(said, text.complete, mine),
    age_ms: Math.max(...text.parts.map((it) => it.ageMs)),
  };
}

interface WordsRow {
  opt_out_words: string[] | null;
  opt_in_words: string[] | null;
}

/** Half a text is no wish: what it lacks may turn it round. */
const wishOf = (text: string | null, complete: boolean, words: WordsRow) =>
  text === null || !complete ? undefined : wishIn(text, wordsOf(words));

const wordsOf = (row: WordsRow): OptWords => ({
  out: row.opt_out_words ?? OPT_OUT_WORDS,
  in: row.opt_in_words ?? OPT_IN_WORDS,
});

/** What follows from texts that belong to an application: their wishes, and one notification each (E1). */
async function handOn(tx: Session, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const rows = (await tx.run(TO_HAND_ON, [ids])).map((row) => ({ ...row, ...opened(tx.vault, row) }));
  await keepWishes(
    tx,
    rows.flatMap(({ number, application_id, wish }) =>
      wish === null ? [] : [{ number, applicationId: application_id, wish }],
    ),
  );
  const told = rows.filter((row) => row.url !== null);
  if (told.length === 0) return;
  await tx.run(NOTIFY, [
    told.map((row) => inboundNotificationIdOf(row.id)),
    told.map((row) => row.id),
    told.map((row) => row.application_id),
    told.map((row) => row.url),
    told.map((row) => {
      const id = inboundNotificationIdOf(row.id);
      const body = inboundBody({
        id,
        inboundId: row.id,
        from: row.number,
        to: row.dest_id,
        text: row.text,
        bytes: row.bytes,
        segments: row.part_count,
        complete: row.complete,
        wish: row.wish,
        receivedAt: row.received_at.toISOString(),
      });
      return tx.vault.seal("notifications.body", id, body);
    }),
  ]);
}

export type Assigned =
  | { kind: "assigned" | "already_assigned"; row: InboundRow; effect: string }
  | { kind: "not_found" }
  | { kind: "unknown_application" };

/** A person says whose a text is. What it wishes and who is told follow as if it had been known at once. */
export function assignInbound(
  database: Database,
  author: Author,
  id: string,
  applicationId: string,
): Promise<Assigned> {
  return database.transaction(async (tx): Promise<Assigned> => {
    const [standing] = await tx.run(STANDING, [id, applicationId]);
    if (standing === undefined) return { kind: "not_found" };
    if (standing.enterprise_id === null) return { kind: "unknown_application" };
    const isOpen = standing.application_id === null;
    const effect = isOpen
      ? `the text belongs to ${applicationId}`
      : `none: it belongs to ${standing.application_id} already`;
    if (isOpen) {
      const wish = wishOf(opened(tx.vault, { id, ...standing }).text, standing.complete, standing);
      await tx.run(ASSIGN, [id, applicationId, standing.enterprise_id, wish]);
      await handOn(tx, [id]);
    }
    await audit(tx, author, { action: "assign_inbound", subject: id, effect });
    const [row] = await tx.run(ONE, [id]);
    if (row === undefined) throw new Error("a locked text is gone");
    return { kind: isOpen ? "assigned" : "already_assigned", row: shown(tx.vault, row), effect };
  });
}

interface SealedRow {
  is_text: boolean;
  number_sealed: Buffer;
  content_sealed: Buffer;
}

/** `text`, or `bytes` where the content is none. */
interface Opened {
  number: string;
  text: string | null;
  bytes: Buffer | null;
}

function opened(vault: Vault, row: SealedRow & { id: string }): Opened {
  const content = vault.open("inbound_messages.content", row.id, row.content_sealed);
  return {
    number: vault.openText("inbound_messages.number", row.id, row.number_sealed),
    text: row.is_text ? content.toString("utf8") : null,
    bytes: row.is_text ? null : content,
  };
}

interface StoredRow extends SealedRow {
  id: InboundId;
  supplier_id: string;
  channel_id: string | null;
  application_id: string | null;
  dest_id: string;
  part_count: number;
  complete: boolean;
  matched_by: "extension" | "last_message" | "only_application" | "person" | null;
  wish: "opt_out" | "opt_in" | null;
  received_at: string;
}

export type InboundRow = Omit<StoredRow, keyof SealedRow> & Opened;

function shown(vault: Vault, row: StoredRow): InboundRow {
  const { is_text: _, number_sealed: __, content_sealed: ___, ...rest } = row;
  return { ...rest, ...opened(vault, row) };
}

/** Newest first. */
export const listInboundOf = (
  session: Session,
  applicationId: string,
  before: string | undefined,
  limit: number,
): Promise<InboundRow[]> => list(session, OF_APPLICATION, [before ?? null, limit, applicationId]);

/** Texts of which nobody knows whose they are, newest first: for a person (D14). */
export const listUnmatchedInbound = (
  session: Session,
  before: string | undefined,
  limit: number,
): Promise<InboundRow[]> => list(session, UNMATCHED, [before ?? null, limit]);

/** Of every application, newest first. */
export const listInbound = (
  session: Session,
  before: string | undefined,
  limit: number,
): Promise<InboundRow[]> => list(session, ANYWHERE, [before ?? null, limit]);

async function list(
  session: Session,
  what: Statement<StoredRow>,
  values: readonly unknown[],
): Promise<InboundRow[]> {
  return (await session.run(what, values)).map((row) => shown(session.vault, row));
}

/** SQL over `suppliers s`: a list of its profile as an array; null where it has none. */
const wordsIn = (field: string): string =>
  `CASE WHEN jsonb_typeof(s.profile->'${field}') = 'array'
        THEN ARRAY(SELECT jsonb_array_elements_text(s.profile->'${field}')) END`;

const MY_TURN = statement<{ mine: boolean }>(
  "inbound.my_turn",
  "SELECT pg_try_advisory_xact_lock(hashtext('waybill.inbound')) AS mine",
);

const DUE = statement<{ id: bigint }>(
  "inbound.due",
  `SELECT id FROM inbound_parts
    WHERE inbound_id IS NULL AND due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT $1`,
);

/**
 * With each due part all that came under its reference: what is open, and what was joined so lately that
 * a part may be its repetition.
 */
const PARTS = statement<PartRow>(
  "inbound.parts",
  `WITH due AS (SELECT * FROM inbound_parts WHERE id = ANY($1::bigint[]) AND inbound_id IS NULL),
   mate AS (
     SELECT id FROM due
     UNION
     SELECT p.id
       FROM (SELECT DISTINCT supplier_id, number_hash, dest_id, reference FROM due WHERE reference IS NOT NULL) t
       JOIN inbound_parts p ON p.supplier_id = t.supplier_id AND p.number_hash = t.number_hash
            AND p.dest_id = t.dest_id AND p.reference = t.reference
      WHERE p.inbound_id IS NULL OR p.received_at > now() - interval '2 hours')
   SELECT p.id, p.event_key, p.supplier_id, p.number_hash, p.number_sealed, p.dest_id, p.reference, p.msg_fmt,
          p.content_sealed, p.part, p.total, p.inbound_id,
          (extract(epoch FROM statement_timestamp() - p.received_at) * 1000)::float8 AS age_ms
     FROM inbound_parts p JOIN mate USING (id)
    ORDER BY p.received_at, p.id`,
);

const WAIT = statement<Record<string, never>>(
  "inbound.wait",
  `UPDATE inbound_parts p SET due_at = statement_timestamp() + t.for_ms * interval '1 millisecond'
     FROM unnest($1::bigint[], $2::float8[]) AS t(id, for_ms) WHERE p.id = t.id`,
);

const BELONG = statement<Record<string, never>>(
  "inbound.belong",
  `UPDATE inbound_parts p SET inbound_id = t.inbound_id
     FROM unnest($1::bigint[], $2::text[]) AS t(id, inbound_id) WHERE p.id = t.id`,
);

const CONFLICTS = statement<Record<string, never>>(
  "inbound.conflicts",
  `INSERT INTO anomalies (kind, event_id)
   SELECT 'inbound_part_conflict', k.event_id
     FROM inbound_parts p JOIN supplier_event_keys k USING (event_key)
    WHERE p.id = ANY($1::bigint[])
   ON CONFLICT DO NOTHING`,
);

interface OwnerRow extends WordsRow {
  id: string;
  channel_id: string;
  application_id: string;
  enterprise_id: string;
  matched_by: "extension" | "last_message" | "only_application" | null;
}

/**
 * Whose a text is: the application whose number, a channel's and its own extension, is the longest
 * beginning of the one that was written to; among equals the one that wrote to this handset last, over
 * that channel; else the only one there is. Where several might be meant none is (D14). A supplier that
 * puts a number of its own in the place of ours leaves only who wrote last.
 *
 * Each candidate costs one look into the index of messages by application and number.
 */
const OWNERS = statement<OwnerRow>(
  "inbound.owners",
  `WITH text AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
                            AS t(id, supplier_id, number_hash, dest_id)),
   candidate AS (
     SELECT text.id, text.number_hash, c.id AS channel_id, p.id AS application_id, p.enterprise_id,
            p.extension IS NOT NULL AS by_extension, s.profile->>'srcId' = 'overwritten' AS by_nobody,
            coalesce(p.opt_out_words, ${wordsIn("optOutWords")}) AS opt_out_words,
            coalesce(p.opt_in_words, ${wordsIn("optInWords")}) AS opt_in_words,
            rank() OVER (PARTITION BY text.id
                         ORDER BY length(c.src_id) + coalesce(length(p.extension), 0) DESC) AS place
       FROM text
       JOIN suppliers s ON s.id = text.supplier_id
       JOIN channels c ON c.supplier_id = s.id
       JOIN channel_group_members gm ON gm.channel_id = c.id
       JOIN applications p ON p.channel_group_id = gm.group_id
      WHERE starts_with(text.dest_id, c.src_id || coalesce(p.extension, ''))
         OR s.profile->>'srcId' = 'overwritten'),
   named AS (
     SELECT candidate.*, last.at AS last_at, min(candidate.application_id) OVER them = max(candidate.application_id) OVER them AS only_one
       FROM candidate
       LEFT JOIN LATERAL (
              SELECT a.queued_at AS at
                FROM messages m JOIN attempts a ON a.message_id = m.id AND a.channel_id = candidate.channel_id
               WHERE m.application_id = candidate.application_id AND m.number_hash = candidate.number_hash
                 AND a.queued_at IS NOT NULL
               ORDER BY m.created_at DESC, m.id DESC, a.number DESC LIMIT 1) last ON true
      WHERE candidate.place = 1 OR candidate.by_nobody
     WINDOW them AS (PARTITION BY candidate.id))
   SELECT DISTINCT ON (id) id, channel_id, application_id, enterprise_id, opt_out_words, opt_in_words,
          CASE WHEN by_extension AND only_one AND by_nobody IS NOT TRUE THEN 'extension'
               WHEN last_at IS NOT NULL THEN 'last_message'
               WHEN only_one AND by_nobody IS NOT TRUE THEN 'only_application' END AS matched_by
     FROM named
    ORDER BY id, last_at DESC NULLS LAST, application_id`,
);

const KEEP = statement<Record<string, never>>(
  "inbound.keep",
  `INSERT INTO inbound_messages (id, supplier_id, channel_id, application_id, enterprise_id, matched_by, number_hash,
                                 number_sealed, dest_id, is_text, content_sealed, part_count, complete, wish, received_at)
   SELECT id, supplier_id, channel_id, application_id, enterprise_id, matched_by, number_hash,
          decode(number_sealed, 'base64'), dest_id, is_text, decode(content_sealed, 'base64'), part_count, complete, wish,
          statement_timestamp() - age_ms * interval '1 millisecond'
     FROM jsonb_to_recordset($1::jsonb)
          AS t(id text, supplier_id text, channel_id text, application_id text, enterprise_id text, matched_by text,
               number_hash text, number_sealed text, dest_id text, is_text boolean, content_sealed text,
               part_count smallint, complete boolean, wish text, age_ms float8)`,
);

const TO_HAND_ON = statement<
  SealedRow & {
    id: InboundId;
    application_id: string;
    dest_id: string;
    part_count: number;
    complete: boolean;
    wish: "opt_out" | "opt_in" | null;
    received_at: Date;
    url: string | null;
  }
>(
  "inbound.to_hand_on",
  `SELECT i.id, i.application_id, i.number_sealed, i.dest_id, i.is_text, i.content_sealed, i.part_count, i.complete,
          i.wish, i.received_at, p.webhook_url AS url
     FROM unnest($1::text[]) WITH ORDINALITY AS t(id, place)
     JOIN inbound_messages i ON i.id = t.id
     JOIN applications p ON p.id = i.application_id
    ORDER BY t.place`,
);

const NOTIFY = statement<Record<string, never>>(
  "inbound.notify",
  `INSERT INTO notifications (id, inbound_id, application_id, url, body_sealed)
   SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[])
   ON CONFLICT DO NOTHING`,
);

/** Locked, so that of two people who say it at once the second is told what the first one said. */
const STANDING = statement<
  WordsRow &
    SealedRow & {
      application_id: string | null;
      enterprise_id: string | null;
      complete: boolean;
    }
>(
  "inbound.standing",
  `SELECT i.application_id, i.is_text, i.number_sealed, i.content_sealed, i.complete, p.enterprise_id,
          coalesce(p.opt_out_words, ${wordsIn("optOutWords")}) AS opt_out_words,
          coalesce(p.opt_in_words, ${wordsIn("optInWords")}) AS opt_in_words
     FROM inbound_messages i
     JOIN suppliers s ON s.id = i.supplier_id
     LEFT JOIN applications p ON p.id = $2
    WHERE i.id = $1
      FOR NO KEY UPDATE OF i`,
);

const ASSIGN = statement<Record<string, never>>(
  "inbound.assign",
  `UPDATE inbound_messages SET application_id = $2, enterprise_id = $3, wish = $4, matched_by = 'person'
    WHERE id = $1`,
);

const INBOUND = `SELECT id, supplier_id, channel_id, application_id, number_sealed, dest_id, is_text, content_sealed,
          part_count, complete, matched_by, wish,
          ${rfc3339("received_at")} AS received_at
     FROM inbound_messages`;

const ONE = statement<StoredRow>("inbound.one", `${INBOUND} WHERE id = $1`);

const newest = (condition: string): string =>
  `${INBOUND} WHERE ($1::text IS NULL OR id < $1) ${condition} ORDER BY id DESC NULLS LAST LIMIT $2`;

const OF_APPLICATION = statement<StoredRow>("inbound.of_application", newest("AND application_id = $3"));
const UNMATCHED = statement<StoredRow>("inbound.unmatched", newest("AND application_id IS NULL"));
const ANYWHERE = statement<StoredRow>("inbound.anywhere", newest(""));
