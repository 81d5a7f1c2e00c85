/** What a person switches by hand beside channels: applications, filings, publication. */
import type { RequestHandler } from "express";
import type { z } from "zod";
import type { Author } from "../../db/audit.ts";
import type { Database, Session } from "../../db/client.ts";
import { switchApplication, switchFiling } from "../../db/ops-changes.ts";
import {
  readPublication,
  setApplicationPublication,
  setPublication,
  type PublicationChange,
  type PublicationRow,
  type PublicationState,
} from "../../db/publication.ts";
import type { AnswerOf } from "../answers.ts";
import { ProblemError } from "../problems.ts";
import { readBody } from "../body.ts";
import { authorOf } from "./access.ts";
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
    const { note, ...wanted } = readBody(request, publicationBody);
    const changed = await changePublication(database, authorOf(response, note), wanted);
    if (changed === undefined) throw new ProblemError("not_found");
    const answer: AnswerOf<typeof changedPublication> = {
      ...publicationView(changed.publication),
      effect: changed.effect,
    };
    response.json(answer);
  };

function changePublication(
  database: Database,
  author: Author,
  { mode, application }: Omit<z.output<typeof publicationBody>, "note">,
): Promise<PublicationChange | undefined> {
  if (application !== undefined) return setApplicationPublication(database, author, application, mode);
  // The schema lets only an application inherit.
  if (mode === "inherit") throw new TypeError("there is nothing to inherit from");
  return setPublication(database, author, mode);
}

const publicationView = ({ applications, ...all }: PublicationState): AnswerOf<typeof publication> => ({
  ...modeView(all),
  applications: applications.map((row) => ({ id: row.application_id, ...modeView(row) })),
});

const modeView = (row: PublicationRow) => ({
  mode: row.mode,
  changedBy: row.changed_by,
  changedAt: row.changed_at,
});
