/**
 * The rest of the checker list C1 to C11, over facts as plain SQL shows them: what the suppliers' and the
 * customer's logs can say is in witness.ts and webhooks.ts, what the ledger says in bank.ts.
 */
import type { Backlog, Facts, Finding, MessageRow, Requested, SegmentRow, Sighting } from "./evidence.ts";
import { grouped } from "./wire.ts";

export interface ChecklistEvidence {
  requests: readonly Requested[];
  facts: Facts;
  /** Taken while it ran. */
  sightings: readonly Sighting[];
}

export function judgeFacts({ requests, facts, sightings }: ChecklistEvidence): Finding[] {
  return [
    ...acceptedOnce(requests, facts),
    ...firstWrites(facts),
    ...successors(facts),
    ...silence(requests, facts),
    ...inventions(requests, facts),
    ...outcomes(requests, facts),
    ...goneBack(sightings, facts),
  ];
}

/** A1: one message for each that was asked for, and the id that was answered. */
function acceptedOnce(requests: readonly Requested[], { messages }: Facts): Finding[] {
  const stored = grouped(messages, (it) => it.reference ?? "");
  return requests.flatMap(({ reference, id, token }) => {
    const rows = stored.get(reference) ?? [];
    if (rows.length > 1) return [objection("A1", "duplicated", id ?? token, "accepted more than once")];
    if (id === undefined || rows[0]?.id === id) return [];
    return [objection("C3", "lost", id, "answered as accepted and stored nowhere")];
  });
}

/** C1 by C3: a write number is used once a part, and a further one only after "throttled". */
function firstWrites({ takes }: Facts): Finding[] {
  const perPart = grouped(takes, (it) => `${it.attemptId} ${it.part}`);
  return [...perPart].flatMap(([where, rows]) => {
    const inOrder = rows.toSorted((a, b) => a.writeNumber - b.writeNumber);
    const again = inOrder.find((it, index) => {
      const before = inOrder[index - 1];
      if (before === undefined) return it.writeNumber !== 1;
      return it.writeNumber !== before.writeNumber + 1 || before.answer !== "throttled";
    });
    return again === undefined
      ? []
      : [objection("C1", "duplicated", where, `write ${again.writeNumber} has no throttled one before it`)];
  });
}

/** C2 by D6: one successor at most, of an attempt that failed for certain, in numbered order. */
function successors({ attempts, segments, allowedByPerson }: Facts): Finding[] {
  const known = new Map(attempts.map((it) => [it.id, it]));
  const partsOf = grouped(segments, (it) => it.attemptId);
  const allowed = new Set(allowedByPerson);
  const findings: Finding[] = [];
  const replaced = grouped(
    attempts.filter((it) => it.retryOf !== null),
    (it) => it.retryOf ?? "",
  );
  for (const [id, next] of replaced) {
    const before = known.get(id);
    if (next.length > 1) findings.push(objection("C2", "duplicated", id, "has more than one successor"));
    if (before?.messageId !== next[0]?.messageId || before?.number !== (next[0]?.number ?? 0) - 1) {
      findings.push(objection("C2", "unexpected", id, "its successor is of another message or number"));
    }
    if (!allowed.has(id) && !failedForCertain(partsOf.get(id) ?? [])) {
      findings.push(objection("C2", "duplicated", id, "was replaced though it had not failed for certain"));
    }
  }
  for (const { id, number, retryOf } of attempts) {
    if ((number === 1) !== (retryOf === null)) {
      findings.push(objection("C2", "unexpected", id, "does not say which attempt it replaces"));
    }
  }
  return findings;
}

function failedForCertain(parts: readonly SegmentRow[]): boolean {
  const ended = parts.every(
    ({ result, receipt }) => result === "rejected" || result === "never_written" || receipt === "failed",
  );
  return ended && parts.some(({ result, receipt }) => result === "rejected" || receipt === "failed");
}

