/** Messages of every application, and supplier events that contradict something or belong to nothing. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Database, Session } from "../../db/client.ts";
import {
  listAnomalies,
  listMessagesAnywhere,
  listUnmatched,
  type AnomalyRow,
  type ListedAnywhere,
  type SupplierEventRow,
} from "../../db/ops.ts";
import { messageIdOf } from "../../domain/ids.ts";
import { maskedNumber, maskedText } from "../../domain/mask.ts";
import type { AnswerOf } from "../answers.ts";
import { storable } from "../../domain/submission.ts";
import { listedView, messageQuery } from "../messages.ts";
import { numberField, pageOf, pageQuery, positionFields, readCursor, readQuery, rowsFor } from "../paging.ts";
import type { anomalies, messagesAnywhere, unmatched } from "./answers.ts";

type Anomaly = AnswerOf<typeof anomalies>["anomalies"][number];
type Receipt = AnswerOf<typeof unmatched>["receipts"][number];

export const messageAnywhereQuery = messageQuery.extend({
  application: storable.min(1).max(64).optional().describe("Only of this application"),
});

export const findMessagesAnywhere =
  (database: Database): RequestHandler =>
  async (request, response) => {
    const { application, cursor, limit, ...filter } = readQuery(request, messageAnywhereQuery);
    const position = readCursor(cursor, positionFields);
    const before = position && { at: position[0], id: position[1] };
    const rows = await listMessagesAnywhere(database, application, { ...filter, before }, rowsFor(limit));
    const view = (row: ListedAnywhere) => ({ ...listedView(masked(row)), applicationId: row.applicationId });
    const { views, nextCursor } = pageOf(rows, limit, view, (row) => [row.createdAt, row.id]);
    const answer: AnswerOf<typeof messagesAnywhere> = { messages: views, nextCursor };
    response.json(answer);
  };

/** Whoever operates sees whose message it is by its id; number and text are the customer's to read. */
const masked = (row: ListedAnywhere): ListedAnywhere => ({
  ...row,
  number: maskedNumber(row.number),
  text: maskedText(row.text),
});

export const eventQuery = z.strictObject(pageQuery);

export const showAnomalies =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { cursor, limit } = readQuery(request, eventQuery);
    const last = readCursor(cursor, numberField);
    const rows = await listAnomalies(session, last && BigInt(last[0]), rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, anomalyView, (row) => [row.id.toString()]);
    const answer: AnswerOf<typeof anomalies> = { anomalies: views, nextCursor };
    response.json(answer);
  };

const anomalyView = (row: AnomalyRow): Anomaly => ({
  id: `ano_${row.id}`,
  kind: row.kind,
  attemptId: row.attempt_id,
  messageId: row.attempt_id === null ? null : messageIdOf(row.attempt_id),
  detail: row.detail,
  at: row.created_at,
  event: row.event && eventView(row.event),
});

export const showUnmatched =
  (session: Session): RequestHandler =>
  async (request, response) => {
    const { cursor, limit } = readQuery(request, eventQuery);
    const last = readCursor(cursor, numberField);
    const rows = await listUnmatched(session, last && BigInt(last[0]), rowsFor(limit));
    const { views, nextCursor } = pageOf(rows, limit, unmatchedView, (row) => [row.id.toString()]);
    const answer: AnswerOf<typeof unmatched> = { receipts: views, nextCursor };
    response.json(answer);
  };

const unmatchedView = (row: SupplierEventRow): Receipt => ({
  ...eventView(row),
  tries: row.try_count,
  nextTryAt: row.next_try_at,
});

/** Inside of an anomaly the event comes as JSON, its number as digits. */
const eventView = (row: Omit<SupplierEventRow, "id"> & { id: bigint | string }) => ({
  id: `sev_${row.id}`,
  kind: row.kind,
  supplierId: row.supplier_id,
  msgId: row.msg_id,
  stat: row.stat,
  resultCode: row.result_code,
  number: row.number && maskedNumber(row.number),
  srcId: row.src_id,
  receivedAt: row.received_at,
  copies: row.copy_count,
});
