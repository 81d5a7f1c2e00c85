import { describe, expect, it } from "vitest";
import { facts, message, request, told } from "./doctored.ts";
import type { MessageRow, NotificationRow, Told } from "./evidence.ts";
import { judgeWebhooks } from "./webhooks.ts";

interface Case {
  calls?: Told[];
  messages?: MessageRow[];
  notifications?: NotificationRow[];
}

const judge = ({ calls = [told()], messages = [message()], notifications = facts().notifications }: Case) =>
  judgeWebhooks({ requests: [request()], messages, notifications, told: calls }).map(
    ({ clause, verdict }) => `${clause} ${verdict}`,
  );

describe("the customer has nothing against", () => {
  it("being told once, or again under the same id", () => {
    expect(judge({})).toEqual([]);
    expect(judge({ calls: [told({ answered: 500 }), told(), told()] })).toEqual([]);
  });
});

describe("the customer objects to", () => {
  it("an end that was never told, or never taken (C7)", () => {
    expect(judge({ calls: [] })).toEqual(["C7 lost"]);
    expect(judge({ calls: [told({ answered: 500 })] })).toEqual(["C7 lost"]);
  });

  it("one end under two ids (C7)", () => {
    expect(judge({ calls: [told(), told({ webhookId: "evt_2" })] })).toEqual(["C7 duplicated"]);
  });

  it("a signature that does not hold (C7)", () => {
    expect(judge({ calls: [told(), told({ signatureHolds: false })] })).toEqual(["C7 unexpected"]);
  });

  it("an end that is not the message's, or before it has come (C7)", () => {
    expect(judge({ calls: [told({ status: "failed" })] })).toEqual(["C7 unexpected"]);
    expect(judge({ messages: [message({ isFinal: false, status: "delivered" })] })).toEqual([
      "C7 unexpected",
    ]);
  });

  it("two different ends (C6)", () => {
    expect(judge({ calls: [told(), told({ status: "failed" })] })).toEqual([
      "C6 unexpected",
      "C7 unexpected",
    ]);
  });

  it("a message that nobody asked for (C4)", () => {
    expect(judge({ messages: [message({ reference: "other" })] })).toEqual(["C4 unexpected"]);
  });

  it("no notification, two of them, or one that is still open (C7)", () => {
    const row = { id: "evt_1", messageId: "msg_1", status: "delivered" };
    expect(judge({ notifications: [] })).toEqual(["C7 unexpected"]);
    expect(judge({ notifications: [row, { ...row, id: "evt_2" }] })).toEqual(["C7 unexpected"]);
    expect(judge({ notifications: [{ ...row, status: "pending" }] })).toEqual(["C7 unexpected"]);
  });
});
