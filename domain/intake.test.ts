import { describe, expect, it } from "vitest";
import { type IntakeFacts, type Room, refusalOf, withinLimits } from "./intake.ts";

const good: IntakeFacts = {
  applicationActive: true,
  enterpriseActive: true,
  signatureStatus: "approved",
  templateMatched: true,
  blacklisted: false,
  operator: "china_mobile",
};

describe("what is refused before anything is sent (A3)", () => {
  it("lets a message pass against which nothing stands", () => {
    expect(refusalOf(good)).toBeNull();
  });

  it.each([
    [
      "application_disabled",
      { applicationActive: false, enterpriseActive: false, signatureStatus: null, operator: null },
    ],
    ["enterprise_disabled", { enterpriseActive: false, signatureStatus: null, operator: null }],
    ["signature_unknown", { signatureStatus: null, operator: null }],
    ["signature_not_approved", { signatureStatus: "pending", operator: null }],
    ["signature_not_approved", { signatureStatus: "rejected", templateMatched: false }],
    ["template_not_matched", { templateMatched: false, blacklisted: true, operator: null }],
    ["recipient_blacklisted", { blacklisted: true, operator: null }],
    ["operator_unknown", { operator: null }],
  ] as const)("says %s first, in a fixed order (%#)", (reason, facts) => {
    expect(refusalOf({ ...good, ...facts })).toBe(reason);
  });
});

describe("how many are sent (A3, A4)", () => {
  const to = (recipient: string, id = recipient) => ({ id, recipient });
  const reasons = (messages: ReturnType<typeof to>[], room: Room) => {
    const { within, over } = withinLimits(messages, room);
    const refused = new Map(over.map(({ message, reason }) => [message, reason]));
    expect(within.length + over.length).toBe(messages.length);
    return messages.map((message) => refused.get(message) ?? "within");
  };

  it("lets as many pass as the day has room for, the earlier first", () => {
    const room = { today: 2, recipients: new Map() };
    expect(reasons([to("1"), to("2"), to("3")], room)).toEqual(["within", "within", "daily_limit_reached"]);
  });

  it("counts those of the same batch towards every window of their recipient", () => {
    const room = { today: null, recipients: new Map([["1", [3, 1]]]) };
    const messages = [to("1", "a"), to("1", "b"), to("2", "c"), to("2", "d")];
    expect(reasons(messages, room)).toEqual(["within", "frequency_limited", "within", "within"]);
  });

  it("takes no room of the day for one that the frequency refuses", () => {
    const room = { today: 1, recipients: new Map([["1", [0]]]) };
    expect(reasons([to("1"), to("2")], room)).toEqual(["frequency_limited", "within"]);
  });

  it("changes nothing of the room that it was given", () => {
    const room = { today: 1, recipients: new Map([["1", [1]]]) };
    expect(reasons([to("1")], room)).toEqual(reasons([to("1")], room));
  });

  it("says the day's limit where both stand against it, also where it was lowered below the count", () => {
    expect(reasons([to("1")], { today: -5, recipients: new Map([["1", [0]]]) })).toEqual([
      "daily_limit_reached",
    ]);
  });
});
