/** PostgreSQL's own log as a witness of one tier (L5). */
import { existsSync, readFileSync, statSync } from "node:fs";
import { troubleIn } from "../scripts/postgres-log.ts";

/** Where the log ends now; what is written later is judged from here. */
export const endOfLog = (file: string): number => (existsSync(file) ? statSync(file).size : 0);

/** A log that was cut off for its size begins again: then all of it is newer. */
export function errorsSince(file: string, from: number): { uniqueViolations: number; deadlocks: number } {
  const text = readFileSync(file);
  const trouble = troubleIn(text.subarray(text.length < from ? 0 : from).toString("utf8"));
  const deadlocks = trouble.filter((line) => line.includes(" 40P01 ERROR: ")).length;
  return { uniqueViolations: trouble.length - deadlocks, deadlocks };
}
