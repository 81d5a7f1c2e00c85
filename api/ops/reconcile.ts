/** Outbox, streams, pending entries and takes held against each other by submit id; repairs nothing (C6). */
import type { RequestHandler } from "express";
import type { Session } from "../../db/client.ts";
import { publishedButNotTaken } from "../../db/outbox.ts";
import { channelIds, commandFacts, differencesInRows } from "../../db/reconcile.ts";
import { DIFFERENCES, judgeEntry, type Difference } from "../../domain/reconcile.ts";
import type { StreamSurvey } from "../../gateway-bridge/streams.ts";
import { delay, errorName, type Log } from "../../workers/service.ts";
import type { AnswerOf } from "../answers.ts";
import { ProblemError } from "../problems.ts";
import type { reconciliation } from "./answers.ts";

/** Opened for one call and closed after it: the API has no business with Redis otherwise. */
export type OpenSurvey = () => Promise<StreamSurvey>;

const PAGE = 200;
const LISTED_AT_MOST = 1_000;
/** What is under way differs for a moment; what still differs after this long does not mend by itself. */
const CONFIRM_AFTER_MS = 1_000;

export const reconcile =
  (session: Session, open: OpenSurvey | undefined, log: Log): RequestHandler =>
  async (_request, response) => {
    if (open === undefined) throw new ProblemError("temporarily_unavailable");
    const survey = await open().catch((error: unknown) => {
      log.warn({ error: errorName(error) }, "no reconcile while Redis does not answer");
      throw new ProblemError("temporarily_unavailable");
    });
    try {
      const found = await lastingDifferences(session, survey);
      const listed = found.slice(0, LISTED_AT_MOST);
      const answer: AnswerOf<typeof reconciliation> = {
        differences: listed.map((each) => ({ ...each, what: DIFFERENCES[each.kind] })),
        truncated: found.length > listed.length,
      };
      response.json(answer);
    } finally {
      survey.close();
    }
  };

async function lastingDifferences(session: Session, survey: StreamSurvey): Promise<Difference[]> {
  const found = await differences(session, survey);
  if (found.length === 0) return found;
  await delay(CONFIRM_AFTER_MS);
  const lasting = new Set((await differences(session, survey)).map(nameOf));
  return found.filter((each) => lasting.has(nameOf(each)));
}

const nameOf = ({ kind, submitId, entryId }: Difference): string => `${kind} ${submitId} ${entryId}`;

async function differences(session: Session, survey: StreamSurvey): Promise<Difference[]> {
  const found = await differencesInRows(session, LISTED_AT_MOST + 1);
  for (const channelId of await channelIds(session)) {
    found.push(...(await differencesOnStream(session, survey, channelId)));
  }
  found.push(...(await lostEntries(session, survey)));
  return found;
}

async function differencesOnStream(
  session: Session,
  survey: StreamSurvey,
  channelId: string,
): Promise<Difference[]> {
  const found: Difference[] = [];
  let after: string | undefined;
  for (;;) {
    const entries = await survey.entries(channelId, after, PAGE);
    after = entries.at(-1)?.entryId;
    if (after === undefined) return found;
    const facts = await commandFacts(
      session,
      entries.map(({ submitId }) => submitId),
    );
    for (const entry of entries) {
      const kind = judgeEntry(channelId, entry, facts.get(entry.submitId));
      if (kind !== undefined) {
        found.push({ kind, submitId: entry.submitId, channelId, entryId: entry.entryId });
      }
    }
  }
}

/** What the sweeper would publish again: a part is not taken and no gateway will read its command (C4). */
async function lostEntries(session: Session, survey: StreamSurvey): Promise<Difference[]> {
  const found: Difference[] = [];
  let after: string | undefined = "";
  while (after !== undefined) {
    const page = await publishedButNotTaken(session, after, PAGE);
    const alive = await Promise.all(
      page.map(({ channelId, entryId }) => survey.entryIsAlive(channelId, entryId)),
    );
    const lost = page.filter((_, index) => alive[index] === false);
    found.push(...lost.map((each) => ({ kind: "published_but_entry_gone_and_not_taken" as const, ...each })));
    after = page.at(-1)?.submitId;
  }
  return found;
}
