/** What no rule may decide waits for a person, whose every word has an effect or says why not (D12, C7). */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { statement } from "../db/client.ts";
import { attemptIdOf, attemptWorkflowId, type MessageId } from "../domain/ids.ts";
import { commandStream } from "../gateway-bridge/streams.ts";
import { type Chain, startChain, type Story } from "./chain.ts";
import { servers, until } from "./servers.ts";

let chain: Chain;
beforeAll(async () => {
  chain = await startChain({ responseTimeoutMs: 500, tries: 4 });
});
afterAll(() => chain.stop());

const attemptOf = (id: string) => attemptIdOf(id as MessageId, 1);
const workflowOf = (id: string) => chain.temporal.client.workflow.getHandle(attemptWorkflowId(attemptOf(id)));
const say = (id: string, action: string) =>
  workflowOf(id).signal("resolve", { action, note: "seen", by: "ann" });
const kinds = (story: Story) => (story["ledger"] as { kind: string }[]).map((it) => it.kind);

const untilReview = (id: string, reason: string): Promise<Story> =>
  chain.untilStory(
    id,
    `${id} needs a person`,
    (it) => (it["needsReview"] as { reason?: string })?.reason === reason,
  );

const untilSaid = (id: string, effect: string): Promise<unknown> =>
  until(`somebody wrote down "${effect}"`, async () =>
    (await chain.audit(attemptOf(id))).some((it) => it.includes(effect)),
  );

/** The attempts that Temporal lists as needing a person; its list follows a little later. */
const listed = (id: string, reason: string | undefined) =>
  until(`${id} is listed with ${reason}`, async () => {
    const { searchAttributes } = await workflowOf(id).describe();
    return searchAttributes["WaybillNeedsReview"]?.[0] === reason || undefined;
  });

/** A message whose outcome has been unknown for longer than five minutes. */
async function unknownForLong(to: string): Promise<string> {
  const id = await chain.send(to);
  await chain.untilStory(id, "its outcome is unknown", (it) => it["uncertain"] === true);
  await chain.database.run(AGE, [attemptOf(id)]);
  await untilReview(id, "outcome_unknown");
  return id;
}

describe("an outcome that stays unknown", () => {
  it("is listed, and a person's word ends it as failed: released, never sent again", async () => {
    const id = await unknownForLong("13099990203");
    await listed(id, "outcome_unknown");
    await say(id, "mark_failed");
    const story = await chain.untilFinal(id);
    expect(story).toMatchObject({ status: "failed", reason: "resolved_by_a_person" });
    expect(kinds(story)).toEqual(["reserve", "release"]);
    expect(await chain.witnessed("13099990203")).toHaveLength(1);
    await listed(id, undefined);
  });

  it("is charged when a person knows that it was delivered, and says so by the operators' API", async () => {
    const id = await unknownForLong("13199990203");
    const resolve = (action: string) =>
      chain.call("POST", `/ops/v1/reviews/${attemptOf(id)}/resolve`, { action, note: "the customer called" });
    expect((await resolve("mark_delivered")).body).toMatchObject({ effect: "the message is delivered" });
    expect((await resolve("mark_failed")).body).toMatchObject({ effect: expect.stringMatching(/^none: /) });
    const story = await chain.untilFinal(id);
    expect(story.status).toBe("delivered");
    expect(kinds(story)).toEqual(["reserve", "charge"]);
  });

  it("is sent again only when a person accepts that it may arrive twice (D6)", async () => {
    const id = await unknownForLong("13299990203");
    await say(id, "allow_new_attempt");
    const story = await chain.untilStory(id, "a second attempt", (it) => it.attempts.length === 2);
    expect(story.attempts[0]?.outcome).toBe("failed");
    await until("it was written again", async () => (await chain.witnessed("13299990203")).length === 2);
  });

  it("is left alone when a person says to wait, and by words that mean nothing", async () => {
    const id = await unknownForLong("13499990203");
    await say(id, "explode");
    await untilSaid(id, "none: the action is not one of");
    await say(id, "wait");
    await untilSaid(id, "it waits on");
    await listed(id, undefined);
    await say(id, "mark_failed");
    await untilSaid(id, "none: the attempt is not in review");
    const status = await workflowOf(id).query<{ lastResolution: { effect: string } }>("status");
    expect(status.lastResolution.effect).toBe("none: the attempt is not in review");
    expect((await chain.story(id)).status).toBe("queued");
  });
});

