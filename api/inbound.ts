/** Texts that recipients sent to an application, newest first. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Session } from "../db/client.ts";
import { listInboundOf, type InboundRow } from "../db/inbound.ts";
import type { AnswerOf, inbound } from "./answers.ts";
import { callerOf } from "./authentication.ts";
import { pageOf, pageQuery, readCursor, readQuery, rowsFor } from "./paging.ts";

type InboundText = AnswerOf<typeof inbound>["inbound"][number];

export const inboundQuery = z.strictObject(pageQuery);

/** Ids sort by the time at which a text was whole, so the id alone is the position. */
export const inboundPosition = z.tuple([z.string().regex(/^inb_[0-9A-Z]{26}$/)]);

export function listInboundTexts(session: Session): RequestHandler {
  return async (request, response) => {
    const { cursor, limit } = readQuery(request, inboundQuery);
    const last = readCursor(cursor, inboundPosition);
    const { applicationId } = callerOf(response);
    const rows = await listInboundOf(session, applicationId, last?.[0], rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, inboundView, (row) => [row.id]);
    const answer: AnswerOf<typeof inbound> = { inbound: views, nextCursor };
    response.json(answer);
  };
}

export const inboundView = (row: InboundRow): InboundText => ({
  id: row.id,
  from: row.number,
  to: row.dest_id,
  text: row.text,
  ...(row.bytes === null ? {} : { contentHex: row.bytes.toString("hex") }),
  segments: row.part_count,
  complete: row.complete,
  ...(row.wish === null ? {} : { wish: row.wish }),
  receivedAt: row.received_at,
});
