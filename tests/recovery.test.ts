/** What a crash leaves between two steps is put right, and nothing is written twice (C3, C4, I). */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { statement } from "../db/client.ts";
import { writeDeploymentFact } from "../db/deployment-facts.ts";
import { COMMAND_VERSION } from "../domain/command.ts";
import { attemptIdOf, attemptWorkflowId, type MessageId } from "../domain/ids.ts";
import { commandStream, GATEWAY_GROUP } from "../gateway-bridge/streams.ts";
import { type Chain, startChain } from "./chain.ts";
import { servers, until } from "./servers.ts";

let chain: Chain;
let redis: Redis;
beforeAll(async () => {
  chain = await startChain({ responseTimeoutMs: 1_000 });
  redis = new Redis(servers.redisUrl());
});
afterAll(async () => {
  redis.disconnect();
  await chain.stop();
});

interface Row {
  submit_id: string;
  attempt_id: string;
  channel_id: string;
  stream_entry_id: string;
  payload: string;
  status: string;
}

const outboxRow = async (messageId: string): Promise<Row | undefined> =>
  (await chain.database.run(OUTBOX, [messageId]))[0];

/** A message whose command is on its stream while no gateway runs. */
async function publishedWithoutGateway(
  to: string,
  more: object = {},
): Promise<{ id: string; row: Row; stream: string }> {
  const id = await chain.send(to, "hello", more);
  const row = await until("the command is published", async () => {
    const found = await outboxRow(id);
    return found?.status === "published" && found;
  });
  return { id, row, stream: commandStream(chain.config.keyPrefix, row.channel_id) };
}

describe("with the gateway away", () => {
  beforeAll(async () => {
    await chain.stopGateway();
    await chain.pretendToBeConnected();
  });

  it("puts right whatever happened to the stream, and writes each command once", async () => {
    const trimmed = await publishedWithoutGateway("13000000001");
    const flushed = await publishedWithoutGateway("13000000002");
    const doubled = await publishedWithoutGateway("13000000003");
    const garbled = await publishedWithoutGateway("13000000004");
    const taken = await publishedWithoutGateway("13000000005", { validitySeconds: 12 });

    await redis.xdel(trimmed.stream, trimmed.row.stream_entry_id);
    // Published twice more, as a crash after XADD and before "published" leaves it (I).
    for (let i = 0; i < 2; i++) {
      await redis.xadd(
        doubled.stream,
        "*",
        "id",
        doubled.row.submit_id,
        "v",
        COMMAND_VERSION,
        "p",
        doubled.row.payload,
      );
    }
    await redis.xdel(garbled.stream, garbled.row.stream_entry_id);
    await redis.xadd(garbled.stream, "*", "id", garbled.row.submit_id, "v", "99", "p", garbled.row.payload);
    // A gateway committed the take and died: nobody knows whether a byte left.
    await chain.database.run(TAKEN_BY_THE_DEAD, [taken.row.submit_id, taken.row.attempt_id]);
    await redis.xgroup("DESTROY", flushed.stream, GATEWAY_GROUP);

    await chain.startGateway();

    for (const { id } of [trimmed, flushed, doubled]) {
      expect((await chain.untilFinal(id)).status).toBe("delivered");
    }
    for (const to of ["13000000001", "13000000002", "13000000003"]) {
      expect(await chain.witnessed(to), to).toHaveLength(1);
    }
    expect((await outboxRow(garbled.id))?.status).toBe("dead");
    expect(await chain.witnessed("13000000004")).toEqual([]);

    const unknown = await chain.untilStory(
      taken.id,
      "the outcome is unknown",
      (it) => it["uncertain"] === true,
    );
    expect(unknown.status).toBe("queued");
    expect((await chain.untilFinal(taken.id)).status).toBe("expired");
    expect(await chain.witnessed("13000000005")).toEqual([]);
  });
});

describe("with its workflow gone", () => {
  const workflowOf = (id: string) =>
    chain.temporal.client.workflow.getHandle(attemptWorkflowId(attemptIdOf(id as MessageId, 1)));

  it("an attempt that was terminated by hand is started again and settles by its facts", async () => {
    const id = await chain.send("13199990211");
    await chain.untilStory(id, "it is sent", (it) => it.status === "sent");
    await workflowOf(id).terminate("as a person might");
    const story = await chain.untilFinal(id);
    expect(story.status).toBe("delivered");
    expect(await chain.witnessed("13199990211")).toHaveLength(1);
  });

  it("every open attempt is rebuilt when Temporal's data is new", async () => {
    const id = await chain.send("13299990004", "hello", { validitySeconds: 12 });
    await chain.untilStory(id, "it is sent", (it) => it.status === "sent");
    const before = await workflowOf(id).describe();
    await workflowOf(id).terminate("as if the file were gone");
    await writeDeploymentFact(chain.database, "temporal_namespace_id", "another");
    await until("a new run of the same workflow", async () => {
      const now = await workflowOf(id).describe();
      return now.runId !== before.runId && now.status.name === "RUNNING";
    });
    expect((await chain.untilFinal(id)).status).toBe("expired");
    expect(await chain.witnessed("13299990004")).toHaveLength(1);
  });
});

it("after all of it the books balance (D5)", async () => {
  expect((await chain.books()).differences).toEqual([]);
});

const OUTBOX = statement<Row>(
  "test.outbox",
  `SELECT submit_id, attempt_id, channel_id, stream_entry_id, payload, status FROM submit_outbox WHERE message_id = $1`,
);

const TAKEN_BY_THE_DEAD = statement<Record<string, never>>(
  "test.taken_by_the_dead",
  `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner, slot, epoch, taken_at)
   VALUES ($1, 1, 1, 'write', $2, 'sup_1', 'gateway-dead', 0, 1, now() - interval '1 minute')`,
);
