/** One signed HTTP call to a customer's endpoint, from the bytes that were stored to what came of it. */
import { Webhook } from "standardwebhooks";
import { Agent, request, type Dispatcher } from "undici";
import type { CallError, CallOutcome } from "../domain/webhook.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { errorName } from "./service.ts";
import { checkWebhookUrl, guardedConnector, type DialPolicy, type Resolve } from "./webhook-dial.ts";

export interface WebhookCall {
  /** The same at every try: the receiver's key against doubles. */
  id: string;
  url: string;
  body: string;
  /** One secret, or the new and the old one while they are exchanged. */
  secrets: readonly string[];
}

export interface WebhookClientOptions extends DialPolicy {
  /** For the whole call, from the look-up of the name to the last byte read. */
  timeoutMs: number;
  /** Connections kept to one host at most. */
  connectionsPerHost: number;
  resolve?: Resolve;
}

export interface WebhookClient {
  /** Never rejects: whatever happens is an outcome. */
  call(what: WebhookCall): Promise<CallOutcome>;
  /** Breaks off what is under way. */
  close(): Promise<void>;
}

/** Nobody reads what an endpoint answers; more than this and the connection is dropped. */
const READ_BODY_BYTES = 16 * 1024;

export function createWebhookClient(options: WebhookClientOptions): WebhookClient {
  const agent = new Agent({
    connect: guardedConnector(options, options.resolve),
    connections: options.connectionsPerHost,
    pipelining: 1,
    maxHeaderSize: 16 * 1024,
  });

  async function call(what: WebhookCall): Promise<CallOutcome> {
    const url = checkWebhookUrl(what.url, options);
    if (!url.ok) return { kind: "unanswered", error: "address_refused" };
    const headers = signedHeaders(what, new Date());
    if (headers === undefined) return { kind: "unanswered", error: "secret_unusable" };
    const limit = AbortSignal.timeout(options.timeoutMs);
    try {
      const { body } = what;
      const response = await atPoint("notification_call", () =>
        request(url.url, { method: "POST", headers, body, dispatcher: agent, signal: limit }),
      );
      await throwAwayBody(response, limit);
      return {
        kind: "answered",
        httpStatus: response.statusCode,
        retryAfter: onlyOne(response.headers["retry-after"]),
      };
    } catch (error) {
      return { kind: "unanswered", error: callError(error) };
    }
  }

  return { call, close: () => agent.destroy() };
}

/** Standard Webhooks headers; undefined where a secret is not in the form the standard gives it. */
function signedHeaders(what: WebhookCall, at: Date): Record<string, string> | undefined {
  try {
    return {
      "content-type": "application/json",
      "user-agent": "Waybill",
      "webhook-id": what.id,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
      "webhook-signature": what.secrets
        .map((secret) => new Webhook(secret).sign(what.id, at, what.body))
        .join(" "),
    };
  } catch {
    return undefined;
  }
}

/** The status has decided already, so a body that breaks off or never ends changes nothing. */
async function throwAwayBody(response: Dispatcher.ResponseData, signal: AbortSignal): Promise<void> {
  await response.body.dump({ limit: READ_BODY_BYTES, signal }).catch(() => undefined);
}

const onlyOne = (header: string | string[] | undefined): string | undefined =>
  Array.isArray(header) ? header[0] : header;

const ERRORS: Readonly<Record<string, CallError>> = {
  TimeoutError: "timeout",
  AbortError: "timeout",
  UND_ERR_CONNECT_TIMEOUT: "not_connected",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  ETIMEDOUT: "not_connected",
  ECONNREFUSED: "not_connected",
  EHOSTUNREACH: "not_connected",
  ENETUNREACH: "not_connected",
  WEBHOOK_ADDRESS_REFUSED: "address_refused",
  ENOTFOUND: "name_not_resolved",
  ENODATA: "name_not_resolved",
  ESERVFAIL: "name_not_resolved",
  EREFUSED: "name_not_resolved",
  ETIMEOUT: "name_not_resolved",
  EBADNAME: "name_not_resolved",
  UND_ERR_HEADERS_OVERFLOW: "bad_response",
};

function callError(error: unknown): CallError {
  const name = errorName(error);
  const known = ERRORS[name] ?? ERRORS[error instanceof Error ? error.name : ""];
  if (known !== undefined) return known;
  if (name.startsWith("HPE_")) return "bad_response";
  if (/^(?:CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|EPROTO$)/.test(name))
    return "tls_failed";
  return "connection_lost";
}
