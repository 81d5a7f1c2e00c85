/** Raw supplier events: stored once under their key, before anything acts on them (D2). */
import type { SegmentReceipt } from "../domain/message.ts";
import type { Answer } from "../domain/supplier-codes.ts";
import { type Session, statement } from "./client.ts";
import type { Vault } from "./vault.ts";

export interface SupplierEvent {
  /** Made by domain/ids.ts: what makes two copies one event. */
  key: string;
  kind: "response" | "no_response" | "receipt" | "inbound";
  supplierId: string;
  slot: number | null;
  epoch: bigint | null;
  attemptId?: string;
  submitId?: string;
  part?: number;
  writeNumber?: number;
  answer?: Answer;
  resultCode?: number;
  msgId?: string;
  stat?: string;
  /** What `stat` means for this supplier; what it means for most where it is not said. */
  meaning?: SegmentReceipt;
  number?: string;
  srcId?: string;
  /** What an inbound text says, beside `raw`; absent where it could not be read. */
  inbound?: InboundContent;
  raw?: Buffer;
}

export interface InboundContent {
  msgFmt: number;
  /** Without its user data header. */
  content: Buffer;
  /** What the parts of one text have in common; null for a text of one part. */
  reference: string | null;
  total: number;
  /** From 1. */
  part: number;
}

/**
 * Stores events and, for answers to a submit, the outcome on its take row, in one statement. A copy of
 * an event is counted and adds no fact; where the first is not folded yet it is made due again.
 */
export async function storeEvents(session: Session, events: readonly SupplierEvent[]): Promise<void> {
  const unique = new Map<string, { event: SupplierEvent; copies: number }>();
  for (const event of events) {
    const seen = unique.get(event.key);
    if (seen === undefined) unique.set(event.key, { event, copies: 0 });
    else seen.copies++;
  }
  const { vault } = session;
  const stored = [...unique.values()].map((it) => ({ ...it, key: storedKeyOf(vault, it.event) }));
  const records = stored.map(({ event, copies, key }, arrival) => ({
    arrival,
    event_key: key,
    kind: event.kind,
    supplier_id: event.supplierId,
    slot: event.slot,
    epoch: event.epoch === null ? null : String(event.epoch),
    attempt_id: event.attemptId,
    submit_id: event.submitId,
    part: event.part,
    write_number: event.writeNumber,
    answer: event.answer,
    result_code: event.resultCode && Math.min(event.resultCode, LARGEST_CODE),
    msg_id: event.msgId,
    stat: event.stat,
    meaning: event.meaning,
    number_hash: event.number === undefined ? undefined : vault.hash(event.number),
    number_sealed: hexOf(event.number && vault.seal("supplier_events.number", key, event.number)),
    src_id: event.srcId,
    ...partOf(vault, key, event),
    raw_sealed: hexOf(event.raw && vault.seal("supplier_events.raw", key, event.raw)),
    copies,
  }));
  await session.run(STORE, [JSON.stringify(records)]);
}

/**
 * What tells a delivery from others holds its number, or a digest of its text that can be tried: it is kept
 * as a keyed hash. Answers to submits are told apart by our own ids.
 */
export const storedKeyOf = (vault: Vault, { key, kind }: Pick<SupplierEvent, "key" | "kind">): string =>
  kind === "receipt" || kind === "inbound" ? `${kind}:${vault.hash(key)}` : key;

/** A part of an inbound text is known by the key of its event, as that is stored. */
function partOf(vault: Vault, key: string, { inbound, number = "" }: SupplierEvent) {
  if (inbound === undefined) return {};
  return {
    from_sealed: hexOf(vault.seal("inbound_parts.number", key, number)),
    msg_fmt: inbound.msgFmt,
    content_sealed: hexOf(vault.seal("inbound_parts.content", key, inbound.content)),
    reference: inbound.reference,
    total: inbound.total,
    place: inbound.part,
  };
}

/** As bytes are written in JSON. */
const hexOf = (sealed: Buffer | "" | undefined): string | undefined =>
  sealed === undefined || sealed === "" ? undefined : `\\x${sealed.toString("hex")}`;

/** Four bytes on the wire, 31 bits in the column; the key and `raw` have what was really said. */
const LARGEST_CODE = 0x7fff_ffff;

