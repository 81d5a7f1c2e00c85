/**
 * The outside witness: what suppliers read off the wire and sent, against what was asked for and what
 * became of it. C1 is read by rule C3: a write that was answered as throttled is no second submit. C2 is
 * read by rule D6.
 */
import type { Finding, MessageRow, Receipt, Requested, Submit } from "./evidence.ts";
import { grouped, submitsByToken, textOf } from "./wire.ts";

const THROTTLED = 8;
const DELIVERED = "DELIVRD";
/** States by which a supplier reports a failure (cmpp §7); anything else decides nothing. */
const FAILED = new Set(["UNDELIV", "EXPIRED", "REJECTD", "DELETED"]);

export interface WitnessEvidence {
  requests: readonly Requested[];
  submits: readonly Submit[];
  receipts: readonly Receipt[];
  /** As they are stored, by the generator's reference. */
  messages: ReadonlyMap<string, MessageRow>;
}

export function judgeWitness({ requests, submits, receipts, messages }: WitnessEvidence): Finding[] {
  const byToken = new Map(requests.map((it) => [it.token, it]));
  const { known, foreign } = submitsByToken(byToken, submits);
  const said = readReceipts(submits, receipts);
  const findings = foreign.map((it): Finding => invented(it, "a supplier read a text that nobody asked for"));
  const numbers = grouped(requests, (it) => it.to);
  for (const request of requests) {
    const written = known.get(request.token) ?? [];
    const message = messages.get(request.reference);
    findings.push(
      ...wrongContent(request, written),
      ...writtenTwice(request, written),
      ...writtenElsewhereTooSoon(request, written, said),
      ...(message === undefined
        ? written.slice(0, 1).map((it) => invented(it, "a text was written that is stored nowhere"))
        : contradicted(request, message, written, said, (numbers.get(request.to)?.length ?? 0) > 1)),
    );
  }
  return findings;
}

const invented = (submit: Submit, why: string): Finding => ({
  clause: "C4",
  verdict: "unexpected",
  subject: `${submit.supplier} ${submit.msgId}`,
  why,
});

/** To another number, or with other words, than was asked for. */
function wrongContent(request: Requested, written: readonly Submit[]): Finding[] {
  const findings: Finding[] = [];
  if (written.some((it) => it.to !== request.to)) {
    findings.push(unexpected("C4", request, "it was written to another number"));
  }
  for (const [supplier, here] of grouped(written, (it) => it.supplier)) {
    const parts = new Map(here.map((it) => [it.part, textOf(it)]));
    const inOrder = [...parts].sort(([a], [b]) => a - b).map(([, text]) => text);
    const whole = parts.size === (here[0]?.parts ?? 0);
    const joined = inOrder.join("");
    if (whole ? joined !== request.text : inOrder.some((text) => !request.text.includes(text))) {
      findings.push(unexpected("C4", request, `other words than asked for were written to ${supplier}`));
    }
  }
  return findings;
}

/** C1: nothing is written again but after the supplier's own answer that it was throttled. */
function writtenTwice(request: Requested, written: readonly Submit[]): Finding[] {
  const perPart = grouped(written, (it) => `${it.supplier} part ${it.part}`);
  return [...perPart].flatMap(([where, writes]) => {
    const unthrottled = writes.filter((it) => it.result !== THROTTLED);
    const last = writes.at(-1);
    const again = unthrottled.length > 1 || (unthrottled.length === 1 && last !== unthrottled[0]);
    return again ? [finding("C1", "duplicated", request, `${where} was written ${writes.length} times`)] : [];
  });
}

/** C2, outside view: another supplier gets it only once the first had refused it or failed with it. */
function writtenElsewhereTooSoon(request: Requested, written: readonly Submit[], said: Said): Finding[] {
  const suppliers = [...grouped(written, (it) => it.supplier)].sort(
    ([, a], [, b]) => firstAt(a) - firstAt(b),
  );
  return suppliers.flatMap(([supplier, before], index) => {
    const after = suppliers[index + 1];
    if (after === undefined) return [];
    const [next, writes] = after;
    const since = firstAt(writes);
    const failed = before.some(
      (it) =>
        isRejected(it) ||
        it.result === THROTTLED ||
        said(it).some(({ stat, at }) => FAILED.has(stat) && Date.parse(at) <= since),
    );
    return failed
      ? []
      : [finding("C2", "duplicated", request, `${next} got it while nothing had failed at ${supplier}`)];
  });
}

