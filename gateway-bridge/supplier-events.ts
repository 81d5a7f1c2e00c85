/** Supplier answers, silences and deliveries as events to store, under the keys of domain/ids.ts. */
import { createHash } from "node:crypto";
import type { SupplierEvent } from "../db/events.ts";
import type { Holder, PartWrite } from "../db/takes.ts";
import { noResponseEventKey, receiptEventKey, responseEventKey } from "../domain/ids.ts";
import { type Answer } from "../domain/supplier-codes.ts";
import type { ReceivedDeliver } from "./cmpp-deliver.ts";
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
        key: `inbound:${holder.supplierId}:${deliver.deliverMsgId}:${digest(deliver.raw)}`,
        kind: "inbound",
        msgId: deliver.deliverMsgId,
        number: deliver.from,
        srcId: deliver.to,
        raw: deliver.raw,
      };
    case "malformed":
      return {
        ...of(holder),
        key: `inbound:${holder.supplierId}:malformed:${digest(deliver.raw)}`,
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

const digest = (raw: Buffer): string => createHash("sha256").update(raw).digest("hex").slice(0, 32);
