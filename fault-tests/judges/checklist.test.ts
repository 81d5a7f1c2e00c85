import { describe, expect, it } from "vitest";
import {
  judgeBacklog,
  judgeBounds,
  judgeFacts,
  judgeLeaks,
  judgeLogs,
  judgeReviews,
  judgeStories,
  type ToldStory,
} from "./checklist.ts";
import { classify } from "./classes.ts";
import { facts, message, request } from "./doctored.ts";
import type { AttemptRow, Facts, Finding, Requested, Sighting } from "./evidence.ts";

const judge = (
  doctored: Partial<Facts> = {},
  more: { requests?: Requested[]; sightings?: Sighting[] } = {},
): string[] =>
  judgeFacts({
    requests: more.requests ?? [request()],
    facts: facts(doctored),
    sightings: more.sightings ?? [],
  }).map(said);

const said = ({ clause, verdict }: Finding): string => `${clause} ${verdict}`;

const [first] = facts().attempts as [AttemptRow];
const failedFirst: AttemptRow = { ...first, outcome: "undelivered" };
const successor: AttemptRow = { ...first, id: "att_1_2", number: 2, retryOf: "att_1_1", submitId: "sub_1_2" };
const retried = (parts: Facts["segments"]): Partial<Facts> => ({
  messages: [message({ currentAttemptId: "att_1_2" })],
  attempts: [failedFirst, successor],
  segments: parts,
});
const part = (number: number, result: string | null, receipt: string | null): Facts["segments"][0] => ({
  attemptId: "att_1_1",
  part: number,
  result,
  receipt,
});

describe("the checklist has nothing against", () => {
  it("a text that was delivered", () => {
    expect(judge()).toEqual([]);
  });

  it("a retry after every part had ended and one had failed (D6)", () => {
    expect(judge(retried([part(1, "rejected", null), part(2, "never_written", null)]))).toEqual([]);
    expect(judge(retried([part(1, "accepted", "failed"), part(2, "unknown", "failed")]))).toEqual([]);
  });

  it("a retry that a person allowed", () => {
    expect(judge({ ...retried([part(1, "unknown", null)]), allowedByPerson: ["att_1_1"] })).toEqual([]);
  });

  it("a write after a throttled one", () => {
    const write = { attemptId: "att_1_1", part: 1, kind: "write" };
    const takes = [
      { ...write, writeNumber: 1, answer: "throttled" },
      { ...write, writeNumber: 2, answer: "accepted" },
    ];
    expect(judge({ takes })).toEqual([]);
  });
});

