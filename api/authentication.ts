/** Who calls, by API key, and whether the application may submit more right now. */
import type { Request, RequestHandler, Response } from "express";
import type { Session } from "../db/client.ts";
import { tokenHash } from "../db/keys.ts";
import { findCaller, type Caller } from "../db/queries.ts";
import { ProblemError } from "./problems.ts";

/** How long a key that was switched off may still be let in (B1's spirit: as good as at once). */
const REMEMBERED_MS = 250;
const REMEMBERED_AT_MOST = 10_000;

/** Lets a request on only with an active key, and notes whose it is. */
export function authentication(session: Session): RequestHandler {
  const callers = new Map<string, { caller: Promise<Caller | undefined>; until: number }>();

  function look(hash: Buffer): Promise<Caller | undefined> {
    const key = hash.toString("base64");
    const known = callers.get(key);
    if (known !== undefined && known.until > performance.now()) return known.caller;
    if (callers.size >= REMEMBERED_AT_MOST) callers.clear();
    const caller = findCaller(session, hash);
    callers.set(key, { caller, until: performance.now() + REMEMBERED_MS });
    return caller;
  }

  return async (request, response, next) => {
    const token = /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? "")?.[1];
    const caller = token === undefined ? undefined : await look(tokenHash(token));
    if (caller === undefined) {
      throw new ProblemError("invalid_api_key", [], { "www-authenticate": 'Bearer realm="waybill"' });
    }
    response.locals["caller"] = caller;
    next();
  };
}

/** The caller that `authentication` found. */
export const callerOf = (response: Response): Caller => response.locals["caller"] as Caller;

export interface SubmissionRate {
  /** Refuses with 429 while the application is over its rate. */
  readonly admit: RequestHandler;
  /** Counts messages beyond the one that `admit` counted. */
  spend(caller: Caller, messages: number): void;
}

/**
 * `applications.rate_per_second` as a bucket per application that holds one second's worth. A batch is
 * let in while anything is left and its size is paid off afterwards. The count is this process's own:
 * several API processes let through as many times the rate.
 */
export function submissionRate(nowMs: () => number = () => performance.now()): SubmissionRate {
  const buckets = new Map<string, { left: number; at: number }>();

  function filled(caller: Caller, rate: number): { left: number; at: number } {
    const now = nowMs();
    const bucket = buckets.get(caller.applicationId) ?? { left: rate, at: now };
    bucket.left = Math.min(rate, bucket.left + ((now - bucket.at) * rate) / 1_000);
    bucket.at = now;
    buckets.set(caller.applicationId, bucket);
    return bucket;
  }

  return {
    admit(_request: Request, response, next) {
      const caller = callerOf(response);
      const rate = caller.ratePerSecond;
      if (rate !== null) {
        const bucket = filled(caller, rate);
        if (bucket.left < 1) {
          const seconds = rate > 0 ? Math.ceil((1 - bucket.left) / rate) : 1;
          throw new ProblemError("rate_limited", [], { "retry-after": String(seconds) });
        }
        bucket.left -= 1;
      }
      next();
    },
    spend(caller, messages) {
      if (caller.ratePerSecond !== null) filled(caller, caller.ratePerSecond).left -= messages;
    },
  };
}
