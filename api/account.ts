/** The application's account: what is there, what is held, and every movement. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Session } from "../db/client.ts";
import { findAccount, listTransfers, type LedgerRow } from "../db/queries.ts";
import { unitsOf, type account, type AnswerOf, type ledger } from "./answers.ts";
import { callerOf } from "./authentication.ts";
import { numberField, pageOf, pageQuery, readCursor, readQuery, rowsFor } from "./paging.ts";

export function showAccount(session: Session): RequestHandler {
  return async (_request, response) => {
    const row = await findAccount(session, callerOf(response).accountId);
    const answer: AnswerOf<typeof account> = {
      id: row.id,
      balance: { units: unitsOf(row.balance_units), currency: row.currency },
      held: { units: unitsOf(row.held_units), currency: row.currency },
    };
    response.json(answer);
  };
}

export const ledgerQuery = z.strictObject(pageQuery);

export function showLedger(session: Session): RequestHandler {
  return async (request, response) => {
    const { cursor, limit } = readQuery(request, ledgerQuery);
    const last = readCursor(cursor, numberField);
    const { accountId, currency } = callerOf(response);
    const rows = await listTransfers(session, accountId, last && BigInt(last[0]), rowsFor(limit));
    const view = (row: LedgerRow): AnswerOf<typeof ledger>["entries"][number] => entryView(row, currency);
    const { views, nextCursor } = pageOf(rows, limit, view, (row) => [row.id.toString()]);
    response.json({ entries: views, nextCursor });
  };
}

const entryView = (row: LedgerRow, currency: string): AnswerOf<typeof ledger>["entries"][number] => ({
  id: `led_${row.id}`,
  kind: row.kind,
  messageId: row.message_id,
  from: row.debit_pot,
  to: row.credit_pot,
  units: unitsOf(row.units),
  currency,
  at: row.created_at,
});
