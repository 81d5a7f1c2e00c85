/**
 * The contract between workers and gateway in Redis: one command stream a channel, and wake-ups.
 * Redis carries hints and commands and may be lost at any time; PostgreSQL holds the facts.
 */
import { Redis, ReplyError } from "ioredis";
import type { EntryFacts } from "../domain/reconcile.ts";

export const GATEWAY_GROUP = "gateway";

/** Fields of a command's entry, in this order. */
export const ENTRY_FIELDS = { submitId: "id", version: "v", payload: "p" } as const;

export const commandStream = (prefix: string, channelId: string): string => `${prefix}commands:${channelId}`;

const shadowStream = (prefix: string, channelId: string): string => `${prefix}shadow:${channelId}`;

/** Wake-ups that shorten a wait; losing one costs a poll. */
export type WakeName = "events";
const wakeStream = (prefix: string, name: WakeName): string => `${prefix}wake:${name}`;

export interface OutgoingCommand {
  submitId: string;
  channelId: string;
  schemaVersion: number;
  payload: string;
}

/** Refused: Redis answered and said no; unavailable: it did not answer, or nobody heard it. */
export type Added =
  | { submitId: string; entryId: string }
  | { submitId: string; error: "stream_unavailable" | "stream_refused" };

export interface Streams {
  /** One pipelined XADD a command. Never throws: each command has its own answer (C2). */
  add(commands: readonly OutgoingCommand[]): Promise<Added[]>;
  /** The same to the shadow streams, which no gateway reads (C5). */
  addToShadow(commands: readonly OutgoingCommand[]): Promise<Added[]>;
  /** Whether the entry is still going to reach a gateway: not delivered yet, or pending (C4). */
  entryIsAlive(channelId: string, entryId: string): Promise<boolean>;
  wake(name: WakeName): void;
  /** Waits for a wake-up, at most so long; a lost connection only makes it the full wait. */
  waitForWake(name: WakeName, atMostMs: number, signal: AbortSignal): Promise<void>;
  /** Throws when Redis does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

const COMMAND_TIMEOUT_MS = 2_000;

export function openStreams(url: string, prefix: string): Streams {
  const writer = openProducer(url);
  const waiters = new Map<WakeName, Redis>();
  const cursors = new Map<WakeName, string>();

  function waiterFor(name: WakeName): Redis {
    const known = waiters.get(name);
    if (known !== undefined) return known;
    const opened = openBlockingReader(url);
    waiters.set(name, opened);
    return opened;
  }

  return {
    add: (commands) => add(writer, commands, (channelId) => commandStream(prefix, channelId)),
    addToShadow: (commands) => add(writer, commands, (channelId) => shadowStream(prefix, channelId)),
    entryIsAlive: (channelId, entryId) => entryIsAlive(writer, commandStream(prefix, channelId), entryId),
    wake(name) {
      writer.xadd(wakeStream(prefix, name), "MAXLEN", "~", 64, "*", "w", "1").catch(() => undefined);
    },
    async waitForWake(name, atMostMs, signal) {
      const key = wakeStream(prefix, name);
      const read = waiterFor(name)
        .xread("COUNT", 64, "BLOCK", atMostMs, "STREAMS", key, cursors.get(name) ?? "$")
        .then((answer) => {
          const last = answer?.[0]?.[1].at(-1)?.[0];
          if (last !== undefined) cursors.set(name, last);
        });
      await firstOf(read, atMostMs + 1_000, atMostMs, signal);
    },
    async ping() {
      await writer.ping();
    },
    async close() {
      writer.disconnect();
      for (const waiter of waiters.values()) waiter.disconnect();
      await Promise.resolve();
    },
  };
}

/**
 * For writes: nothing is queued while Redis is away and nothing is sent again after a reconnect, so
 * that each write is answered by yes, no, or "unknown" (which the take makes harmless).
 */
export function openProducer(url: string): Redis {
  return quiet(
    new Redis(url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      commandTimeout: COMMAND_TIMEOUT_MS,
      retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
    }),
  );
}

/**
 * For one blocking read at a time: a connection of its own, and a deadline by whoever reads. While Redis
 * is away a read fails at once; queued ones would all block, one after the other, when it is back.
 */
export function openBlockingReader(url: string): Redis {
  return quiet(
    new Redis(url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
    }),
  );
}

/** For one that only listens: it subscribes as soon as Redis is there, and again whenever it is back. */
export function openListener(url: string): Redis {
  return quiet(
    new Redis(url, {
      maxRetriesPerRequest: null,
      retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
    }),
  );
}

/** Reconnecting is the client's own work; without a listener each failure would be printed. */
function quiet(redis: Redis): Redis {
  redis.on("error", () => undefined);
  return redis;
}

/** Reads the command streams and changes nothing, for a reconcile (C6). */
export interface StreamSurvey {
  /** A page of a channel's entries, oldest first, behind the one named; empty at the end. */
  entries(channelId: string, afterEntryId: string | undefined, limit: number): Promise<EntryFacts[]>;
  entryIsAlive: Streams["entryIsAlive"];
  close(): void;
}

