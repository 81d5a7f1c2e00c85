/** What the run and its generator, a process of its own, tell each other. */

export interface SendOrder {
  /** Milliseconds after the order arrived, for an open loop; ignored in a closed one. */
  dueMs: number;
  apiKey: string;
  to: string;
  text: string;
  /** Also the message's reference. */
  key: string;
}

export type ToGenerator =
  | { kind: "send"; api: string; orders: SendOrder[]; inFlight: null }
  /** So many messages are always between their submission and their webhook. */
  | { kind: "send"; api: string; orders: SendOrder[]; inFlight: number }
  /** Answered by `sent`, whatever has come until then. */
  | { kind: "collect" }
  | { kind: "end" };

/** All times are epoch milliseconds with a fraction. */
export interface Sent {
  dueAt: number;
  sentAt: number;
  /** Null where no answer came. */
  answeredAt: number | null;
  /** HTTP status; 0 where no answer came. */
  status: number;
  id: string | null;
  /** The problem's code, where it was not accepted. */
  code: string | null;
  webhooks: { at: number; id: string; type: string }[];
}

export interface Progress {
  submitted: number;
  answered: number;
  accepted: number;
  told: number;
}

export type FromGenerator =
  | { kind: "ready"; webhookUrl: string }
  | ({ kind: "progress" } & Progress)
  /** Every order has been answered, or given up. */
  | { kind: "answered"; beganAt: number }
  | { kind: "sent"; sent: Sent[]; strayWebhooks: number; refusedWebhooks: number };