/** C3: final, or waiting for something that has a name and an end. */
function silence(requests: readonly Requested[], { messages, segments }: Facts): Finding[] {
  const ours = new Set(requests.map((it) => it.reference));
  const unknown = new Set(segments.filter((it) => it.result === "unknown").map((it) => it.attemptId));
  return messages
    .filter((it) => ours.has(it.reference ?? "") && !it.isFinal)
    .map(({ id, status, uncertain, withinLimit, currentAttemptId }) => {
      const isNamed = withinLimit && (uncertain || unknown.has(currentAttemptId));
      return isNamed
        ? objection("C3", "uncertain", id, "waits, until its limit, to learn whether it was written")
        : objection("C3", "lost", id, `still ${status}, and nothing says why`);
    });
}

/** C4: every row leads back to something that was asked for. */
function inventions(requests: readonly Requested[], facts: Facts): Finding[] {
  const ours = new Set(requests.map((it) => it.reference));
  const known = new Set(facts.messages.map((it) => it.id));
  const attempts = new Set(facts.attempts.map((it) => it.id));
  const of = (what: string, ids: readonly (string | null)[], where: ReadonlySet<string>): Finding[] =>
    ids
      .filter((id): id is string => id !== null && !where.has(id))
      .map((id) => objection("C4", "unexpected", id, `${what} of nothing that is stored`));
  return [
    ...facts.messages
      .filter((it) => !ours.has(it.reference ?? ""))
      .map(({ id }) => objection("C4", "unexpected", id, "a message that nobody asked for")),
    ...of(
      "an attempt",
      facts.attempts.map((it) => it.messageId),
      known,
    ),
    ...of(
      "a segment",
      facts.segments.map((it) => it.attemptId),
      attempts,
    ),
    ...of(
      "a take",
      facts.takes.map((it) => it.attemptId),
      attempts,
    ),
    ...of(
      "a transfer",
      facts.transfers.map((it) => it.messageId),
      known,
    ),
    ...of(
      "a notification",
      facts.notifications.map((it) => it.messageId),
      known,
    ),
  ];
}

/** A final message has its attempts decided, the last of them in the message's own words. */
function outcomes(requests: readonly Requested[], { messages, attempts }: Facts): Finding[] {
  const ours = new Set(requests.map((it) => it.reference));
  const perMessage = grouped(attempts, (it) => it.messageId);
  return messages
    .filter((it) => it.isFinal && ours.has(it.reference ?? ""))
    .flatMap((message) => {
      const own = perMessage.get(message.id) ?? [];
      const last = own.find((it) => it.id === message.currentAttemptId);
      const open = own.some((it) => it.state !== "decided");
      // A message can end before its first attempt is planned.
      const differs = last === undefined ? own.length > 0 : last.outcome !== message.status;
      return open || differs
        ? [objection("C3", "unexpected", message.id, "its attempts do not end as it does")]
        : [];
    });
}

const RANK: Readonly<Record<string, number>> = { accepted: 0, queued: 1, sent: 2 };
const FINAL_RANK = 3;
const rankOf = (status: string): number => RANK[status] ?? FINAL_RANK;

/** C6: no message leaves a final state or goes back. */
function goneBack(sightings: readonly Sighting[], { messages }: Facts): Finding[] {
  const last = new Map<string, string>();
  const findings: Finding[] = [];
  const ends = messages.map(({ id, status }): Sighting => ({ messageId: id, status }));
  for (const { messageId, status } of [...sightings, ...ends]) {
    const before = last.get(messageId);
    last.set(messageId, status);
    if (before === undefined || before === status) continue;
    if (rankOf(status) > rankOf(before)) continue;
    findings.push(objection("C6", "unexpected", messageId, `went from ${before} to ${status}`));
  }
  return findings;
}

/** C8: what the API tells of a message is what its rows hold. */
export interface ToldStory {
  id: string;
  status: string;
  finalAt: string | null;
  attempts: { id: string; segments: { part: number; result: string | null; receipt: string | null }[] }[];
  ledger: { kind: string; units: number | string }[];
  notifications: unknown[];
  timeline: { at: string; what: string }[];
  waitingFor?: unknown;
}