/** Rejects when Redis does not answer within two seconds. */
export async function openStreamSurvey(url: string, prefix: string): Promise<StreamSurvey> {
  const redis = quiet(
    new Redis(url, {
      lazyConnect: true,
      connectTimeout: COMMAND_TIMEOUT_MS,
      commandTimeout: COMMAND_TIMEOUT_MS,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
    }),
  );
  await redis.connect();
  return {
    entries: (channelId, after, limit) => readEntries(redis, commandStream(prefix, channelId), after, limit),
    entryIsAlive: (channelId, entryId) => entryIsAlive(redis, commandStream(prefix, channelId), entryId),
    close: () => redis.disconnect(),
  };
}

async function add(
  redis: Redis,
  commands: readonly OutgoingCommand[],
  streamOf: (channelId: string) => string,
): Promise<Added[]> {
  const pipeline = redis.pipeline();
  for (const command of commands) {
    pipeline.xadd(
      streamOf(command.channelId),
      "*",
      ENTRY_FIELDS.submitId,
      command.submitId,
      ENTRY_FIELDS.version,
      command.schemaVersion,
      ENTRY_FIELDS.payload,
      command.payload,
    );
  }
  const answers = await pipeline.exec().catch(() => null);
  return commands.map(({ submitId }, index) => {
    const [error, entryId] = answers?.[index] ?? [new Error("no answer"), undefined];
    return error === null && typeof entryId === "string"
      ? { submitId, entryId }
      : { submitId, error: error instanceof ReplyError ? "stream_refused" : "stream_unavailable" };
  });
}

async function entryIsAlive(redis: Redis, stream: string, entryId: string): Promise<boolean> {
  const [entry] = await redis.xrange(stream, entryId, entryId);
  if (entry === undefined) return false;
  const groups = (await redis.xinfo("GROUPS", stream)) as unknown[][];
  const group = groups.map(asRecord).find((it) => it["name"] === GATEWAY_GROUP);
  if (group === undefined) return false;
  if (isAfter(entryId, String(group["last-delivered-id"]))) return true;
  const pending = await redis.xpending(stream, GATEWAY_GROUP, entryId, entryId, 1);
  return pending.length > 0;
}

async function readEntries(
  redis: Redis,
  stream: string,
  after: string | undefined,
  limit: number,
): Promise<EntryFacts[]> {
  const entries = await redis.xrange(stream, after === undefined ? "-" : `(${after}`, "+", "COUNT", limit);
  const [first, last] = [entries.at(0)?.[0], entries.at(-1)?.[0]];
  if (first === undefined || last === undefined) return [];
  const groups = (await redis.xinfo("GROUPS", stream)) as unknown[][];
  const group = groups.map(asRecord).find((it) => it["name"] === GATEWAY_GROUP);
  const delivered = group === undefined ? "0-0" : String(group["last-delivered-id"]);
  const pending = group === undefined ? [] : await redis.xpending(stream, GATEWAY_GROUP, first, last, limit);
  const idle = new Map(pending.map((it) => it as [string, string, number]).map(([id, , ms]) => [id, ms]));
  return entries.map(([entryId, flat]) => {
    const idleMs = idle.get(entryId);
    const untouched = isAfter(entryId, delivered) ? "undelivered" : "acknowledged";
    return {
      entryId,
      submitId: fieldOf(flat, ENTRY_FIELDS.submitId),
      payload: fieldOf(flat, ENTRY_FIELDS.payload),
      state: idleMs === undefined ? untouched : "pending",
      idleMs: idleMs ?? 0,
    };
  });
}

/** Names and values take turns; empty where there is no such name. */
function fieldOf(flat: readonly string[], name: string): string {
  const at = flat.findIndex((it, index) => index % 2 === 0 && it === name);
  return at < 0 ? "" : (flat[at + 1] ?? "");
}

function asRecord(flat: unknown[]): Record<string, unknown> {
  const record: Record<string, unknown> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) record[String(flat[i])] = flat[i + 1];
  return record;
}

function isAfter(a: string, b: string): boolean {
  const [aMs = "0", aSeq = "0"] = a.split("-");
  const [bMs = "0", bSeq = "0"] = b.split("-");
  return BigInt(aMs) > BigInt(bMs) || (BigInt(aMs) === BigInt(bMs) && BigInt(aSeq) > BigInt(bSeq));
}

/**
 * A read that fails at once (Redis away) must still take its time, and one that never settles after a
 * half-open connection must not hold the loop.
 */
function firstOf(
  read: Promise<void>,
  deadlineMs: number,
  failedMs: number,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(deadline);
      clearTimeout(afterFailure);
      signal.removeEventListener("abort", done);
      resolve();
    };
    let afterFailure: NodeJS.Timeout | undefined;
    const deadline = setTimeout(done, deadlineMs);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
    read.then(done, () => {
      afterFailure = setTimeout(done, failedMs);
    });
  });
}
