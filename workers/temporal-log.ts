/** Temporal's own log lines, through ours: what happened and to which step, never what an error quoted. */
import { Runtime } from "@temporalio/worker";
import type { Log } from "./service.ts";

/** Once a process, before the first connection. */
export function logTemporalTo(log: Log): void {
  const line =
    (write: (fields: object, what: string) => void) =>
    (message: string, meta?: Record<string, unknown>): void =>
      write(named(meta), `Temporal: ${message}`);
  const info = line(log.info.bind(log));
  const warn = line(log.warn.bind(log));
  const error = line(log.error.bind(log));
  const nothing = (): void => undefined;
  Runtime.install({
    logger: {
      log: (level, message, meta) => {
        if (level === "ERROR") error(message, meta);
        else if (level === "WARN") warn(message, meta);
        else if (level === "INFO") info(message, meta);
      },
      trace: nothing,
      debug: nothing,
      info,
      warn,
      error,
    },
    // The role stops its services itself, in order.
    shutdownSignals: [],
    telemetryOptions: { logging: { filter: "WARN", forward: {} } },
  });
}

/** Ids and names alone: an error's text may quote what a row held. */
const NAMES = ["workflowId", "workflowType", "activityType", "attempt", "isLocal", "taskQueue", "state"];

const named = (meta: Record<string, unknown> = {}): object =>
  Object.fromEntries(NAMES.flatMap((name) => (meta[name] === undefined ? [] : [[name, meta[name]]])));
