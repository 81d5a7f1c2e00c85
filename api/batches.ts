/** Many messages in one request: each accepted or refused by itself, all of it answered once. */
import { randomBytes } from "node:crypto";
import type { RequestHandler } from "express";
import type { Session } from "../db/client.ts";
import { acceptMessages, type NewMessage } from "../db/inbox.ts";
import { findTemplates } from "../db/intake-rules.ts";
import { findBatch, type BatchProgress } from "../db/queries.ts";
import { batchIdFrom } from "../domain/ids.ts";
import { FINAL_STATUSES, MESSAGE_STATUSES } from "../domain/message.ts";
import { parseBatch, templateIdsIn } from "../domain/submission.ts";
import type { acceptedBatch, AnswerOf, batch as batchShape } from "./answers.ts";
import { callerOf, type SubmissionRate } from "./authentication.ts";
import { idempotencyKey, sendAccepted, sendFirstAnswerOrRefuse } from "./idempotency.ts";
import { acceptedView, checkWebhook, newMessage, newMessageId, type WebhookCheck } from "./messages.ts";
import { problemOf, ProblemError } from "./problems.ts";

type Item = AnswerOf<typeof acceptedBatch>["items"][number];

export function submitBatch(session: Session, rate: SubmissionRate, mayCall: WebhookCheck): RequestHandler {
  return async (request, response) => {
    const sender = callerOf(response);
    const templates = await findTemplates(session, sender.applicationId, templateIdsIn(request.body));
    const parsed = parseBatch(request.body, templates);
    if (!parsed.ok) return sendFirstAnswerOrRefuse(session, sender, request, response, parsed);
    const { items, contents, allowDuplicates } = parsed.value;
    const key = idempotencyKey(request, { contents, allowDuplicates });
    rate.spend(sender, items.length - 1);

    // Ids in the order of the items: messages of one moment are listed by id.
    const ids = items.map(newMessageId).sort();
    const messages: NewMessage[] = [];
    const results = items.map((item, index): Item => {
      const checked = checkWebhook(item, mayCall);
      const id = ids[index];
      if (!checked.ok) return { problem: problemOf(checked.code, checked.errors) };
      if (id === undefined) throw new Error("an item without an id");
      messages.push(newMessage(id, checked.value));
      return acceptedView(id, checked.value, sender);
    });

    const id = batchIdFrom(Date.now(), randomBytes(10));
    const accepted = await acceptMessages(session, {
      sender,
      messages,
      batch: { id, itemCount: items.length },
      ...(key === undefined ? {} : { key }),
      answer: { id, items: results },
    });
    sendAccepted(response, accepted);
  };
}

export function showBatch(session: Session): RequestHandler<{ id: string }> {
  return async (request, response) => {
    const { id } = request.params;
    const { applicationId } = callerOf(response);
    const found = BATCH_ID.test(id) ? await findBatch(session, applicationId, id) : undefined;
    if (found === undefined) throw new ProblemError("not_found");
    response.json(progressView(found));
  };
}

const BATCH_ID = /^bat_[0-9A-Z]{26}$/;

function progressView(batch: BatchProgress): AnswerOf<typeof batchShape> {
  const countOf = (names: readonly (keyof BatchProgress["counts"])[]): number =>
    names.reduce((sum, name) => sum + (batch.counts[name] ?? 0), 0);
  return {
    id: batch.id,
    items: batch.item_count,
    refusedAtSubmission: batch.item_count - countOf(MESSAGE_STATUSES),
    final: countOf(FINAL_STATUSES),
    counts: Object.fromEntries(MESSAGE_STATUSES.map((name) => [name, countOf([name])])) as AnswerOf<
      typeof batchShape
    >["counts"],
    createdAt: batch.created_at,
    asOf: batch.as_of,
  };
}
