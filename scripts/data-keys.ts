/**
 * The keys under which a copy stores numbers and texts: those that the environment names, else a file of
 * its own beside its data, made at the first start. Who deletes the file can read nothing of what is stored.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type DataKeys, newDataKeys, parseDataKeys } from "../db/data-keys.ts";
import { readDataKeys } from "../workers/config.ts";

export const dataKeysOf = (home: string): DataKeys =>
  readDataKeys(process.env) ?? parseDataKeys(readFileSync(ownFile(home), "utf8"));

/** What a role is told of them. */
export const dataKeySettings = (home: string): Record<string, string> =>
  readDataKeys(process.env) === undefined ? { WAYBILL_DATA_KEYS_FILE: ownFile(home) } : {};

function ownFile(home: string): string {
  const file = path.join(home, "data-keys");
  if (existsSync(file)) return file;
  writeFileSync(`${file}.new`, newDataKeys(), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return file;
}
