/** Whether the platform sends a message at all (A3, A6). Refusals cost nothing and reach no supplier. */
export interface IntakeFacts {
  applicationActive: boolean;
  enterpriseActive: boolean;
  /** The signature in the text, or the application's default; null where the text's own is unknown. */
  signatureStatus: "pending" | "approved" | "rejected" | null;
  /** Also true where the application demands no template. */
  templateMatched: boolean;
  blacklisted: boolean;
  operator: string | null;
}

/** Stable; docs/reasons.md says what each means and what the customer can do. */
export type Refusal = RuleRefusal | LimitRefusal | "insufficient_balance";

type RuleRefusal =
  | "application_disabled"
  | "enterprise_disabled"
  | "signature_unknown"
  | "signature_not_approved"
  | "template_not_matched"
  | "recipient_blacklisted"
  | "operator_unknown";

type LimitRefusal = "daily_limit_reached" | "frequency_limited";

/** The first reason that stands against it, in a fixed order; null where none does. */
export function refusalOf(facts: IntakeFacts): RuleRefusal | null {
  if (!facts.applicationActive) return "application_disabled";
  if (!facts.enterpriseActive) return "enterprise_disabled";
  if (facts.signatureStatus === null) return "signature_unknown";
  if (facts.signatureStatus !== "approved") return "signature_not_approved";
  if (!facts.templateMatched) return "template_not_matched";
  if (facts.blacklisted) return "recipient_blacklisted";
  if (facts.operator === null) return "operator_unknown";
  return null;
}

/** What still fits into the limits of an application, as read under its lock. */
export interface Room {
  /** Messages of today; null where any number may be sent. */
  today: number | null;
  /** By recipient, one entry a window: messages that it may still get. */
  recipients: ReadonlyMap<string, readonly number[]>;
}

export interface Counted {
  id: string;
  /** Any key of the recipient that is equal for equal numbers. */
  recipient: string;
}

/**
 * Which of an application's messages fit, in the order given, and what stands against the others. One
 * that does not fit takes no room from those behind it.
 */
export function withinLimits<Message extends Counted>(
  messages: readonly Message[],
  room: Room,
): { within: Message[]; over: { message: Message; reason: LimitRefusal }[] } {
  let { today } = room;
  const recipients = new Map(room.recipients);
  const within: Message[] = [];
  const over: { message: Message; reason: LimitRefusal }[] = [];
  for (const message of messages) {
    const windows = recipients.get(message.recipient) ?? [];
    if (today !== null && today <= 0) {
      over.push({ message, reason: "daily_limit_reached" });
    } else if (windows.some((left) => left <= 0)) {
      over.push({ message, reason: "frequency_limited" });
    } else {
      within.push(message);
      if (today !== null) today -= 1;
      recipients.set(
        message.recipient,
        windows.map((left) => left - 1),
      );
    }
  }
  return { within, over };
}
