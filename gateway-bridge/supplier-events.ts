/** Supplier answers, silences and deliveries as events to store, under the keys of domain/ids.ts. */
import { createHash } from "node:crypto";
import type { SupplierEvent } from "../db/events.ts";
import type { Holder, PartWrite } from "../db/takes.ts";
import { inboundEventKey, noResponseEventKey, receiptEventKey, responseEventKey } from "../domain/ids.ts";
import { type Answer } from "../domain/supplier-codes.ts";
import type { ReceivedDeliver } from "./cmpp-deliver.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";
import type { Concatenation } from "./cmpp-text.ts";
import { answeredMsgId, receiptBy, type SupplierProfile } from "./supplier.ts";

export function responseEvent(
  holder: Holder,
  write: PartWrite,
  answer: { answer: Answer; result: number; msgId: string; raw: Buffer },
): SupplierEvent {
  return {
    ...of(holder),
    ...write,
    key: responseEventKey(write.submitId, write.part, write.writeNumber, answer.msgId, answer.result),
    kind: "response",
    answer: answer.answer,
    resultCode: answer.result,
    msgId: answer.msgId,
    raw: answer.raw,
  };
}

/** Written, and nobody will wait for its answer any longer: the outcome is unknown (I). */
export function noResponseEvent(holder: Holder, write: PartWrite): SupplierEvent {
  return {
    ...of(holder),
    ...write,
    key: noResponseEventKey(write.submitId, write.part, write.writeNumber),
    kind: "no_response",
  };
}

/** `meaning` is what a receipt's state says by the supplier's own table, as of now. */
export function deliverEvent(
  holder: Holder,
  profile: SupplierProfile,
  deliver: ReceivedDeliver,
): SupplierEvent {
  switch (deliver.kind) {
    case "receipt": {
      const msgId = answeredMsgId(profile, deliver.msgId);
      return {
        ...of(holder),
        key: receiptEventKey(holder.supplierId, msgId, deliver.number, deliver.stat),
        kind: "receipt",
        msgId,
        stat: deliver.stat,
        meaning: receiptBy(profile, deliver.stat),
        number: deliver.number,
        ...(profile.srcId === "as_sent" ? { srcId: deliver.srcId } : {}),
        raw: deliver.raw,
      };
    }
    case "inbound":
      return {
        ...of(holder),
        key: inboundEventKey(holder.supplierId, deliver.deliverMsgId, saidBy(holder, deliver)),
        kind: "inbound",
        msgId: deliver.deliverMsgId,
        number: deliver.from,
        srcId: deliver.to,
        inbound: {
          msgFmt: deliver.msgFmt,
          content: deliver.content,
          ...placeOf(deliver.part),
        },
        raw: deliver.raw,
      };
    case "malformed":
      return {
        ...of(holder),
        key: inboundEventKey(holder.supplierId, "malformed", digest(deliver.raw)),
        kind: "inbound",
        stat: "malformed",
        raw: deliver.raw,
      };
  }
}

const of = (holder: Holder) => ({
  supplierId: holder.supplierId,
  slot: holder.slot,
  epoch: holder.epoch,
});

type Inbound = ReceivedDeliver & { kind: "inbound" };

/**
 * What makes two DELIVERs one. Where a supplier gives none of them an id only the whole frame on this
 * very connection can be a repetition: to lose a text would be worse than to tell of it twice.
 */
const saidBy = (holder: Holder, { deliverMsgId, from, to, msgFmt, content, part, raw }: Inbound): string =>
  deliverMsgId === NO_MSG_ID
    ? digest(Buffer.concat([Buffer.from(`${holder.slot} ${holder.epoch} `), raw]))
    : digest(Buffer.concat([Buffer.from(JSON.stringify([from, to, msgFmt, part ?? null])), content]));

/** A reference of eight bits and one of sixteen with the same value are two (cmpp §8). */
const placeOf = (part: Concatenation | undefined) =>
  part === undefined
    ? { reference: null, total: 1, part: 1 }
    : {
        reference: `${part.referenceBits}:${part.reference}:${part.total}`,
        total: part.total,
        part: part.number,
      };

const digest = (raw: Buffer): string => createHash("sha256").update(raw).digest("hex").slice(0, 32);
