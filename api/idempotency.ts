/** The client's key and what it stands for (A1). */
import { createHash } from "node:crypto";
import type { Request, Response } from "express";
import type { Session } from "../db/client.ts";
import { type Acceptance, type Accepted, answeredBefore, type Sender } from "../db/inbox.ts";
import type { Refused } from "../domain/submission.ts";
import { ProblemError, refuse } from "./problems.ts";

/**
 * The key of the request with the hash of its parsed body, so that neither the order of fields nor the
 * spelling of a number makes another body; undefined where none was sent.
 */
export function idempotencyKey(request: Request, content: unknown): Acceptance["key"] {
  const key = request.headers["idempotency-key"];
  if (key === undefined) return undefined;
  if (typeof key !== "string" || !/^[\x20-\x7e]{1,255}$/.test(key)) {
    throw new ProblemError("invalid_idempotency_key");
  }
  return { key, bodyHash: createHash("sha256").update(canonicalJson(content)).digest() };
}

/**
 * What today's rules refuse may have been accepted under yesterday's, before a template was withdrawn, say:
 * its key then gives the first answer again (A1). Everything else is refused.
 */
export async function sendFirstAnswerOrRefuse(
  session: Session,
  sender: Sender,
  request: Request,
  response: Response,
  refused: Refused,
): Promise<void> {
  const key = refused.content === undefined ? undefined : idempotencyKey(request, refused.content);
  const before = key && (await answeredBefore(session, sender, key));
  if (before === undefined) throw refuse(refused);
  sendAccepted(response, before);
}

/** The first answer, byte for byte as it was stored; a second one says that it is that. */
export function sendAccepted(response: Response, accepted: Accepted): void {
  if (accepted.outcome === "key_reused") throw new ProblemError("idempotency_key_reused");
  if (accepted.outcome === "replayed") response.set("idempotency-replayed", "true");
  response.status(202).type("application/json").send(accepted.answer);
}

const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
