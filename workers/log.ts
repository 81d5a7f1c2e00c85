/** One structured log line a decision, on standard output. No number and no text goes in. */
import { pino } from "pino";
import type { Config } from "./config.ts";
import type { Log } from "./service.ts";

export function openLog(role: string, level: Config["logLevel"]): Log {
  return pino({ level, base: { role }, timestamp: pino.stdTimeFunctions.isoTime });
}
