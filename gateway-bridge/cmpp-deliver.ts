/**
 * What a DELIVER brings: a receipt, an inbound text, or something that is neither (cmpp §4.6).
 */
import { hasUserDataHeader, type Deliver } from "./cmpp-codec.ts";
import { handsetNumber, isReceipt, parseReceipt, type Receipt, type ReceiptReading } from "./cmpp-receipt.ts";
import { readUserData, type Concatenation } from "./cmpp-text.ts";

export type ReceivedDeliver =
  | ({ kind: "receipt"; srcId: string; deliverMsgId: string; raw: Buffer } & Receipt)
  | {
      kind: "inbound";
      deliverMsgId: string;
      /** The handset, without a country code. */
      from: string;
      /** The number that was texted: access code and extension. */
      to: string;
      serviceId: string;
      msgFmt: number;
      /** Without the user data header. */
      content: Buffer;
      part?: Concatenation;
      raw: Buffer;
    }
  | { kind: "malformed"; why: string; raw: Buffer };

/** Never throws: what cannot be read is kept raw for a person. `raw` is the whole PDU. */
export function readDeliver(pdu: Deliver, raw: Buffer, reading?: ReceiptReading): ReceivedDeliver {
  if (!isReceipt(pdu)) return readInbound(pdu, raw);
  const parsed = parseReceipt(pdu.content, reading);
  if (!parsed.ok) return { kind: "malformed", why: parsed.why, raw };
  const { receipt } = parsed;
  // A few suppliers leave the number inside empty; outside stands the same one (cmpp §4.6).
  const number = receipt.number === "" ? handsetNumber(pdu.sourceNumber) : receipt.number;
  return { kind: "receipt", ...receipt, number, srcId: pdu.destId, deliverMsgId: pdu.msgId, raw };
}

function readInbound(pdu: Deliver, raw: Buffer): ReceivedDeliver {
  const { body, part } = readUserData(pdu.content, hasUserDataHeader(pdu.udhi));
  return {
    kind: "inbound",
    deliverMsgId: pdu.msgId,
    from: handsetNumber(pdu.sourceNumber),
    to: pdu.destId,
    serviceId: pdu.serviceId,
    msgFmt: pdu.msgFmt,
    content: body,
    ...(part === undefined ? {} : { part }),
    raw,
  };
}