export function judgeStories(stories: readonly ToldStory[], facts: Facts): Finding[] {
  const messages = new Map(facts.messages.map((it) => [it.id, it]));
  const attempts = grouped(facts.attempts, (it) => it.messageId);
  const segments = grouped(facts.segments, (it) => it.attemptId);
  const transfers = grouped(facts.transfers, (it) => it.messageId ?? "");
  const notifications = grouped(facts.notifications, (it) => it.messageId);
  return stories.flatMap((story) => {
    const message = messages.get(story.id);
    const told = {
      status: story.status,
      attempts: story.attempts.map((it) => it.id),
      segments: story.attempts.flatMap((it) =>
        it.segments.map(({ part, result, receipt }) => `${it.id} ${part} ${result} ${receipt}`),
      ),
      ledger: story.ledger.map(({ kind, units }) => `${kind} ${units}`),
      notifications: story.notifications.length,
    };
    const own = (attempts.get(story.id) ?? []).toSorted((a, b) => a.number - b.number);
    const stored = {
      status: message?.status,
      attempts: own.map((it) => it.id),
      segments: own.flatMap((it) =>
        (segments.get(it.id) ?? [])
          .toSorted((a, b) => a.part - b.part)
          .map(({ part, result, receipt }) => `${it.id} ${part} ${result} ${receipt}`),
      ),
      ledger: (transfers.get(story.id) ?? []).map(({ kind, units }) => `${kind} ${units}`),
      notifications: (notifications.get(story.id) ?? []).length,
    };
    const findings: Finding[] = [];
    if (JSON.stringify(told) !== JSON.stringify(stored)) {
      findings.push(objection("C8", "unexpected", story.id, "is told otherwise than it is stored"));
    }
    if (!isExplained(story, message)) {
      findings.push(objection("C8", "unexpected", story.id, "its timeline does not explain where it is"));
    }
    return findings;
  });
}

/** In order, from the acceptance on, to the end or to what is waited for. */
function isExplained({ timeline, finalAt, waitingFor }: ToldStory, message: MessageRow | undefined): boolean {
  const times = timeline.map((it) => Date.parse(it.at));
  const inOrder = times.every((at, index) => index === 0 || at >= (times[index - 1] ?? 0));
  const hasEnd = message?.isFinal === true ? finalAt !== null : waitingFor !== undefined;
  return timeline.length > 0 && inOrder && hasEnd;
}

/** C9: nothing is left to do, and nobody was needed who could have been spared. */
export function judgeBacklog(backlog: Backlog): Finding[] {
  return Object.entries(backlog)
    .filter(([, count]) => count > 0)
    .map(([what, count]) =>
      objection("C9", "unexpected", what, `${count} left when all had had time to end`),
    );
}

/** C9, and D12: a fault that heals by itself sends nothing to a person. */
export const judgeReviews = (reviews: readonly { attemptId: string; reason: string }[]): Finding[] =>
  reviews.map(({ attemptId, reason }) =>
    objection("C9", "unexpected", attemptId, `was put before a person for ${reason}`),
  );

/** C10: no number and no text where only ids and codes belong. */
export function judgeLeaks(
  places: readonly { name: string; content: Buffer }[],
  numbers: ReadonlySet<string>,
  canary: string,
): Finding[] {
  return places.flatMap(({ name, content }) => {
    const text = content.toString("latin1");
    const number = text.match(/(?<!\d)1[3-9]\d{9}(?!\d)/g)?.find((it) => numbers.has(it));
    const findings: Finding[] = [];
    if (number !== undefined) findings.push(objection("C10", "unexpected", name, "holds a phone number"));
    if (text.includes(canary)) findings.push(objection("C10", "unexpected", name, "holds a text"));
    return findings;
  });
}

/** C11: what grew during the run is small again, or within what it was given. */
export const judgeBounds = (bounds: readonly { what: string; is: number; most: number }[]): Finding[] =>
  bounds
    .filter(({ is, most }) => is > most)
    .map(({ what, is, most }) => objection("C11", "unexpected", what, `${is} where at most ${most} may be`));

/** Lines that a server or a role must never write, whatever fails around it (D13, L5). */
export const judgeLogs = (lines: readonly { log: string; what: string }[]): Finding[] =>
  lines.map(({ log, what }) => objection("logs", "unexpected", log, what));

const objection = (clause: string, verdict: Finding["verdict"], subject: string, why: string): Finding => ({
  clause,
  verdict,
  subject,
  why,
});
