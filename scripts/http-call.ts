/** One call of Waybill's own HTTP API, with what it says no to as a sentence for a person. */
import { errorName } from "../workers/service.ts";
import { Trouble } from "./trouble.ts";

/** A reconcile walks every stream and looks twice; nothing else takes as long. */
const CALL_TIMEOUT_MS = 60_000;

/** Throws a `Trouble` that says what the API said no to, or that it does not answer. */
export async function call<Answer>(
  url: string,
  token: string,
  method: string,
  body?: object,
): Promise<Answer> {
  const answer = await ask(url, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
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
