/** Waybill's HTTP API as the command line and the demo use it: what a customer's program would do. */
import { errorName } from "../workers/service.ts";
import type { RunFile } from "./run-file.ts";
import { Trouble } from "./trouble.ts";

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

const CALL_TIMEOUT_MS = 10_000;

export const sendMessage = (
  run: RunFile,
  message: { to: string; text: string; webhookUrl?: string; reference?: string },
): Promise<AcceptedMessage> => call(run, "POST", "/v1/messages", message);

export const showMessage = (run: RunFile, id: string): Promise<MessageStory> =>
  call(run, "GET", `/v1/messages/${encodeURIComponent(id)}`);

/** Throws a `Trouble` that says what the API said no to, or that it does not answer. */
async function call<Answer>(run: RunFile, method: string, path: string, body?: object): Promise<Answer> {
  const answer = await ask(`${run.api}${path}`, {
    method,
    headers: { authorization: `Bearer ${run.apiKey}`, "content-type": "application/json" },
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const content: unknown = await answer.json();
  if (!answer.ok) throw new Trouble(refusal(answer.status, content));
  return content as Answer;
}

async function ask(url: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(url, request);
  } catch (error) {
    const cause = error instanceof TypeError ? error.cause : error;
    throw new Trouble(
      `The API at ${new URL(url).origin} does not answer (${errorName(cause)}): is Waybill running?`,
    );
  }
}

interface Problem {
  title?: string;
  code?: string;
  errors?: { path: string; message: string }[];
}

function refusal(status: number, content: unknown): string {
  const { title = "refused", code = "unknown", errors = [] } = content as Problem;
  const fields = errors.map(({ path, message }) => `\n  ${path}: ${message}`).join("");
  return `${status} ${code}: ${title}${fields}`;
}
