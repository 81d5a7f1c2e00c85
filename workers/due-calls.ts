/**
 * "A decision is due", called out over Redis by whoever folds to whichever worker keeps the attempt's first
 * workflow task open. Nobody answers and nothing is kept: a call that is lost costs the linger, for who is
 * not decided afterwards is told by an update.
 */
import { openListener, openProducer } from "../gateway-bridge/streams.ts";
import type { Service } from "./service.ts";

export interface DueCalls extends Service {
  call(attemptIds: readonly string[]): void;
}

const channelOf = (prefix: string): string => `${prefix}due`;
const SEPARATOR = "\n";

export function openDueCalls(redisUrl: string, prefix: string): DueCalls {
  const redis = openProducer(redisUrl);
  return {
    name: "due-calls",
    call(attemptIds) {
      if (attemptIds.length === 0) return;
      redis.publish(channelOf(prefix), attemptIds.join(SEPARATOR)).catch(() => undefined);
    },
    start: () => Promise.resolve(),
    stop() {
      redis.disconnect();
      return Promise.resolve();
    },
  };
}

/** Hears the calls, again after each reconnect, from `start` until `stop`. */
export function listenForDue(
  redisUrl: string,
  prefix: string,
  hearer: { call(attemptIds: readonly string[]): void },
): Service {
  const redis = openListener(redisUrl);
  redis.on("message", (_channel: string, message: string) => hearer.call(message.split(SEPARATOR)));
  return {
    name: "due-listener",
    start() {
      // Not waited for: while Redis is away nobody calls either.
      redis.subscribe(channelOf(prefix)).catch(() => undefined);
      return Promise.resolve();
    },
    stop() {
      redis.disconnect();
      return Promise.resolve();
    },
  };
}
