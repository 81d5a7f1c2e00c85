/**
 * Reads the command streams of one supplier into its queue: new entries, and those that a dead process
 * left pending. Redis may lose everything at any time; the group is made again and the sweeper brings
 * back what was not taken (C4, C6).
 */
import type { Redis } from "ioredis";
import type { Database } from "../db/client.ts";
import { markDead } from "../db/outbox.ts";
import { openCommand } from "../db/sealed-command.ts";
import type { ParsedCommand } from "../domain/command.ts";
import { atPoint, reach } from "../fault-points/at-point.ts";
import { delay, errorName, type Log, type Loop, loop } from "../workers/service.ts";
import { type CommandInHand, firstWrites, type StreamEntry } from "./command-queue.ts";
import { commandStream, ENTRY_FIELDS, GATEWAY_GROUP } from "./streams.ts";
import type { SupplierLink } from "./supplier-link.ts";

interface ReaderDeps {
  link: SupplierLink;
  database: Database;
  reader: Redis;
  writer: Redis;
  prefix: string;
  consumer: string;
  log: Log;
}

interface Deps extends ReaderDeps {
  acknowledge: (entries: StreamEntry[]) => void;
}

type Entry = [id: string, fields: string[]];

const BLOCK_MS = 500;
const READ_DEADLINE_MS = BLOCK_MS + 2_000;
/** Commands read and not written yet: what the windows take at once, and not less than this. */
const LEAST_READ_AHEAD = 32;
const PAUSE_MS = 20;
const CLAIM_EVERY_MS = 500;
/** Pending for so long with nobody to say that it is in hand: its reader is gone. */
const CLAIM_IDLE_MS = 2_500;

export function createStreamReader(given: ReaderDeps): Loop {
  const deps: Deps = { ...given, acknowledge: createAcknowledger(given) };
  /** Where claiming goes on in each stream: entries in hand cannot hide abandoned ones behind them. */
  const cursors = new Map<string, string>();
  let claimedAt = 0;
  return loop({
    name: `commands_${deps.link.id}`,
    log: deps.log,
    // Reading blocks by itself, and wakes for each entry: those that come meanwhile are taken in one commit.
    // It is also for when there is no connection, or no room.
    pause: (signal) => delay(PAUSE_MS, signal),
    async turn() {
      const { link } = deps;
      const streams = link.channelIds.map((id) => commandStream(deps.prefix, id));
      // Whoever can write has them; what is in hand of one who cannot goes to another process.
      if (streams.length === 0 || !link.canWrite) return { did: 0, full: false };
      if (Date.now() - claimedAt >= CLAIM_EVERY_MS) {
        claimedAt = Date.now();
        await keepInHand(deps);
        for (const stream of streams) await claimAbandoned(deps, stream, cursors);
      }
      const room = roomIn(link);
      if (room <= 0) return { did: 0, full: false };
      const read = await readNew(deps, streams, room);
      for (const [stream, entries] of read) await take(deps, stream, entries);
      const did = read.reduce((sum, [, entries]) => sum + entries.length, 0);
      return { did, full: did >= room };
    },
  });
}

