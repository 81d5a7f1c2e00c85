/** Whether the platform sends a message at all (A3, A6). Refusals cost nothing and reach no supplier. */
export interface IntakeFacts {
  applicationActive: boolean;
  enterpriseActive: boolean;
  /** The signature in the text, or the application's default; null where the text's own is unknown. */
  signatureStatus: "pending" | "approved" | "rejected" | null;
  operator: string | null;
}

export type Refusal =
  | "application_disabled"
  | "enterprise_disabled"
  | "signature_unknown"
  | "signature_not_approved"
  | "operator_unknown"
  | "insufficient_balance";

/** The first reason that stands against it, in a fixed order; null where none does. */
export function refusalOf(facts: IntakeFacts): Exclude<Refusal, "insufficient_balance"> | null {
  if (!facts.applicationActive) return "application_disabled";
  if (!facts.enterpriseActive) return "enterprise_disabled";
  if (facts.signatureStatus === null) return "signature_unknown";
  if (facts.signatureStatus !== "approved") return "signature_not_approved";
  if (facts.operator === null) return "operator_unknown";
  return null;
}
