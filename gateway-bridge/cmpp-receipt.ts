/**
 * The content of a status report (cmpp §5) and the difference between a receipt and an inbound text.
 */
import type { Deliver, CmppVersion } from "./cmpp-codec.ts";
import { FieldReader, FieldWriter } from "./cmpp-fields.ts";
import { parseReceiptTime, receiptTime } from "./cmpp-time.ts";

export interface Receipt {
  /** The Msg_Id of the SUBMIT_RESP, 16 hex characters; not that of the DELIVER around it. */
  msgId: string;
  /** Upper case, without padding (cmpp §6). Any spelling that a supplier made up can stand here. */
  stat: string;
  /** Minute precision, Beijing time on the wire; null where the supplier wrote no real time. */
  submitTime: Date | null;
  doneTime: Date | null;
  /** The handset, without a country code. */
  number: string;
}

/** In what suppliers' receipts differ beside what they say; from the supplier's profile. */
export interface ReceiptReading {
  /** IANA name of where its clocks stand. */
  timeZone: string;
  /** Whose layout it has; by its own length where that is not said. */
  receiptBytes: "by_length" | 60 | 71;
}

const USUAL_READING: ReceiptReading = { timeZone: "Asia/Shanghai", receiptBytes: "by_length" };

export type ParsedReceipt = { ok: true; receipt: Receipt } | { ok: false; why: "not_a_receipt" };

const NUMBER_AT = 35;
/** Behind the number: of no use to anybody, and no part of it, though its bytes may look like digits. */
const SMSC_SEQUENCE_BYTES = 4;
const CONTENT_BYTES: Record<CmppVersion, number> = { "2.0": 60, "3.0": 71 };

export const isReceipt = (deliver: Deliver): boolean => deliver.registeredDelivery !== 0;

/**
 * Reads by what is there and not by the session's version: 60 and 71 bytes occur in both, and some
 * suppliers send other lengths (cmpp §14, 1). Without a usual length the two times must be digits.
 */
export function parseReceipt(content: Buffer, reading = USUAL_READING): ParsedReceipt {
  const usual = content.length === CONTENT_BYTES["2.0"] || content.length === CONTENT_BYTES["3.0"];
  const timesAreDigits = /^\d{20}$/.test(content.toString("latin1", 15, NUMBER_AT));
  if (content.length < NUMBER_AT || !(usual || timesAreDigits)) return { ok: false, why: "not_a_receipt" };
  const fields = new FieldReader(content, 0);
  return {
    ok: true,
    receipt: {
      msgId: fields.msgId(),
      stat: fields.text(7).trim().toUpperCase(),
      submitTime: parseReceiptTime(fields.text(10), reading.timeZone),
      doneTime: parseReceiptTime(fields.text(10), reading.timeZone),
      number: handsetNumber(
        leadingDigits(content.toString("latin1", NUMBER_AT, numberEnd(content, reading))),
      ),
    },
  };
}

function numberEnd(content: Buffer, { receiptBytes }: ReceiptReading): number | undefined {
  const layout = receiptBytes === "by_length" ? content.length : receiptBytes;
  return layout === 60 || layout === 71 ? layout - SMSC_SEQUENCE_BYTES : undefined;
}

/** A status report's content as a gateway of this version writes it. Throws FieldError. */
export function encodeReceipt(receipt: Receipt & { smscSequence: number }, version: CmppVersion): Buffer {
  const size = CONTENT_BYTES[version];
  return new FieldWriter(size)
    .msgId("Msg_Id", receipt.msgId)
    .text("Stat", receipt.stat, 7)
    .text("Submit_time", receiptTime(receipt.submitTime), 10)
    .text("Done_time", receiptTime(receipt.doneTime), 10)
    .text("Dest_terminal_Id", receipt.number, size - NUMBER_AT - SMSC_SEQUENCE_BYTES)
    .u32("SMSC_sequence", receipt.smscSequence).bytes;
}

/** Strips the country code, which some gateways add (cmpp §14, 21), and nothing else. */
export function handsetNumber(number: string): string {
  return /^(?:\+86|0086|86)(1\d{10})$/.exec(number)?.[1] ?? number;
}

/** The field ends at the first character that no number has, if not before. */
const leadingDigits = (field: string): string => /^ *(\+?\d*)/.exec(field)?.[1] ?? "";
