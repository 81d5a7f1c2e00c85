/** What the command streams still hold for the gateway, counted by Redis itself (L1). */
import { GATEWAY_GROUP, commandStream, openProducer } from "../gateway-bridge/streams.ts";

export interface StreamsLeft {
  /** Entries that no gateway has read. */
  undelivered: number;
  /** Read, and not acknowledged. */
  pending: number;
}

/** The prefix that roles use when none is set (workers/config.ts). */
const KEY_PREFIX = "waybill:";

export async function readStreams(url: string, channelIds: readonly string[]): Promise<StreamsLeft> {
  const redis = openProducer(url);
  try {
    await new Promise<void>((resolve) => redis.once("ready", () => resolve()));
    const left = { undelivered: 0, pending: 0 };
    for (const channelId of channelIds) {
      const stream = commandStream(KEY_PREFIX, channelId);
      const groups = ((await redis.xinfo("GROUPS", stream).catch(() => [])) as unknown[][]).map(asRecord);
      const group = groups.find((it) => it["name"] === GATEWAY_GROUP);
      const after = group === undefined ? "0-0" : String(group["last-delivered-id"]);
      left.undelivered += (await redis.xrange(stream, `(${after}`, "+")).length;
      left.pending += Number(group?.["pending"] ?? 0);
    }
    return left;
  } finally {
    redis.disconnect();
  }
}

function asRecord(flat: unknown[]): Record<string, unknown> {
  const pairs = Array.from({ length: flat.length / 2 }, (_, index) => [flat[index * 2], flat[index * 2 + 1]]);
  return Object.fromEntries(pairs) as Record<string, unknown>;
}
