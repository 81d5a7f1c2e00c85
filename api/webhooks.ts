/** What the customer was told, how every try went, and telling it again. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Session } from "../db/client.ts";
import { replayNotification, replayNotifications } from "../db/notifications.ts";
import { listDeliveries, type DeliveryRow } from "../db/queries.ts";
import type { AnswerOf, replayed, replayedMany, webhooks } from "./answers.ts";
import { callerOf } from "./authentication.ts";
import { readBody } from "./body.ts";
import {
  encodeCursor,
  moment,
  pageOf,
  pageQuery,
  positionFields,
  readCursor,
  readQuery,
  rowsFor,
} from "./paging.ts";
import { ProblemError } from "./problems.ts";

type Delivery = AnswerOf<typeof webhooks>["deliveries"][number];

export const webhookQuery = z.strictObject(pageQuery);

export function listWebhooks(session: Session): RequestHandler {
  return async (request, response) => {
    const { cursor, limit } = readQuery(request, webhookQuery);
    const position = readCursor(cursor, positionFields);
    const before = position && { at: position[0], id: position[1] };
    const { applicationId } = callerOf(response);
    const rows = await listDeliveries(session, applicationId, before, rowsFor(limit));
    const view = (row: DeliveryRow): Delivery => ({
      ...(row.message_id === null ? {} : { messageId: row.message_id }),
      ...(row.inbound_id === null ? {} : { inboundId: row.inbound_id }),
      ...deliveryView(row),
    });
    const { views, nextCursor } = pageOf(rows, limit, view, (row) => [row.created_at, row.id]);
    response.json({ deliveries: views, nextCursor });
  };
}

export const deliveryView = (
  row: Omit<DeliveryRow, "message_id" | "inbound_id">,
): Omit<Delivery, "messageId" | "inboundId"> => ({
  id: row.id,
  url: row.url,
  status: row.status,
  createdAt: row.created_at,
  deliveredAt: row.delivered_at,
  nextTryAt: row.status === "pending" ? row.next_try_at : null,
  tries: row.tries.map((each) => ({
    number: each.try_number,
    at: each.at,
    httpStatus: each.http_status,
    error: each.error,
    durationMs: each.duration_ms,
  })),
});

/** Asking twice is fine: one that is still under way stays so. */
export function replayWebhook(session: Session): RequestHandler<{ id: string }> {
  return async (request, response) => {
    const { id } = request.params;
    const { applicationId } = callerOf(response);
    const found = NOTIFICATION_ID.test(id) && (await replayNotification(session, applicationId, id));
    if (found === false || found.kind === "not_found") throw new ProblemError("not_found");
    const answer: AnswerOf<typeof replayed> = { id, status: "pending" };
    response.status(202).json(answer);
  };
}

const REPLAYABLE = ["delivered", "parked", "disabled"] as const;
const REPLAYED_AT_ONCE = 500;
const REPLAYED_PER_CALL = 10_000;

export const replayBody = z
  .strictObject({
    since: moment.describe("Made at this time or later"),
    until: moment.describe("Made before this time"),
    status: z
      .array(z.enum(REPLAYABLE))
      .min(1)
      .default(["parked", "disabled"])
      .describe("Which of them; what is still under way stays so"),
    cursor: pageQuery.cursor,
  })
  .refine(({ since, until }) => Date.parse(since) < Date.parse(until), {
    path: ["until"],
    message: "must lie after since",
  });

/** In short transactions; where a call does not reach the end it says where the next one goes on. */
export function replayWebhooks(session: Session): RequestHandler {
  return async (request, response) => {
    const { cursor, ...range } = readBody(request, replayBody);
    const { applicationId } = callerOf(response);
    let after = readCursor(cursor, positionFields);
    let replayed = 0;
    let more = true;
    while (more && replayed < REPLAYED_PER_CALL) {
      const wanted = { ...range, after: after && { at: after[0], id: after[1] }, limit: REPLAYED_AT_ONCE };
      const page = await replayNotifications(session, applicationId, wanted);
      if (page.last !== undefined) after = [page.last.at, page.last.id];
      replayed += page.count;
      more = page.count === REPLAYED_AT_ONCE;
    }
    const answer: AnswerOf<typeof replayedMany> = {
      replayed,
      nextCursor: more && after !== undefined ? encodeCursor(after) : null,
    };
    response.status(202).json(answer);
  };
}

const NOTIFICATION_ID = /^evt_[0-9A-Z_]{26,40}$/;
