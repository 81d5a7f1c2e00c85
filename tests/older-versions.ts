/** Databases as an older version left them, for tests of what a migration makes of their rows. */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import { inject } from "vitest";
import { openDatabase, openSingleConnection, statement } from "../db/client.ts";
import { uniqueName } from "./servers.ts";

/** A database of its own with all migrations before the one whose name ends so. */
export async function databaseBefore(name: string): Promise<string> {
  const url = new URL(inject("databaseUrl"));
  const database = uniqueName(inject("templateDatabase"));
  const admin = openDatabase(url.href, "operations", 1);
  await admin.run(statement(`create.${database}`, `CREATE DATABASE ${database}`));
  await admin.close();
  url.pathname = `/${database}`;
  await migrated(url.href, name, 0);
  return url.href;
}

/** Up to that migration, and no further. */
export const bringTo = (url: string, name: string): Promise<void> => migrated(url, name, 1);

async function migrated(url: string, name: string, more: number): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), "waybill-migrations-"));
  const client = await openSingleConnection(url, "migrate");
  try {
    await cp(new URL("../db/migrations", import.meta.url), folder, { recursive: true });
    const journal = path.join(folder, "meta", "_journal.json");
    const { entries, ...head } = JSON.parse(await readFile(journal, "utf8")) as {
      entries: { tag: string }[];
    };
    const until = entries.findIndex(({ tag }) => tag.endsWith(name)) + more;
    await writeFile(journal, JSON.stringify({ ...head, entries: entries.slice(0, until) }));
    await migrate(drizzle({ client }), { migrationsFolder: folder });
  } finally {
    await client.end();
    await rm(folder, { recursive: true });
  }
}
