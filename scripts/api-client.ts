/** Waybill's HTTP API as the command line and the demo use it: what a customer's program would do. */
import { call } from "./http-call.ts";
import type { RunFile } from "./run-file.ts";

/** The slice of a message's answer that is shown to people (interfaces §3). */
export interface MessageStory {
  id: string;
  status: string;
  reason: string | null;
  segments: number;
  createdAt: string;
  finalAt: string | null;
  price: { units: number | string; currency: string };
  attempts: { number: number; channel: { name: string | null } | null; outcome: string | null }[];
  ledger: { kind: string; units: number | string; currency: string }[];
  notifications: { status: string; tries: unknown[] }[];
  timeline: TimelineEntry[];
  waitingFor?: { what: string };
}

export interface TimelineEntry {
  at: string;
  what: string;
  why?: string;
}

export interface AcceptedMessage {
  id: string;
  segments: number;
  price: { units: number | string; currency: string };
}

export const sendMessage = (
  run: RunFile,
  message: { to: string; text: string; webhookUrl?: string; reference?: string },
): Promise<AcceptedMessage> => call(`${run.api}/v1/messages`, run.apiKey, "POST", message);

export const showMessage = (run: RunFile, id: string): Promise<MessageStory> =>
  call(`${run.api}/v1/messages/${encodeURIComponent(id)}`, run.apiKey, "GET");
