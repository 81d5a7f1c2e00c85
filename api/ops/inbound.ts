/** Inbound texts of all applications, those that belong to nobody, and whose a person says they are. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Database, Session } from "../../db/client.ts";
import { assignInbound, type InboundRow, listInbound, listUnmatchedInbound } from "../../db/inbound.ts";
import type { AnswerOf } from "../answers.ts";
import { readBody } from "../body.ts";
import { inboundPosition, inboundView } from "../inbound.ts";
import { pageOf, pageQuery, readCursor, readQuery, rowsFor } from "../paging.ts";
import { ProblemError } from "../problems.ts";
import { authorOf } from "./access.ts";
import type { assignedInbound, inboundAnywhere } from "./answers.ts";
import { assignmentBody } from "./bodies.ts";

type InboundAnywhere = AnswerOf<typeof inboundAnywhere>["inbound"][number];

export const inboundAnywhereQuery = z.strictObject({
  state: z.enum(["unmatched", "all"]).default("unmatched"),
  ...pageQuery,
});

export const showInbound =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { state, cursor, limit } = readQuery(request, inboundAnywhereQuery);
    const last = readCursor(cursor, inboundPosition);
    const list = state === "all" ? listInbound : listUnmatchedInbound;
    const rows = await list(session, last?.[0], rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, anywhereView, (row) => [row.id]);
    const answer: AnswerOf<typeof inboundAnywhere> = { inbound: views, nextCursor };
    response.json(answer);
  };

export const assignOneInbound =
  (database: Database): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { applicationId, note } = readBody(request, assignmentBody);
    const assigned = await assignInbound(
      database,
      authorOf(response, note),
      request.params.id,
      applicationId,
    );
    if (assigned.kind === "not_found") throw new ProblemError("not_found");
    if (assigned.kind === "unknown_application") {
      throw new ProblemError("invalid_field", [{ path: "applicationId", message: "there is no such one" }]);
    }
    const answer: AnswerOf<typeof assignedInbound> = {
      ...anywhereView(assigned.row),
      effect: assigned.effect,
    };
    response.json(answer);
  };

const anywhereView = (row: InboundRow): InboundAnywhere => ({
  ...inboundView(row),
  supplierId: row.supplier_id,
  channelId: row.channel_id,
  applicationId: row.application_id,
  matchedBy: row.matched_by,
});