describe("a command that cannot be understood", () => {
  it("waits with its reservation, and is revived under the same submit id (C7)", async () => {
    const redis = new Redis(servers.redisUrl());
    await chain.stopGateway();
    await chain.pretendToBeConnected();
    const id = await chain.send("13599990000");
    const row = await until("the command is published", async () => {
      const [found] = await chain.database.run(OUTBOX, [id]);
      return found !== undefined && found.stream_entry_id !== null && found;
    });
    const stream = commandStream(chain.config.keyPrefix, row.channel_id);
    await redis.xdel(stream, String(row.stream_entry_id));
    await redis.xadd(stream, "*", "id", row.submit_id, "v", "1", "p", "{not json");
    redis.disconnect();
    await chain.startGateway();

    const story = await untilReview(id, "command_dead");
    expect(kinds(story)).toEqual(["reserve"]);
    await say(id, "retry_step");
    expect((await chain.untilFinal(id)).status).toBe("delivered");
    expect(await chain.witnessed("13599990000")).toHaveLength(1);
  });
});

describe("a step that keeps failing", () => {
  it("waits for a person after its tries, and goes on when the fault is gone", async () => {
    await chain.database.run(BREAK);
    const id = await chain.send("13699990000");
    const story = await untilReview(id, "reserve:42P01");
    expect(story).toMatchObject({ status: "accepted", attempts: [], ledger: [] });
    await chain.database.run(MEND);
    await say(id, "retry_step");
    expect((await chain.untilFinal(id)).status).toBe("delivered");
  });

  it("does not outlive the message's own limit (D7)", async () => {
    await chain.database.run(BREAK);
    const id = await chain.send("13799990000", "hello", { validitySeconds: 12 });
    await untilReview(id, "reserve:42P01");
    await chain.database.run(MEND);
    expect((await chain.untilFinal(id)).status).toBe("expired");
  });
});

describe("cancel", () => {
  it("takes back what no supplier has seen, once, and releases its price (C3)", async () => {
    await chain.stopGateway();
    await chain.pretendToBeConnected();
    const id = await chain.send("13899990000");
    await chain.untilStory(id, "it is queued", (it) => it.status === "queued");
    const answers = await Promise.all([1, 2].map(() => chain.call("POST", `/v1/messages/${id}/cancel`)));
    expect(answers.map((it) => it.status)).toEqual([200, 200]);
    await chain.startGateway();
    const story = await chain.story(id);
    expect(story).toMatchObject({ status: "canceled", reason: "canceled_by_customer" });
    expect(kinds(story)).toEqual(["reserve", "release"]);
    expect(await workflowOf(id).result()).toMatchObject({ kind: "final", status: "canceled" });
    expect(await chain.witnessed("13899990000")).toEqual([]);
    await chain.untilWebhook(id);
  });

  it("is too late once a part was written", async () => {
    const id = await chain.send("13999990004");
    await chain.untilStory(id, "it is sent", (it) => it.status === "sent");
    const answer = await chain.call("POST", `/v1/messages/${id}/cancel`);
    expect(answer).toMatchObject({ status: 409, body: { code: "already_sent" } });
    expect((await chain.story(id)).status).toBe("sent");
  });
});

const AGE = statement<Record<string, never>>(
  "test.age",
  `UPDATE segments SET result_at = result_at - interval '10 minutes' WHERE attempt_id = $1`,
);
const OUTBOX = statement<{ submit_id: string; channel_id: string; stream_entry_id: string | null }>(
  "test.review_outbox",
  `SELECT submit_id, channel_id, stream_entry_id FROM submit_outbox WHERE message_id = $1`,
);
const BREAK = statement<Record<string, never>>("test.break", `ALTER TABLE number_prefixes RENAME TO mislaid`);
const MEND = statement<Record<string, never>>("test.mend", `ALTER TABLE mislaid RENAME TO number_prefixes`);
