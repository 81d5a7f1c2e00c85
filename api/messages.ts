/** One message: submitted, looked up with its story, found in lists. */
import { randomBytes } from "node:crypto";
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Database, Session } from "../db/client.ts";
import { cancelMessage } from "../db/cancel.ts";
import { acceptMessages, type NewMessage, type Sender } from "../db/inbox.ts";
import { findTemplates } from "../db/intake-rules.ts";
import { listMessages, type ListedMessage } from "../db/queries.ts";
import { findMessage, type AttemptRow, type MessageFacts } from "../db/story.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { messageIdFrom, type MessageId } from "../domain/ids.ts";
import { MESSAGE_STATUSES } from "../domain/message.ts";
import {
  parseSubmission,
  recipient,
  reference,
  storable,
  templateIdsIn,
  type Parsed,
  type Submission,
} from "../domain/submission.ts";
import { unitsOf, type acceptedMessage, type AnswerOf, type listedMessage, type message } from "./answers.ts";
import { callerOf } from "./authentication.ts";
import { idempotencyKey, sendAccepted, sendFirstAnswerOrRefuse } from "./idempotency.ts";
import { moment, pageOf, pageQuery, positionFields, readCursor, readQuery, rowsFor } from "./paging.ts";
import { ProblemError } from "./problems.ts";
import { deliveryView } from "./webhooks.ts";
import { consideredOf, timelineOf, waitingFor } from "./timeline.ts";

/** Whether a webhook may go to an address, judged by how it is spelled. */
export type WebhookCheck = (url: string) => boolean;

export function submitMessage(session: Session, mayCall: WebhookCheck): RequestHandler {
  return async (request, response) => {
    const sender = callerOf(response);
    const templates = await findTemplates(session, sender.applicationId, templateIdsIn(request.body));
    const parsed = checkWebhook(parseSubmission(request.body, templates), mayCall);
    if (!parsed.ok) return sendFirstAnswerOrRefuse(session, sender, request, response, parsed);
    const { value } = parsed;
    const key = idempotencyKey(request, value.content);
    const id = newMessageId();
    const acceptance = {
      sender,
      messages: [newMessage(id, value)],
      ...(key === undefined ? {} : { key }),
      answer: acceptedView(id, value, sender),
    };
    const accepted = await atPoint("api_accept", () => acceptMessages(session, acceptance));
    sendAccepted(response, accepted);
  };
}

export const newMessageId = (): MessageId => messageIdFrom(Date.now(), randomBytes(10));

export const newMessage = (id: MessageId, { content, text, shape }: Submission): NewMessage => ({
  id,
  number: content.to,
  text,
  encoding: shape.encoding,
  segmentCount: shape.segmentCount,
  reference: content.reference,
  webhookUrl: content.webhookUrl,
  validitySeconds: content.validitySeconds,
});

/** All of the answer but its time, which is the database's. */
export const acceptedView = (
  id: MessageId,
  { content, shape }: Submission,
  sender: Sender,
): Omit<AnswerOf<typeof acceptedMessage>, "createdAt"> => ({
  id,
  status: "accepted",
  to: content.to,
  segments: shape.segmentCount,
  encoding: shape.encoding,
  price: { units: unitsOf(sender.unitPriceUnits * BigInt(shape.segmentCount)), currency: sender.currency },
  reference: content.reference ?? null,
});

export function checkWebhook(parsed: Parsed<Submission>, mayCall: WebhookCheck): Parsed<Submission> {
  if (!parsed.ok) return parsed;
  const { content } = parsed.value;
  if (content.webhookUrl === undefined || mayCall(content.webhookUrl)) return parsed;
  const errors = [{ path: "webhookUrl", message: "lies inside a network that webhooks may not reach" }];
  return { ok: false, code: "webhook_address_refused", errors, content };
}

export function showMessage(session: Session): RequestHandler<{ id: string }> {
  return async (request, response) => {
    const { id } = request.params;
    const { applicationId } = callerOf(response);
    const facts = MESSAGE_ID.test(id) ? await findMessage(session, applicationId, id) : undefined;
    if (facts === undefined) throw new ProblemError("not_found");
    response.json(storyOf(facts));
  };
}