describe("the checklist objects to", () => {
  it("a key that was accepted twice (A1)", () => {
    const twice = [message(), message({ id: "msg_2" })];
    expect(judge({ messages: twice }, { requests: [request()] })).toContain("A1 duplicated");
  });

  it("an answer that is stored nowhere (C3)", () => {
    expect(judge({}, { requests: [request(), request({ reference: "ref-7-2", id: "msg_9" })] })).toEqual([
      "C3 lost",
    ]);
  });

  it("a further write without a throttle answer, and a number that was left out (C1)", () => {
    const write = { attemptId: "att_1_1", part: 1, kind: "write" };
    const again = [1, 2].map((writeNumber) => ({ ...write, writeNumber, answer: "unknown" }));
    expect(judge({ takes: again })).toEqual(["C1 duplicated"]);
    expect(judge({ takes: [{ ...write, writeNumber: 2, answer: "accepted" }] })).toEqual(["C1 duplicated"]);
  });

  it("a successor of what was unknown, delivered, waiting, or never written at all (C2)", () => {
    for (const parts of [
      [part(1, "unknown", null)],
      [part(1, "rejected", null), part(2, "accepted", "delivered")],
      [part(1, "rejected", null), part(2, "accepted", null)],
      [part(1, "never_written", null)],
    ]) {
      expect(judge(retried(parts))).toEqual(["C2 duplicated"]);
    }
  });

  it("two successors, and one of another message (C2)", () => {
    const rejected = [part(1, "rejected", null)];
    const other = { ...successor, id: "att_1_3", number: 3 };
    const two = { ...retried(rejected), attempts: [failedFirst, successor, other] };
    expect(judge(two)).toContain("C2 duplicated");
    const stray = { ...retried(rejected), attempts: [failedFirst, { ...successor, number: 5 }] };
    expect(judge(stray)).toEqual(["C2 unexpected"]);
  });

  it("a later attempt that does not say which one it replaces (C2)", () => {
    const silent = {
      ...retried([part(1, "rejected", null)]),
      attempts: [failedFirst, { ...successor, retryOf: null }],
    };
    expect(judge(silent)).toEqual(["C2 unexpected"]);
  });

  it("silence: a text that is not final, where nothing says why (C3)", () => {
    const waits = message({ status: "sent", isFinal: false });
    expect(judge({ messages: [waits] })).toEqual(["C3 lost"]);
    expect(judge({ messages: [{ ...waits, uncertain: true, withinLimit: false }] })).toEqual(["C3 lost"]);
    expect(judge({ messages: [{ ...waits, uncertain: true }] })).toEqual(["C3 uncertain"]);
  });

  it("whatever leads back to nothing (C4)", () => {
    const invented = message({ id: "msg_2", reference: "other" });
    expect(judge({ messages: [message(), invented] })).toEqual(["C4 unexpected"]);
    for (const doctored of [
      { attempts: [...facts().attempts, { ...first, id: "att_9_1", messageId: "msg_9" }] },
      { segments: [...facts().segments, { ...part(1, null, null), attemptId: "att_9_1" }] },
      {
        takes: [
          ...facts().takes,
          { attemptId: "att_9_1", part: 1, writeNumber: 1, kind: "write", answer: null },
        ],
      },
      { transfers: [{ key: "k", kind: "charge", accountId: "acc_1", messageId: "msg_9", units: 1n }] },
      { notifications: [{ id: "evt_9", messageId: "msg_9", status: "delivered" }] },
    ]) {
      expect(judge(doctored)).toEqual(["C4 unexpected"]);
    }
  });

  it("a message that ends otherwise than its last attempt, or before it (C3)", () => {
    expect(judge({ attempts: [{ ...first, outcome: "failed" }] })).toEqual(["C3 unexpected"]);
    expect(judge({ attempts: [{ ...first, state: "queued" }] })).toEqual(["C3 unexpected"]);
  });

  it("a state that goes back, or leaves a final one (C6)", () => {
    const seen = (...statuses: string[]) => statuses.map((status) => ({ messageId: "msg_1", status }));
    expect(judge({}, { sightings: seen("accepted", "queued", "sent") })).toEqual([]);
    expect(judge({}, { sightings: seen("sent", "queued") })).toEqual(["C6 unexpected"]);
    expect(judge({}, { sightings: seen("failed") })).toEqual(["C6 unexpected"]);
  });

  it("a story that is told otherwise than it is stored, or does not explain itself (C8)", () => {
    const story: ToldStory = {
      id: "msg_1",
      status: "delivered",
      finalAt: "2026-01-01T00:00:03Z",
      attempts: [
        {
          id: "att_1_1",
          segments: [1, 2].map((it) => ({ part: it, result: "accepted", receipt: "delivered" })),
        },
      ],
      ledger: [
        { kind: "reserve", units: 650 },
        { kind: "charge", units: "650" },
      ],
      notifications: [{}],
      timeline: [
        { at: "2026-01-01T00:00:01Z", what: "accepted" },
        { at: "2026-01-01T00:00:03Z", what: "delivered" },
      ],
    };
    const against = (told: Partial<ToldStory>) => judgeStories([{ ...story, ...told }], facts()).map(said);
    expect(against({})).toEqual([]);
    expect(against({ status: "failed" })).toEqual(["C8 unexpected"]);
    expect(against({ attempts: [] })).toEqual(["C8 unexpected"]);
    expect(against({ ledger: [] })).toEqual(["C8 unexpected"]);
    expect(against({ notifications: [] })).toEqual(["C8 unexpected"]);
    expect(against({ timeline: story.timeline.toReversed() })).toEqual(["C8 unexpected"]);
    expect(against({ timeline: [] })).toEqual(["C8 unexpected"]);
    expect(against({ finalAt: null })).toEqual(["C8 unexpected"]);
  });

  it("work that is left when all had time to end, and a person who was called (C9)", () => {
    expect(judgeBacklog({ "inbox rows": 0 })).toEqual([]);
    expect(judgeBacklog({ "inbox rows": 2 }).map(said)).toEqual(["C9 unexpected"]);
    expect(judgeReviews([{ attemptId: "att_1_1", reason: "reserve:57014" }]).map(said)).toEqual([
      "C9 unexpected",
    ]);
  });

  it("a number or a text where only ids belong (C10)", () => {
    const against = (text: string) =>
      judgeLeaks([{ name: "api.log", content: Buffer.from(text) }], new Set(["13800000001"]), "canary").map(
        said,
      );
    expect(against('{"attemptId":"att_1"} 13800000002 x138000000011')).toEqual([]);
    expect(against("failed for 13800000001")).toEqual(["C10 unexpected"]);
    expect(against("a canary sings")).toEqual(["C10 unexpected"]);
  });

  it("what grew and did not shrink (C11), and lines that no fault explains", () => {
    expect(judgeBounds([{ what: "connections", is: 80, most: 80 }])).toEqual([]);
    expect(judgeBounds([{ what: "connections", is: 81, most: 80 }]).map(said)).toEqual(["C11 unexpected"]);
    expect(judgeLogs([{ log: "postgres.log", what: "23505" }]).map(said)).toEqual(["logs unexpected"]);
  });
});

