/**
 * The real servers that tests run on, one set a run; every test file has a database, a key prefix and a
 * task queue of its own. `npm test` starts them; to run one file by hand, name them in the environment.
 */
import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { openDatabase, statement } from "../db/client.ts";
import { parseDataKeys } from "../db/data-keys.ts";
import { openVault } from "../db/vault.ts";

declare module "vitest" {
  interface ProvidedContext {
    databaseUrl: string;
    templateDatabase: string;
    redisUrl: string;
    temporalAddress: string;
    workflowBundle: string;
  }
}

export const servers = {
  redisUrl: (): string => inject("redisUrl"),
  temporalAddress: (): string => inject("temporalAddress"),
  workflowBundle: (): string => inject("workflowBundle"),
};

/** Of every process of every test. */
export const DATA_KEYS = ["search", "data"]
  .map((kind) => `${kind}:${Buffer.alloc(32, kind).toString("base64")}`)
  .join();

export const vault = openVault(parseDataKeys(DATA_KEYS));

export const uniqueName = (prefix: string): string => `${prefix}_${randomBytes(6).toString("hex")}`;

/** A migrated database of the caller's own, copied from the run's template; dropped with the run. */
export async function freshDatabase(): Promise<string> {
  const url = new URL(inject("databaseUrl"));
  const name = uniqueName(inject("templateDatabase"));
  const admin = openDatabase(url.href, "operations", 1);
  try {
    await admin.run(
      statement(`create.${name}`, `CREATE DATABASE ${name} TEMPLATE ${inject("templateDatabase")}`),
    );
  } finally {
    await admin.close();
  }
  url.pathname = `/${name}`;
  return url.href;
}

const PATIENCE_MS = 30_000;

/** Waits until `look` answers something; the condition decides, never a fixed time. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false | null>,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const giveUp = performance.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null) return found;
    if (performance.now() > giveUp) throw new Error(`waited ${patienceMs} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
