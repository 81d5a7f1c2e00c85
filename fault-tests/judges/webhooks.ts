/** The customer's own log: told of every final state, once in substance, and of nothing else (C7, E1). */
import type { Finding, MessageRow, NotificationRow, Requested, Told } from "./evidence.ts";
import { grouped } from "./wire.ts";

export interface WebhookEvidence {
  requests: readonly Requested[];
  messages: readonly MessageRow[];
  notifications: readonly NotificationRow[];
  told: readonly Told[];
}

interface Body {
  type: string;
  data: { id: string; to: string; status: string; reference: string | null };
}

export function judgeWebhooks({ requests, messages, notifications, told }: WebhookEvidence): Finding[] {
  const read = told.map((it) => ({ ...it, content: contentOf(it.body) }));
  const unreadable = read.filter((it) => it.content === undefined || !it.signatureHolds);
  const byMessage = grouped(
    read.filter((it) => it.signatureHolds),
    (it) => it.content?.data.id ?? "",
  );
  const byReference = new Map(requests.map((it) => [it.reference, it]));
  const known = new Map(messages.map((it) => [it.id, it]));
  const rows = grouped(notifications, (it) => it.messageId);
  return [
    ...unreadable.map(({ webhookId }): Finding => objection(webhookId, "unexpected", "not signed by us")),
    ...[...byMessage].flatMap(([id, calls]) => {
      const message = known.get(id);
      const request = byReference.get(message?.reference ?? "");
      if (message === undefined || request === undefined) {
        return [{ ...objection(id, "unexpected", "told of a message that nobody asked for"), clause: "C4" }];
      }
      return aboutCalls(message, request, calls);
    }),
    ...messages
      .filter((it) => it.isFinal && byReference.has(it.reference ?? ""))
      .flatMap((it) => aboutRows(it, rows.get(it.id) ?? [], byMessage.get(it.id) ?? [])),
  ];
}

function aboutCalls(
  { id, status, isFinal }: MessageRow,
  { to }: Requested,
  calls: readonly (Told & { content: Body | undefined })[],
): Finding[] {
  const findings: Finding[] = [];
  if (!isFinal) findings.push(objection(id, "unexpected", "told of an end that has not come"));
  if (new Set(calls.map((it) => it.webhookId)).size > 1) {
    findings.push(objection(id, "duplicated", "told under more than one id"));
  }
  if (new Set(calls.map((it) => it.body)).size > 1) {
    findings.push({ ...objection(id, "unexpected", "told two different things"), clause: "C6" });
  }
  for (const { content } of calls) {
    if (content === undefined) continue;
    const { data, type } = content;
    if (data.status !== status || type !== `message.${status}` || data.to !== to) {
      findings.push(objection(id, "unexpected", `told ${data.status} of a message that is ${status}`));
      break;
    }
  }
  return findings;
}

function aboutRows({ id }: MessageRow, rows: readonly NotificationRow[], calls: readonly Told[]): Finding[] {
  if (rows.length !== 1) {
    return [objection(id, "unexpected", `has ${rows.length} notifications instead of one`)];
  }
  const heard = calls.some((it) => it.answered >= 200 && it.answered < 300);
  if (!heard) return [objection(id, "lost", "its end was never told")];
  return rows[0]?.status === "delivered"
    ? []
    : [objection(id, "unexpected", `told, and its notification is still ${rows[0]?.status}`)];
}

function contentOf(body: string): Body | undefined {
  try {
    const content = JSON.parse(body) as Partial<Body>;
    return typeof content.type === "string" && typeof content.data?.id === "string"
      ? (content as Body)
      : undefined;
  } catch {
    return undefined;
  }
}

const objection = (subject: string, verdict: Finding["verdict"], why: string): Finding => ({
  clause: "C7",
  verdict,
  subject,
  why,
});
