/** How the whole of it stands: what a first page shows. */
import type { RequestHandler } from "express";
import type { Session } from "../../db/client.ts";
import { RATE_WINDOW_SECONDS, readOverview } from "../../db/overview.ts";
import type { AnswerOf } from "../answers.ts";
import type { overview } from "./answers.ts";

export const showOverview =
  (session: Session): RequestHandler =>
  async (_request, response) => {
    const row = await readOverview(session, Date.now());
    const answer: AnswerOf<typeof overview> = {
      asOf: row.as_of,
      publication: row.mode,
      intake: row.intake,
      outbox: row.outbox,
      deadCommands: row.dead,
      unansweredWrites: row.unanswered,
      unfoldedEvents: row.events,
      unmatchedReceipts: row.unmatched,
      dueDecisions: row.decisions,
      webhooks: { ...row.webhooks, pausedHosts: row.paused_hosts },
      reviews: row.reviews,
      alerts: row.alerts,
      rates: {
        overSeconds: RATE_WINDOW_SECONDS,
        acceptedPerSecond: perSecond(row.accepted),
        answersPerSecond: perSecond(row.answers),
        receiptsPerSecond: perSecond(row.receipts),
      },
      suppliers: row.suppliers,
      lastErrors: row.errors,
    };
    response.json(answer);
  };

const perSecond = (count: number): number => Math.round((count / RATE_WINDOW_SECONDS) * 100) / 100;
