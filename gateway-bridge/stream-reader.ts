/**
 * Reads the command streams of one supplier into its queue: new entries, and those that a dead process
 * left pending. Redis may lose everything at any time; the group is made again and the sweeper brings
 * back what was not taken (C4, C6).
 */
import type { Redis } from "ioredis";
import type { Database } from "../db/client.ts";
import { markDead } from "../db/outbox.ts";
import { parseCommand } from "../domain/command.ts";
import { delay, errorName, type Log, type Loop, loop } from "../workers/service.ts";
import { type CommandInHand, firstWrites } from "./commands.ts";
import type { SupplierLink } from "./slots.ts";
import { commandStream, ENTRY_FIELDS, GATEWAY_GROUP } from "./streams.ts";

interface Deps {
  link: SupplierLink;
  database: Database;
  reader: Redis;
  writer: Redis;
  prefix: string;
  consumer: string;
  log: Log;
}

type Entry = [id: string, fields: string[]];

const BLOCK_MS = 1_000;
const READ_DEADLINE_MS = BLOCK_MS + 2_000;
/** Commands read and not written yet, a connection's window ahead at most. */
const READ_AHEAD = 32;
const CLAIM_EVERY_MS = 1_000;
/** Pending for so long with nobody to work on it: its reader is gone. */
const CLAIM_IDLE_MS = 3_000;

export function createStreamReader(deps: Deps): Loop {
  const streams = deps.link.channelIds.map((id) => commandStream(deps.prefix, id));
  let claimedAt = 0;
  return loop({
    name: `commands_${deps.link.supplier.id}`,
    log: deps.log,
    // Reading blocks by itself; this is for when there is no connection, or no room.
    pause: (signal) => delay(20, signal),
    async turn() {
      const room = READ_AHEAD - deps.link.queue.length;
      if (streams.length === 0 || deps.link.lanes.size === 0 || room <= 0) return { did: 0, full: false };
      if (Date.now() - claimedAt >= CLAIM_EVERY_MS) {
        claimedAt = Date.now();
        for (const stream of streams) await take(deps, stream, await claimAbandoned(deps, stream, room));
      }
      const read = await readNew(deps, streams, room);
      for (const [stream, entries] of read) await take(deps, stream, entries);
      const did = read.reduce((sum, [, entries]) => sum + entries.length, 0);
      return { did, full: did > 0 };
    },
  });
}

async function readNew(deps: Deps, streams: string[], count: number): Promise<[string, Entry[]][]> {
  const call = deps.reader.xreadgroup(
    "GROUP",
    GATEWAY_GROUP,
    deps.consumer,
    "COUNT",
    count,
    "BLOCK",
    BLOCK_MS,
    "STREAMS",
    ...streams,
    ...streams.map(() => ">"),
  ) as Promise<[string, Entry[]][] | null>;
  try {
    return (await withDeadline(deps.reader, call)) ?? [];
  } catch (error) {
    if (!isMissingGroup(error)) throw error;
    for (const stream of streams) await makeGroup(deps.writer, stream);
    return [];
  }
}

/** From the beginning of the stream, so that nothing which is there is skipped. */
async function makeGroup(writer: Redis, stream: string): Promise<void> {
  await writer.xgroup("CREATE", stream, GATEWAY_GROUP, "0", "MKSTREAM").catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith("BUSYGROUP"))) throw error;
  });
}

async function claimAbandoned(deps: Deps, stream: string, count: number): Promise<Entry[]> {
  try {
    const [, entries] = (await deps.writer.xautoclaim(
      stream,
      GATEWAY_GROUP,
      deps.consumer,
      CLAIM_IDLE_MS,
      "0",
      "COUNT",
      count,
    )) as [string, (Entry | null)[]];
    return entries.filter((entry) => entry !== null);
  } catch (error) {
    if (!isMissingGroup(error)) throw error;
    await makeGroup(deps.writer, stream);
    return [];
  }
}

async function take(deps: Deps, stream: string, entries: readonly Entry[]): Promise<void> {
  for (const [entryId, flat] of entries) {
    const fields = fieldsOf(flat);
    const submitId = fields.get(ENTRY_FIELDS.submitId) ?? "";
    const acknowledge = (): void => {
      deps.link.inHand.delete(submitId);
      deps.writer
        .pipeline()
        .xack(stream, GATEWAY_GROUP, entryId)
        .xdel(stream, entryId)
        .exec()
        .catch(() => undefined);
    };
    // One command under two entries is one piece of work; the second entry's reader finds it done.
    if (deps.link.inHand.has(submitId)) continue;
    const parsed = parseCommand(
      Number(fields.get(ENTRY_FIELDS.version)),
      fields.get(ENTRY_FIELDS.payload) ?? "",
    );
    if (!parsed.ok || parsed.command.submitId !== submitId) {
      const why = parsed.ok ? "malformed_payload" : parsed.why;
      deps.log.error({ submitId, why }, "a command cannot be understood and is dead");
      await markDead(deps.database, submitId, why);
      acknowledge();
      continue;
    }
    const hand: CommandInHand = {
      command: parsed.command,
      openParts: new Set(parsed.command.parts.map((_, index) => index + 1)),
      acknowledge,
    };
    deps.link.inHand.set(submitId, hand);
    deps.link.queue.offer(firstWrites(hand));
  }
}

function fieldsOf(flat: readonly string[]): Map<string, string> {
  const fields = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) fields.set(flat[i] ?? "", flat[i + 1] ?? "");
  return fields;
}

const isMissingGroup = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith("NOGROUP");

/** A blocking read on a half-open connection never settles: the socket is thrown away instead. */
async function withDeadline<T>(reader: Redis, call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reader.disconnect(true);
      reject(new Error("a blocking read did not come back"));
    }, READ_DEADLINE_MS);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
    call.catch((error: unknown) => errorName(error));
  }
}
