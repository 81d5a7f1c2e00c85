/** The books, and money in. */
import type { RequestHandler } from "express";
import type { Database, Session } from "../../db/client.ts";
import { books as readBooks } from "../../db/ledger.ts";
import { topUpOnce } from "../../db/ops-changes.ts";
import { unitsOf, type AnswerOf } from "../answers.ts";
import { ProblemError } from "../problems.ts";
import { readBody } from "../body.ts";
import { authorOf } from "./access.ts";
import type { books, toppedUp } from "./answers.ts";
import { topUpBody } from "./bodies.ts";

export const showBooks =
  (session: Session): RequestHandler =>
  async (_request, response) => {
    const { balanced, accounts, reserved, charged, released, refunded, differences } =
      await readBooks(session);
    const answer: AnswerOf<typeof books> = {
      balanced,
      accounts,
      reserved: unitsOf(reserved),
      charged: unitsOf(charged),
      released: unitsOf(released),
      refunded: unitsOf(refunded),
      differences: differences.map(({ stored, summed, ...where }) => ({
        ...where,
        stored: unitsOf(stored),
        summed: unitsOf(summed),
      })),
    };
    response.json(answer);
  };

export const topUpAccount =
  (database: Database): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { key, units, note } = readBody(request, topUpBody);
    const author = authorOf(response, note);
    const done = await topUpOnce(database, author, request.params.id, { key, units: BigInt(units) });
    if (done.kind === "not_found") throw new ProblemError("not_found");
    if (done.kind === "key_reused") throw new ProblemError("idempotency_key_reused");
    const { account, effect } = done;
    const answer: AnswerOf<typeof toppedUp> = {
      accountId: account.id,
      key,
      units,
      balance: { units: unitsOf(account.balance_units), currency: account.currency },
      held: { units: unitsOf(account.held_units), currency: account.currency },
      effect,
    };
    response.json(answer);
  };