function roomIn({ lanes, supplier, queue }: SupplierLink): number {
  const windows = lanes.size * (supplier?.profile.window ?? 0);
  return Math.max(LEAST_READ_AHEAD, windows) - queue.length;
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

/** Says that what is in hand is not abandoned, however long it waits for its turn or its answer. */
async function keepInHand(deps: Deps): Promise<void> {
  const byStream = new Map<string, string[]>();
  for (const { entries } of deps.link.inHand.values()) {
    for (const { stream, id } of entries) {
      const ids = byStream.get(stream);
      if (ids === undefined) byStream.set(stream, [id]);
      else ids.push(id);
    }
  }
  for (const [stream, ids] of byStream) {
    await deps.writer
      .xclaim(stream, GATEWAY_GROUP, deps.consumer, 0, ...ids, "JUSTID")
      .catch((error: unknown) => {
        if (!isMissingGroup(error)) throw error;
      });
  }
}

async function claimAbandoned(deps: Deps, stream: string, cursors: Map<string, string>): Promise<void> {
  const room = roomIn(deps.link);
  if (room <= 0) return;
  try {
    const [next, entries] = (await deps.writer.xautoclaim(
      stream,
      GATEWAY_GROUP,
      deps.consumer,
      CLAIM_IDLE_MS,
      cursors.get(stream) ?? "0-0",
      "COUNT",
      room,
    )) as [string, (Entry | null)[]];
    cursors.set(stream, next);
    await take(
      deps,
      stream,
      entries.filter((entry) => entry !== null),
    );
  } catch (error) {
    if (!isMissingGroup(error)) throw error;
    await makeGroup(deps.writer, stream);
  }
}

async function take(deps: Deps, stream: string, entries: readonly Entry[]): Promise<void> {
  for (const [id, flat] of entries) {
    const fields = fieldsOf(flat);
    const submitId = fields.get(ENTRY_FIELDS.submitId) ?? "";
    reach("command_read");
    const inHand = deps.link.inHand.get(submitId);
    if (inHand === undefined) await takeInHand(deps, { stream, id }, submitId, fields);
    // One command under several entries is one piece of work, which ends all of them.
    else if (!inHand.entries.some((it) => it.id === id)) inHand.entries.push({ stream, id });
  }
}

async function takeInHand(
  deps: Deps,
  entry: StreamEntry,
  submitId: string,
  fields: ReadonlyMap<string, string>,
): Promise<void> {
  const parsed = understand(deps, submitId, fields);
  if (parsed === undefined) return;
  if (!parsed.ok) {
    deps.log.error({ submitId, why: parsed.why }, "a command cannot be understood and is dead");
    await markDead(deps.database, submitId, parsed.why);
    return deps.acknowledge([entry]);
  }
  const { inHand } = deps.link;
  const letGo = (): void => {
    if (inHand.get(submitId) === hand) inHand.delete(submitId);
  };
  const hand: CommandInHand = {
    command: parsed.command,
    openParts: new Set(parsed.command.parts.map((_, index) => index + 1)),
    entries: [entry],
    acknowledge() {
      letGo();
      deps.acknowledge(hand.entries);
    },
    letGo,
  };
  inHand.set(submitId, hand);
  deps.link.queue.offer(firstWrites(hand));
}

/**
 * Also whether it is for this supplier: a channel may have moved since, and receipts would not match.
 * Undefined where its key is not at hand: the entry stays pending, for a process that has it.
 */
function understand(
  deps: Deps,
  submitId: string,
  fields: ReadonlyMap<string, string>,
): ParsedCommand | { ok: false; why: "wrong_supplier" } | undefined {
  const version = Number(fields.get(ENTRY_FIELDS.version));
  let parsed;
  try {
    parsed = openCommand(deps.database.vault, submitId, version, fields.get(ENTRY_FIELDS.payload) ?? "");
  } catch (error) {
    deps.log.warn({ submitId, error: errorName(error) }, "a command cannot be opened here and waits");
    return undefined;
  }
  if (!parsed.ok) return parsed;
  if (parsed.command.submitId !== submitId) return { ok: false, why: "malformed_payload" };
  return parsed.command.supplierId === deps.link.id ? parsed : { ok: false, why: "wrong_supplier" };
}

/**
 * Acknowledges what is done together with what else is done in this turn of the event loop: answers are
 * stored a hundred at a time. Where Redis does not hear it the entries come back, are found done, and are
 * acknowledged then.
 */
function createAcknowledger({ writer, log }: ReaderDeps): (entries: StreamEntry[]) => void {
  let waiting = new Map<string, string[]>();
  const flush = (): void => {
    const streams = waiting;
    waiting = new Map();
    const together = writer.multi();
    for (const [stream, ids] of streams) together.xack(stream, GATEWAY_GROUP, ...ids).xdel(stream, ...ids);
    atPoint("entry_acknowledge", () => together.exec()).catch((error: unknown) =>
      log.warn({ error: errorName(error) }, "entries could not be acknowledged; they come back"),
    );
  };
  return (entries) => {
    if (waiting.size === 0) setImmediate(flush);
    for (const { stream, id } of entries) {
      const ids = waiting.get(stream);
      if (ids === undefined) waiting.set(stream, [id]);
      else ids.push(id);
    }
  };
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
  // After the deadline nobody waits for it any more; what it had read comes back by claiming.
  call.catch(() => undefined);
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}