describe("the classes", () => {
  const finding = (verdict: Finding["verdict"], subject: string): Finding => ({
    clause: "C",
    verdict,
    subject,
    why: "",
  });
  const stored = (...rows: ReturnType<typeof message>[]) =>
    new Map(rows.map((it) => [it.reference ?? "", it]));

  it("count each accepted text once, by the worst that was found", () => {
    const found = [finding("unexpected", "msg_1"), finding("lost", "msg_1"), finding("uncertain", "7-1")];
    expect(classify([request()], stored(message()), [], found)).toMatchObject({
      accepted: 1,
      ok: 0,
      lost: 1,
      unexpected: 0,
    });
  });

  it("count what nobody answered and yet came to its end, and what was unknown for a while, as recovered", () => {
    const unanswered = request({ id: undefined });
    expect(classify([unanswered], stored(message()), [], [])).toMatchObject({ accepted: 1, recovered: 1 });
    const take = { attemptId: "att_1_1", part: 1, writeNumber: 1, kind: "write", answer: "unknown" };
    expect(classify([request()], stored(message()), [take], [])).toMatchObject({ accepted: 1, recovered: 1 });
  });

  it("leave out what nobody answered and nothing stored", () => {
    expect(classify([request({ id: undefined })], stored(), [], [])).toMatchObject({ accepted: 0, ok: 0 });
  });

  it("count what expired without anybody knowing as uncertain", () => {
    const expired = message({ status: "expired", uncertain: true });
    expect(classify([request()], stored(expired), [], [])).toMatchObject({ accepted: 1, uncertain: 1 });
  });

  it("count objections that are about no accepted text by themselves", () => {
    expect(classify([request()], stored(message()), [], [finding("unexpected", "api.log")])).toMatchObject({
      accepted: 1,
      ok: 1,
      unexpected: 1,
    });
  });
});
