/**
 * Brings a database to the newest schema. Runnable alone: `DATABASE_URL=… node dist/db/migrate.js`, with the
 * data keys where something has to be sealed.
 *
 * drizzle's migrator takes no lock and skips a migration that is older than the newest applied one, so
 * both are seen to here.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate } from "drizzle-orm/node-postgres/migrator";
import type pg from "pg";
import { openSingleConnection, sqlState } from "./client.ts";
import { parseDataKeys } from "./data-keys.ts";
import { sealStored } from "./seal-stored.ts";
import { lockedVault, openVault, type Vault } from "./vault.ts";

/** Any number will do, as long as nothing else in this database locks it. */
const MIGRATION_LOCK = 7_080_001;

const NO_SUCH_DATABASE = "3D000";
const DATABASE_EXISTS = "42P04";

/** The sources stand beside the compiled files, and SQL is not compiled. */
const FOLDER = ["./migrations", "../../db/migrations"]
  .map((place) => fileURLToPath(new URL(place, import.meta.url)))
  .find((place) => existsSync(place));

/**
 * Applies what is missing; several processes may call it at once. The vault is needed where numbers and
 * texts are stored from before they were sealed.
 *
 * @returns how many migrations the database has now
 * @throws when the database holds another number of migrations than this version has files
 */
export async function migrateDatabase(url: string, vault: Vault = lockedVault): Promise<number> {
  if (FOLDER === undefined) throw new Error("the folder with the migrations is missing");
  const client = await openSingleConnection(url, "migrate");
  try {
    await client.query("SET statement_timeout = 0");
    await client.query("SELECT pg_advisory_lock($1)", [MIGRATION_LOCK]);
    await migrate(drizzle({ client }), { migrationsFolder: FOLDER });
    await sealStored(client, vault);
    return await checkedCount(client, FOLDER);
  } finally {
    await client.end();
  }
}

/** Creates the database that the address names where its server has none of that name. */
export async function createDatabase(url: string): Promise<void> {
  try {
    const client = await openSingleConnection(url, "migrate");
    await client.end();
  } catch (error) {
    if (sqlState(error) !== NO_SUCH_DATABASE) throw error;
    await createOnServer(new URL(url));
  }
}

async function createOnServer(url: URL): Promise<void> {
  const name = decodeURIComponent(url.pathname.slice(1));
  const server = new URL(url);
  server.pathname = "/postgres";
  const client = await openSingleConnection(server.href, "migrate");
  try {
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`);
  } catch (error) {
    if (sqlState(error) !== DATABASE_EXISTS) throw error; // Somebody else was faster.
  } finally {
    await client.end();
  }
}

async function checkedCount(client: pg.Client, folder: string): Promise<number> {
  const files = readdirSync(folder).filter((name) => name.endsWith(".sql")).length;
  const answer = await client.query<{ applied: number }>(
    "SELECT count(*)::int AS applied FROM drizzle.__drizzle_migrations",
  );
  const applied = answer.rows[0]?.applied ?? 0;
  if (applied !== files) {
    throw new Error(
      `the database has ${applied} migrations and this version has ${files}: a newer version ran on it, or a migration came in late and was skipped`,
    );
  }
  return applied;
}

async function main(): Promise<void> {
  const url = process.env["DATABASE_URL"];
  if (url === undefined || url === "") throw new Error("set DATABASE_URL to the database to migrate");
  const { WAYBILL_DATA_KEYS: written, WAYBILL_DATA_KEYS_FILE: file } = process.env;
  const keys = written ?? (file === undefined ? undefined : readFileSync(file, "utf8"));
  const vault = keys === undefined ? lockedVault : openVault(parseDataKeys(keys));
  await createDatabase(url);
  process.stdout.write(`${await migrateDatabase(url, vault)} migrations applied\n`);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await main();