/** The final state against what the suppliers say of it. */
function contradicted(
  request: Requested,
  message: MessageRow,
  written: readonly Submit[],
  said: Said,
  sharesItsNumber: boolean,
): Finding[] {
  const everSaid = (stat: (it: string) => boolean): boolean =>
    written.some((it) => said(it).some((receipt) => stat(receipt.stat)));
  switch (message.status) {
    case "delivered":
      return deliveredBySome(request, written, said)
        ? []
        : [finding("witness", "lost", request, "called delivered, and no supplier delivered all of it")];
    case "undelivered":
      return everSaid((stat) => FAILED.has(stat))
        ? []
        : [unexpected("witness", request, "called undelivered, and no supplier said so")];
    case "failed":
      return written.some((it) => isRejected(it) || it.result === THROTTLED)
        ? []
        : [unexpected("witness", request, `called failed (${message.reason}), and no supplier rejected it`)];
    case "canceled":
      if (!request.cancelAsked) return [unexpected("witness", request, "canceled, and nobody asked for it")];
      return written.length === 0
        ? []
        : [finding("witness", "duplicated", request, "called canceled, and a supplier read it")];
    case "refused":
      return [unexpected("witness", request, `refused (${message.reason}), and nothing forbids it`)];
    case "expired":
      return expiredWithoutNeed(request, message, written, said, sharesItsNumber);
    default:
      return [];
  }
}

/** Nothing may expire whose supplier said how it ended, or that nobody ever tried to write. */
function expiredWithoutNeed(
  request: Requested,
  message: MessageRow,
  written: readonly Submit[],
  said: Said,
  sharesItsNumber: boolean,
): Finding[] {
  if (message.uncertain && (written.length === 0 || written.some((it) => it.result === null))) return [];
  if (written.length === 0) {
    return [unexpected("witness", request, "expired, was never written, and is not uncertain")];
  }
  // A receipt that names nothing is taken only where no answer named it either: it may help, and need not.
  const told = deliveredBySome(request, written, (it) => said(it, "named"));
  // With two texts to one number under way nobody can say which of them a receipt is for (D14).
  return told && !sharesItsNumber && written.every((it) => it.result === 0)
    ? [unexpected("witness", request, "expired, and a supplier had delivered all of it")]
    : [];
}

function deliveredBySome(request: Requested, written: readonly Submit[], said: Said): boolean {
  return [...grouped(written, (it) => it.supplier).values()].some((here) => {
    const delivered = here.filter((it) => said(it).some(({ stat }) => stat === DELIVERED));
    return new Set(delivered.map((it) => it.part)).size === request.parts;
  });
}

const isRejected = ({ result }: Submit): boolean => result !== null && result !== 0 && result !== THROTTLED;

/** The receipts that a supplier sent for a submit; `named`: those alone that name it by its own Msg_Id. */
type Said = (submit: Submit, which?: "named") => Receipt[];

/**
 * By the Msg_Id that the supplier gave it, also where its answer hid that or never came; and those under a
 * Msg_Id of nothing at all (fate 0213), which belong to a text by its number (D14).
 */
function readReceipts(submits: readonly Submit[], receipts: readonly Receipt[]): Said {
  const given = new Set(submits.map((it) => `${it.supplier} ${it.msgId}`));
  const byMsgId = grouped(receipts, (it) => `${it.supplier} ${it.msgId}`);
  const foreign = grouped(
    receipts.filter((it) => !given.has(`${it.supplier} ${it.msgId}`)),
    (it) => `${it.supplier} ${it.to}`,
  );
  return ({ supplier, msgId, to }, which) => [
    ...(byMsgId.get(`${supplier} ${msgId}`) ?? []),
    ...(which === "named" ? [] : (foreign.get(`${supplier} ${to}`) ?? [])),
  ];
}

const firstAt = (writes: readonly Submit[]): number => Math.min(...writes.map((it) => Date.parse(it.at)));

const finding = (
  clause: string,
  verdict: Finding["verdict"],
  { id, token }: Requested,
  why: string,
): Finding => ({ clause, verdict, subject: id ?? token, why });

const unexpected = (clause: string, request: Requested, why: string): Finding =>
  finding(clause, "unexpected", request, why);