/**
 * Take rows are locked in order, or the gateway and the sweeper could wait for each other over the same
 * silences; where a batch holds both, the answer counts. `no_response` says nothing about a submit that
 * was answered meanwhile, and is not kept then. Inbound texts belong to no attempt: there is nothing to
 * fold, and their parts are joined elsewhere, in the order in which they came. What could not be read at
 * all is for a person to see.
 *
 * Unknown stays unknown when "slower" comes late: a receipt may have been taken for that write already
 * (D14), and a write that "slower" allows would be the same text twice (C3).
 *
 * Whoever brings a key first has its event stored under the id that the key keeps; for everybody else the
 * key's row says which event was meant. One that was stored this very moment is due anyway.
 */
const STORE = statement<Record<string, never>>(
  "events.store",
  `WITH event AS (
     SELECT * FROM jsonb_to_recordset($1::jsonb)
         AS t(arrival int, event_key text, kind text, supplier_id text, slot smallint, epoch bigint, attempt_id text,
              submit_id text, part smallint, write_number smallint, answer text, result_code int, msg_id text,
              stat text, meaning text, number_hash text, number_sealed bytea, src_id text, raw_sealed bytea,
              from_sealed bytea, msg_fmt smallint, content_sealed bytea, reference text, total smallint,
              place smallint, copies int)),
   locked AS MATERIALIZED (
     SELECT k.submit_id, k.part, k.write_number, event.event_key, event.kind, event.answer
       FROM event
       JOIN takes k ON k.submit_id = event.submit_id AND k.part = event.part
            AND k.write_number = event.write_number AND k.kind = 'write'
      ORDER BY k.submit_id, k.part, k.write_number
        FOR NO KEY UPDATE OF k),
   answered AS (
     UPDATE takes k
        SET answer = coalesce(first.answer, 'unknown'), answered_at = clock_timestamp()
       FROM (SELECT DISTINCT ON (submit_id, part, write_number) * FROM locked
              ORDER BY submit_id, part, write_number, kind = 'no_response') first
      WHERE k.submit_id = first.submit_id AND k.part = first.part AND k.write_number = first.write_number
        AND (k.answer IS NULL
             OR (k.answer = 'unknown' AND first.kind = 'response' AND first.answer <> 'throttled'))
     RETURNING first.event_key),
   kept AS MATERIALIZED (
     SELECT next_event_id() AS id, event.* FROM event
      WHERE kind <> 'no_response' OR event_key IN (SELECT event_key FROM answered)),
   named AS (
     INSERT INTO supplier_event_keys AS k (event_key, event_id, copy_count)
     SELECT event_key, id, copies FROM kept ORDER BY event_key
     ON CONFLICT (event_key) DO UPDATE SET copy_count = k.copy_count + 1 + excluded.copy_count
     RETURNING event_key, event_id),
   woken AS (
     UPDATE supplier_events e SET due_at = clock_timestamp()
       FROM named JOIN kept ON kept.event_key = named.event_key AND kept.id <> named.event_id
      WHERE e.id = named.event_id AND e.folded_at IS NULL AND e.due_at > clock_timestamp()),
   inbound AS (
     INSERT INTO inbound_parts (event_key, supplier_id, number_hash, number_sealed, dest_id, msg_fmt, content_sealed,
                                reference, total, part, received_at)
     SELECT kept.event_key, supplier_id, number_hash, from_sealed, src_id, msg_fmt, content_sealed,
            reference, total, place,
            statement_timestamp() + arrival * interval '1 microsecond'
       FROM kept JOIN named ON named.event_id = kept.id
      WHERE content_sealed IS NOT NULL
     ON CONFLICT (event_key) DO NOTHING),
   odd AS (
     INSERT INTO anomalies (kind, event_id)
     SELECT 'malformed_deliver', kept.id FROM kept JOIN named ON named.event_id = kept.id
      WHERE kind = 'inbound' AND stat = 'malformed')
   INSERT INTO supplier_events (id, event_key, kind, supplier_id, slot, epoch, attempt_id, part, write_number, answer,
                                result_code, msg_id, stat, meaning, number_hash, number_sealed, src_id, raw_sealed, folded_at)
   SELECT id, kept.event_key, kind, supplier_id, slot, epoch, attempt_id, part, write_number, answer,
          result_code, msg_id, stat, meaning, number_hash, number_sealed, src_id, raw_sealed,
          CASE WHEN kind = 'inbound' THEN clock_timestamp() END
     FROM kept JOIN named ON named.event_id = kept.id
    ORDER BY id`,
);
