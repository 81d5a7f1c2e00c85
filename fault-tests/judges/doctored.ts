/** A sound record of one text of two parts, for tests to doctor. */
import type { Facts, MessageRow, Receipt, Requested, Submit, Told } from "./evidence.ts";

export const request = (more: Partial<Requested> = {}): Requested => ({
  token: "7-1",
  reference: "ref-7-1",
  to: "13800000001",
  text: "first [7-1] second [7-1] ",
  parts: 2,
  fate: undefined,
  id: "msg_1",
  cancelAsked: false,
  ...more,
});

export const submit = (more: Partial<Submit> & { content?: string } = {}): Submit => {
  const { content = "first [7-1] ", ...fields } = more;
  const header = Buffer.from([5, 0, 3, 9, 2, fields.part ?? 1]);
  return {
    supplier: "supplier-1",
    at: "2026-01-01T00:00:01Z",
    msgId: "a1",
    to: "13800000001",
    part: 1,
    parts: 2,
    textHex: Buffer.concat([header, Buffer.from(content, "latin1")]).toString("hex"),
    result: 0,
    ...fields,
  };
};

export const second = (more: Partial<Submit> & { content?: string } = {}): Submit =>
  submit({ part: 2, msgId: "a2", content: "second [7-1] ", ...more });

export const receipt = (more: Partial<Receipt> = {}): Receipt => ({
  supplier: "supplier-1",
  at: "2026-01-01T00:00:02Z",
  msgId: "a1",
  to: "13800000001",
  stat: "DELIVRD",
  ...more,
});

export const message = (more: Partial<MessageRow> = {}): MessageRow => ({
  id: "msg_1",
  reference: "ref-7-1",
  status: "delivered",
  reason: null,
  uncertain: false,
  priceUnits: 650n,
  isFinal: true,
  withinLimit: true,
  currentAttemptId: "att_1_1",
  ...more,
});

export const facts = (more: Partial<Facts> = {}): Facts => ({
  messages: [message()],
  attempts: [
    {
      id: "att_1_1",
      messageId: "msg_1",
      number: 1,
      retryOf: null,
      submitId: "sub_1_1",
      state: "decided",
      outcome: "delivered",
      supplierName: "supplier-1",
    },
  ],
  segments: [1, 2].map((part) => ({ attemptId: "att_1_1", part, result: "accepted", receipt: "delivered" })),
  takes: [1, 2].map((part) => ({
    attemptId: "att_1_1",
    part,
    writeNumber: 1,
    kind: "write",
    answer: "accepted",
  })),
  transfers: [
    { key: "reserve:msg_1", kind: "reserve", accountId: "acc_1", messageId: "msg_1", units: 650n },
    { key: "close:msg_1", kind: "charge", accountId: "acc_1", messageId: "msg_1", units: 650n },
  ],
  notifications: [{ id: "evt_1", messageId: "msg_1", status: "delivered" }],
  allowedByPerson: [],
  ...more,
});

export const told = (more: Partial<Told> & { status?: string } = {}): Told => {
  const { status = "delivered", ...fields } = more;
  const data = { id: "msg_1", to: "13800000001", status, reference: "ref-7-1" };
  return {
    webhookId: "evt_1",
    signatureHolds: true,
    body: JSON.stringify({ type: `message.${status}`, id: "evt_1", data }),
    answered: 204,
    ...fields,
  };
};
