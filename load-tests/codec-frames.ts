/** How many frames a second the codec takes: those of one text, in the shares in which a gateway sees them. */
import { decode, encode, submitFields, submitPdu, type Pdu } from "../gateway-bridge/cmpp-codec.ts";
import { readDeliver } from "../gateway-bridge/cmpp-deliver.ts";
import { Framer } from "../gateway-bridge/cmpp-frames.ts";
import { encodeReceipt } from "../gateway-bridge/cmpp-receipt.ts";

const VERSION = "3.0";
const CHUNK_TEXTS = 200;
const FRAMES_A_TEXT = 4;
const WARM_UP_MS = 500;

/**
 * SUBMIT written, its answer read, the receipt read and taken apart, its answer written; what is read
 * comes in chunks as a socket hands them out.
 */
export function codecFramesPerSecond(measureMs = 2_000): number {
  const incoming = Buffer.concat(
    Array.from({ length: CHUNK_TEXTS }, (_, index) => [
      encode({ command: "submit_resp", sequenceId: index, msgId: "80a5e141e2400007", result: 0 }, VERSION),
      encode(receiptFor(index), VERSION),
    ]).flat(),
  );
  run(incoming, WARM_UP_MS);
  return Math.round(run(incoming, measureMs));
}

function run(incoming: Buffer, ms: number): number {
  const since = performance.now();
  let texts = 0;
  for (; performance.now() - since < ms; texts += CHUNK_TEXTS) {
    for (let index = 0; index < CHUNK_TEXTS; index++) encode(submitPdu(index, SUBMIT), VERSION);
    for (const frame of new Framer().push(incoming).frames) readOne(frame);
  }
  return (texts * FRAMES_A_TEXT * 1_000) / (performance.now() - since);
}

function readOne(frame: Buffer): void {
  const decoded = decode(frame, VERSION);
  if (!decoded.ok) throw new Error(decoded.why);
  const { pdu } = decoded;
  if (pdu.command !== "deliver") return;
  if (readDeliver(pdu, frame).kind !== "receipt") throw new Error("a receipt was not read as one");
  encode({ command: "deliver_resp", sequenceId: pdu.sequenceId, msgId: pdu.msgId, result: 0 }, VERSION);
}

const SUBMIT = submitFields({
  msgSrc: "900001",
  srcId: "10690001",
  destinations: ["13800138000"],
  msgFmt: 8,
  content: Buffer.from("【测试】您的验证码是 271828，五分钟内有效。", "utf16le").swap16(),
});

const receiptFor = (sequenceId: number): Pdu => ({
  command: "deliver",
  sequenceId,
  msgId: "80a5f081e2400008",
  destId: "10690001",
  serviceId: "",
  tpPid: 0,
  udhi: 0,
  msgFmt: 0,
  sourceNumber: "13800138000",
  sourceType: 0,
  registeredDelivery: 1,
  linkId: "",
  content: encodeReceipt(
    {
      msgId: "80a5e141e2400007",
      stat: "DELIVRD",
      submitTime: new Date(0),
      doneTime: new Date(0),
      number: "13800138000",
      smscSequence: 1,
    },
    VERSION,
  ),
});
