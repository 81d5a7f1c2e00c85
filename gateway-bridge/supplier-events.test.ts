import { describe, expect, it } from "vitest";
import type { Deliver } from "./cmpp-codec.ts";
import { readDeliver } from "./cmpp-deliver.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";
import { encodeReceipt } from "./cmpp-receipt.ts";
import { deliverEvent } from "./supplier-events.ts";
import { supplierProfile } from "./supplier.ts";

const NEEDED = { host: "127.0.0.1", port: 7890, version: "3.0", spId: "900001" } as const;
const holder = { owner: "gateway-a", supplierId: "sup_1", slot: 0, epoch: 1n };

const inbound = (fields: Partial<Deliver> = {}): Deliver => ({
  command: "deliver",
  sequenceId: 1,
  msgId: "80a5f081e2400008",
  destId: "10690001",
  serviceId: "",
  tpPid: 0,
  udhi: 0,
  msgFmt: 0,
  sourceNumber: "8613800138000",
  sourceType: 0,
  registeredDelivery: 0,
  content: Buffer.from("TD"),
  linkId: "",
  ...fields,
});

const stored = (fields: Partial<Deliver>, frame = "frame", profile: object = {}, epoch = 1n) =>
  deliverEvent(
    { ...holder, epoch },
    supplierProfile.parse({ ...NEEDED, ...profile }),
    readDeliver(inbound(fields), Buffer.from(frame)),
  );

describe("an inbound text as an event", () => {
  it("is one however often, wherever and under whatever Sequence_Id it comes (D2)", () => {
    expect(stored({}, "again", {}, 2n).key).toBe(stored({}).key);
    for (const other of [
      { msgId: "80a5f081e2400009" },
      { content: Buffer.from("T") },
      { sourceNumber: "13800138001" },
    ]) {
      expect(stored(other).key).not.toBe(stored({}).key);
    }
  });

  it("without a Msg_Id is one only as the same frame on the same connection", () => {
    const key = stored({ msgId: NO_MSG_ID }).key;
    expect(stored({ msgId: NO_MSG_ID }).key).toBe(key);
    expect(stored({ msgId: NO_MSG_ID }, "with another Sequence_Id").key).not.toBe(key);
    expect(stored({ msgId: NO_MSG_ID }, "frame", {}, 2n).key).not.toBe(key);
  });

  it("says its place in a long one, references of 8 and 16 bits apart", () => {
    const part = (header: string) =>
      stored({ udhi: 1, content: Buffer.concat([Buffer.from(header, "hex"), Buffer.from("a")]) }).inbound;
    expect(part("050003070302")).toEqual({
      msgFmt: 0,
      content: Buffer.from("a"),
      reference: "8:7:3",
      total: 3,
      part: 2,
    });
    expect(part("06080400070302")).toMatchObject({ reference: "16:7:3" });
    expect(stored({}).inbound).toMatchObject({ reference: null, total: 1, part: 1 });
  });
});

describe("a receipt as an event", () => {
  const receipt = {
    registeredDelivery: 1,
    content: encodeReceipt(
      {
        msgId: "0102030405060708",
        stat: "DELIVRD",
        submitTime: null,
        doneTime: null,
        number: "13800138000",
        smscSequence: 1,
      },
      "3.0",
    ),
  };

  it("names the number that it came for, unless the supplier puts its own in the place of ours (D14)", () => {
    expect(stored(receipt)).toMatchObject({ kind: "receipt", srcId: "10690001" });
    expect(stored(receipt, "frame", { srcId: "overwritten" }).srcId).toBeUndefined();
  });
});
