/** Each text that was accepted, in one class, worst first; what belongs to none of them counts by itself. */
import type { Finding, MessageRow, Requested, TakeRow, Verdict } from "./evidence.ts";

export interface Classes {
  /** Answered as accepted, or found to be. */
  accepted: number;
  ok: number;
  lost: number;
  duplicated: number;
  /** Nobody had answered, or for a while nobody knew whether it was written; it ended as it should. */
  recovered: number;
  /** Ended, or waits for its end, without anybody knowing whether it was written. */
  uncertain: number;
  unexpected: number;
}

const WORST_FIRST: readonly Verdict[] = ["lost", "duplicated", "unexpected", "uncertain"];

export function classify(
  requests: readonly Requested[],
  messages: ReadonlyMap<string, MessageRow>,
  takes: readonly TakeRow[],
  findings: readonly Finding[],
): Classes {
  const classes: Classes = {
    accepted: 0,
    ok: 0,
    lost: 0,
    duplicated: 0,
    recovered: 0,
    uncertain: 0,
    unexpected: 0,
  };
  const verdicts = new Map<string, Set<Verdict>>();
  for (const { subject, verdict } of findings) {
    verdicts.set(subject, (verdicts.get(subject) ?? new Set()).add(verdict));
  }
  const unknownOnce = new Set(takes.filter((it) => it.answer === "unknown").map((it) => it.attemptId));
  const used = new Set<string>();
  for (const request of requests) {
    const message = messages.get(request.reference);
    const subjects = [request.token, request.id, message?.id].filter((it) => it !== undefined);
    const own = new Set(subjects.flatMap((it) => [...(verdicts.get(it) ?? [])]));
    for (const it of subjects) used.add(it);
    const worst = WORST_FIRST.find((it) => own.has(it));
    if (request.id === undefined && message === undefined && worst === undefined) continue;
    classes.accepted++;
    if (worst !== undefined) classes[worst]++;
    else if (message?.status === "expired" && message.uncertain) classes.uncertain++;
    else if (request.id === undefined || unknownOnce.has(message?.currentAttemptId ?? ""))
      classes.recovered++;
    else classes.ok++;
  }
  for (const [subject, own] of verdicts) {
    const worst = used.has(subject) ? undefined : WORST_FIRST.find((it) => own.has(it));
    if (worst !== undefined) classes[worst]++;
  }
  return classes;
}
