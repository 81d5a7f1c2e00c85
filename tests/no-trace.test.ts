/**
 * A number and a text that nothing else has go through the chain in every way that a message can, and
 * afterwards nothing that is kept, logged, counted or handed on holds them (issue: data life).
 */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attemptIdOf, attemptWorkflowId, type MessageId } from "../domain/ids.ts";
import { dumpOf, sightings } from "./canary.ts";
import { type Chain, startChain } from "./chain.ts";
import { servers, until } from "./servers.ts";

const CHINESE = "紫杉犀牛漫步月台";
const ASCII = "zebra-quartz-lantern";
/** China Mobile; the last eight choose a fate (interfaces §6). */
const NUMBERS = {
  delivered: "13557142863",
  undelivered: "13699990001",
  rejected: "13699990101",
  retriedElsewhere: "13699990502",
  receiptFirst: "13699990201",
  ofNothing: "13699990213",
  refused: "19257142863",
} as const;
const PATIENCE_MS = 90_000;
const WORDS = [...Object.values(NUMBERS), CHINESE, ASCII];

let chain: Chain;
let redis: Redis;
const logged: string[] = [];
const ids: string[] = [];

beforeAll(async () => {
  const note = (fields: object, what: string): void => void logged.push(`${what} ${JSON.stringify(fields)}`);
  chain = await startChain({ log: { info: note, warn: note, error: note } });
  redis = new Redis(servers.redisUrl());
  for (const [fate, to] of Object.entries(NUMBERS)) {
    const text = fate === "delivered" ? `${CHINESE}${ASCII}`.repeat(8) : fate === "refused" ? ASCII : CHINESE;
    ids.push(await chain.send(to, text));
  }
  // A webhook that fails, a key that is used again, and requests that are refused.
  await chain.send(NUMBERS.delivered, ASCII, { webhookUrl: "http://127.0.0.1:1/refuses" });
  await chain.call("POST", "/v1/messages", { to: `${NUMBERS.delivered}0`, text: CHINESE });
  await chain.call("POST", "/v1/messages", { to: NUMBERS.delivered, text: CHINESE, more: ASCII });
  await chain.call("GET", `/v1/messages?to=${NUMBERS.delivered}`);
  const ending = ids.filter((_, at) => at !== Object.keys(NUMBERS).indexOf("ofNothing"));
  await Promise.all(ending.map((id) => chain.untilFinal(id, PATIENCE_MS)));
  await Promise.all(ending.map((id) => chain.untilWebhook(id)));
  await until("the gateway acknowledged everything", async () =>
    (await streams()).every((it) => it.length === 0),
  );
});
afterAll(async () => {
  redis.disconnect();
  await chain.stop();
});

/** What is left of the command streams, each as its entries. */
const streams = async (): Promise<unknown[][]> => {
  const keys = await redis.keys(`${chain.config.keyPrefix}commands:*`);
  return Promise.all(keys.map((key) => redis.xrange(key, "-", "+")));
};

describe("a number and a text leave no trace", () => {
  it("in PostgreSQL, in any table", async () => {
    expect(sightings("PostgreSQL", await dumpOf(chain.database), WORDS)).toEqual([]);
  });

  it("in Redis, in any key", async () => {
    const keys = await redis.keys(`${chain.config.keyPrefix}*`);
    expect(keys).not.toEqual([]);
    for (const key of keys) {
      const dump = (await redis.dumpBuffer(key)) ?? Buffer.alloc(0);
      expect(sightings(key, Buffer.concat([Buffer.from(key), dump]), WORDS)).toEqual([]);
    }
  });

  it("in Temporal, in any attempt's history", async () => {
    let events = 0;
    for (const id of ids) {
      for (const number of [1, 2]) {
        const workflow = chain.temporal.client.workflow.getHandle(
          attemptWorkflowId(attemptIdOf(id as MessageId, number)),
        );
        const history = await workflow.fetchHistory().catch(() => undefined);
        if (history === undefined) continue;
        events += history.events?.length ?? 0;
        // Payloads are bytes: as they are, and as JSON would show them.
        const bytes = JSON.stringify(history, (_, value: unknown) =>
          value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
        );
        expect(sightings(id, bytes, WORDS)).toEqual([]);
      }
    }
    expect(events).toBeGreaterThan(20);
  });

  it("in what the roles log, or count", async () => {
    expect(sightings("log", logged.join("\n"), WORDS)).toEqual([]);
    expect(sightings("metrics", await chain.metricsText(), WORDS)).toEqual([]);
  });

  it("and the customer still reads both", async () => {
    expect(await chain.story(ids[0] ?? "")).toMatchObject({ to: NUMBERS.delivered });
    const listed = await chain.call("GET", `/ops/v1/messages?to=${NUMBERS.delivered}`);
    expect(sightings("operators", JSON.stringify(listed.body), WORDS)).toEqual([]);
    expect(JSON.stringify(listed.body)).toContain("135****2863");
  });
});
