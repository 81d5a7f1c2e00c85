/** Who may look and who may change: tokens of people, apart from the keys of customers. */
import type { Request, RequestHandler, Response } from "express";
import type { Author } from "../../db/audit.ts";
import type { Session } from "../../db/client.ts";
import { tokenHash } from "../../db/keys.ts";
import { findOpsToken, type OpsToken } from "../../db/ops-tokens.ts";
import { ProblemError } from "../problems.ts";

/** Lets a request on with an active token of either role; a viewer's only where it asks. */
export const access =
  (session: Session): RequestHandler =>
  async (request, response, next) => {
    const secret = bearerOf(request);
    const token = secret === undefined ? undefined : await findOpsToken(session, tokenHash(secret));
    if (token === undefined) {
      throw new ProblemError("invalid_token", [], { "www-authenticate": 'Bearer realm="waybill-ops"' });
    }
    const asks = request.method === "GET" || request.method === "HEAD";
    if (token.role !== "operator" && !asks) throw new ProblemError("forbidden");
    response.locals["opsToken"] = token;
    next();
  };

const bearerOf = (request: Request): string | undefined =>
  /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? "")?.[1];

/** On whose behalf a change is made, as its audit row will say. */
export const authorOf = (response: Response, note: string | undefined): Author => ({
  actor: (response.locals["opsToken"] as OpsToken).id,
  note,
});
