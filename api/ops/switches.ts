/** What a person switches by hand beside channels: applications, filings, publication. */
import type { RequestHandler } from "express";
import type { Database, Session } from "../../db/client.ts";
import {
  readPublication,
  setPublication,
  switchApplication,
  switchFiling,
  type PublicationRow,
} from "../../db/ops-changes.ts";
import type { AnswerOf } from "../answers.ts";
import { ProblemError } from "../problems.ts";
import { authorOf, readBody } from "./access.ts";
import type { changedPublication, publication, switched } from "./answers.ts";
import { publicationBody, switchBody } from "./bodies.ts";

export const editApplication = (database: Database) => editSwitch(database, switchApplication);
export const editFiling = (database: Database) => editSwitch(database, switchFiling);

const editSwitch =
  (database: Database, change: typeof switchApplication): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { active, note } = readBody(request, switchBody);
    const changed = await change(database, authorOf(response, note), request.params.id, active);
    if (changed === undefined) throw new ProblemError("not_found");
    const answer: AnswerOf<typeof switched> = changed;
    response.json(answer);
  };

export const showPublication =
  (session: Session): RequestHandler =>
  async (_request, response) => {
    response.json(publicationView(await readPublication(session)));
  };

export const editPublication =
  (database: Database): RequestHandler =>
  async (request, response) => {
    const { mode, note } = readBody(request, publicationBody);
    const changed = await setPublication(database, authorOf(response, note), mode);
    const answer: AnswerOf<typeof changedPublication> = {
      ...publicationView(changed.publication),
      effect: changed.effect,
    };
    response.json(answer);
  };

const publicationView = (row: PublicationRow): AnswerOf<typeof publication> => ({
  mode: row.mode,
  changedBy: row.changed_by,
  changedAt: row.changed_at,
});
