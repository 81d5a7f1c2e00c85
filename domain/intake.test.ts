import { describe, expect, it } from "vitest";
import { type IntakeFacts, refusalOf } from "./intake.ts";

const good: IntakeFacts = {
  applicationActive: true,
  enterpriseActive: true,
  signatureStatus: "approved",
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
    ["signature_not_approved", { signatureStatus: "rejected" }],
    ["operator_unknown", { operator: null }],
  ] as const)("says %s first, in a fixed order (%#)", (reason, facts) => {
    expect(refusalOf({ ...good, ...facts })).toBe(reason);
  });
});