/** Canceling twice answers alike; the second time nothing changes. */
export function cancelMessageOf(database: Database): RequestHandler<{ id: string }> {
  return async (request, response, next) => {
    const { id } = request.params;
    const { applicationId } = callerOf(response);
    const outcome = MESSAGE_ID.test(id)
      ? await atPoint("api_cancel", () => cancelMessage(database, applicationId, id))
      : "not_found";
    if (outcome !== "canceled") throw new ProblemError(outcome);
    return showMessage(database)(request, response, next);
  };
}

const MESSAGE_ID = /^msg_[0-9A-Z]{26}$/;

function storyOf(facts: MessageFacts): AnswerOf<typeof message> {
  const waiting = waitingFor(facts);
  const review = waiting === undefined ? null : facts.review_reason;
  const since = facts.review_since ?? facts.created_at;
  return {
    ...outline({ ...facts, priceUnits: BigInt(facts.price_units) }),
    batchId: facts.batch_id,
    createdAt: facts.created_at,
    finalAt: facts.final_at,
    expiresAt: facts.expires_at,
    ...(waiting === undefined ? {} : { waitingFor: waiting }),
    ...(review === null ? {} : { needsReview: { reason: review, since } }),
    attempts: facts.attempts.map((attempt) => attemptView(facts, attempt)),
    ledger: facts.transfers.map(({ id, kind, units, created_at }) => ({
      id: `led_${id}`,
      kind,
      units: unitsOf(BigInt(units)),
      currency: facts.currency,
      at: created_at,
    })),
    notifications: facts.notifications.map((notification) =>
      deliveryView({
        ...notification,
        tries: facts.tries.filter((each) => each.notification_id === notification.id),
      }),
    ),
    timeline: timelineOf(facts),
  };
}

type Outline = Pick<
  MessageFacts,
  "id" | "status" | "reason" | "uncertain" | "number" | "encoding" | "currency"
> &
  Pick<MessageFacts, "reference" | "text" | "segment_count"> & { priceUnits: bigint };

const outline = (row: Outline) => ({
  id: row.id,
  status: row.status,
  reason: row.reason,
  uncertain: row.uncertain,
  to: row.number,
  segments: row.segment_count,
  encoding: row.encoding,
  price: { units: unitsOf(row.priceUnits), currency: row.currency },
  reference: row.reference,
  text: row.text,
});

const attemptView = (
  facts: MessageFacts,
  attempt: AttemptRow,
): AnswerOf<typeof message>["attempts"][number] => ({
  id: attempt.id,
  number: attempt.number,
  retryOf: attempt.retry_of,
  state: attempt.state,
  channel: attempt.channel_id === null ? null : { id: attempt.channel_id, name: attempt.channel_name },
  considered: consideredOf(attempt.route),
  outcome: attempt.outcome,
  reason: attempt.reason,
  createdAt: attempt.created_at,
  queuedAt: attempt.queued_at,
  decidedAt: attempt.decided_at,
  segments: facts.segments
    .filter(({ attempt_id }) => attempt_id === attempt.id)
    .map((segment) => ({
      part: segment.part,
      writes: facts.takes.filter(
        (take) => take.attempt_id === attempt.id && take.part === segment.part && take.kind === "write",
      ).length,
      result: segment.result,
      resultCode: segment.result_code,
      resultAt: segment.result_at,
      receipt: segment.receipt,
      receiptStat: segment.receipt_stat,
      receiptAt: segment.receipt_at,
    })),
});

export const messageQuery = z.strictObject({
  reference: reference.optional(),
  to: recipient.optional(),
  status: z.enum(MESSAGE_STATUSES).optional(),
  batch: storable.max(64).optional(),
  since: moment.optional().describe("Created at this time or later"),
  until: moment.optional().describe("Created before this time"),
  ...pageQuery,
});

export function findMessages(database: Database): RequestHandler {
  return async (request, response) => {
    const { cursor, limit, ...filter } = readQuery(request, messageQuery);
    const position = readCursor(cursor, positionFields);
    const before = position && { at: position[0], id: position[1] };
    const { applicationId } = callerOf(response);
    const rows = await listMessages(database, applicationId, { ...filter, before }, rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, listedView, (row) => [row.createdAt, row.id]);
    response.json({ messages: views, nextCursor });
  };
}

export const listedView = (row: ListedMessage): AnswerOf<typeof listedMessage> => ({
  ...outline({
    ...row,
    encoding: row.encoding === "ascii" ? "ascii" : "ucs2",
    segment_count: row.segmentCount,
  }),
  batchId: row.batchId,
  createdAt: row.createdAt,
  finalAt: row.finalAt,
});
