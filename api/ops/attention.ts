/** What waits for a person, and what people did: alerts, reviews, the audit trail. */
import type { RequestHandler } from "express";
import { z } from "zod";
import { listAudit, type AuditRow } from "../../db/audit.ts";
import type { Database, Session } from "../../db/client.ts";
import { listReviews, type ReviewRow } from "../../db/ops.ts";
import { clearAlert, listAlerts, type AlertRow } from "../../db/ops-changes.ts";
import type { Resolution } from "../../domain/steps.ts";
import type { AnswerOf } from "../answers.ts";
import { numberField, pageOf, pageQuery, positionFields, readCursor, readQuery, rowsFor } from "../paging.ts";
import { ProblemError } from "../problems.ts";
import { readBody } from "../body.ts";
import { authorOf } from "./access.ts";
import type { alerts, auditTrail, clearedAlert, resolved, reviews } from "./answers.ts";
import { noteBody, resolutionBody } from "./bodies.ts";

type Alert = AnswerOf<typeof alerts>["alerts"][number];

export const alertQuery = z.strictObject({
  state: z.enum(["open", "cleared", "all"]).default("open"),
  ...pageQuery,
});

export const showAlerts =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { state, cursor, limit } = readQuery(request, alertQuery);
    const last = readCursor(cursor, numberField);
    const rows = await listAlerts(session, state, last && BigInt(last[0]), rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, alertView, (row) => [row.id.toString()]);
    const answer: AnswerOf<typeof alerts> = { alerts: views, nextCursor };
    response.json(answer);
  };

export const clearOneAlert =
  (database: Database): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { note } = readBody(request, noteBody);
    const subject = request.params.id;
    const id = ALERT_ID.exec(subject)?.[1];
    const author = authorOf(response, note);
    const done =
      id === undefined ? undefined : await clearAlert(database, author, { id: BigInt(id), subject });
    if (done === undefined) throw new ProblemError("not_found");
    const answer: AnswerOf<typeof clearedAlert> = { ...alertView(done.alert), effect: done.effect };
    response.json(answer);
  };

const ALERT_ID = /^alr_(\d{1,18})$/;

const alertView = (row: AlertRow): Alert => ({
  id: `alr_${row.id}`,
  kind: row.kind,
  subject: row.subject,
  detail: row.detail,
  raisedAt: row.raised_at,
  clearedAt: row.cleared_at,
  clearedBy: row.cleared_by,
});

export const reviewQuery = z.strictObject(pageQuery);

export const showReviews =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { cursor, limit } = readQuery(request, reviewQuery);
    const last = readCursor(cursor, positionFields);
    const after = last && { since: last[0], attemptId: last[1] };
    const rows = await listReviews(session, after, rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, reviewView, (row) => [row.since, row.attempt_id]);
    const answer: AnswerOf<typeof reviews> = { reviews: views, nextCursor };
    response.json(answer);
  };

const reviewView = (row: ReviewRow): AnswerOf<typeof reviews>["reviews"][number] => ({
  attemptId: row.attempt_id,
  messageId: row.message_id,
  applicationId: row.application_id,
  reason: row.reason,
  since: row.since,
  channelId: row.channel_id,
  status: row.status,
  uncertain: row.uncertain,
  expiresAt: row.expires_at,
});

/** Tells the attempt's workflow, and answers what came of it, also "none, and why" (D12). */
export type ResolveReview = (attemptId: string, resolution: Resolution) => Promise<{ effect: string }>;

export const resolveOneReview =
  (resolve: ResolveReview | undefined): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { action, note } = readBody(request, resolutionBody);
    const attemptId = request.params.id;
    if (!ATTEMPT_ID.test(attemptId)) throw new ProblemError("not_found");
    if (resolve === undefined) throw new ProblemError("temporarily_unavailable");
    const by = authorOf(response, note).actor;
    const { effect } = await resolve(attemptId, { action, note, by });
    const answer: AnswerOf<typeof resolved> = { attemptId, effect };
    response.json(answer);
  };

const ATTEMPT_ID = /^att_[0-9A-Z]{26}_\d{1,6}$/;

export const auditQuery = z.strictObject({
  subject: z.string().min(1).max(128).optional().describe("Id of what was changed"),
  ...pageQuery,
});

export const showAudit =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { subject, cursor, limit } = readQuery(request, auditQuery);
    const last = readCursor(cursor, numberField);
    const rows = await listAudit(session, subject, last && BigInt(last[0]), rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, auditView, (row) => [row.id.toString()]);
    const answer: AnswerOf<typeof auditTrail> = { entries: views, nextCursor };
    response.json(answer);
  };

const auditView = ({ id, ...row }: AuditRow): AnswerOf<typeof auditTrail>["entries"][number] => ({
  id: `aud_${id}`,
  ...row,
});
