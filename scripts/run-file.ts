/** `.waybill/run.json`: where everything of a running copy is (interfaces §1). */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

export interface RunFile {
  api: string;
  console: string;
  temporalUi: string | null;
  temporalAddress: string;
  databaseUrl: string;
  redisUrl: string;
  /** A role's metrics address; `/livez` and `/readyz` are its neighbours. */
  metrics: Record<string, string>;
  suppliers: SupplierAddress[];
  apiKey: string;
  opsToken: string;
  viewerToken: string;
  webhookSecret: string;
  pids: Record<string, number>;
}

export interface SupplierAddress {
  name: string;
  version: "2.0" | "3.0";
  cmppPort: number;
  logUrl: string;
}

export const runFileIn = (home: string): string => path.join(home, "run.json");

/** Readers see the old file or the new one, never half of one. It holds credentials. */
export function writeRunFile(home: string, content: RunFile): void {
  const file = runFileIn(home);
  writeFileSync(`${file}.new`, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export function removeRunFile(home: string): void {
  rmSync(runFileIn(home), { force: true });
}

/** Undefined where nothing runs. */
export function readRunFile(home: string): RunFile | undefined {
  try {
    return JSON.parse(readFileSync(runFileIn(home), "utf8")) as RunFile;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
