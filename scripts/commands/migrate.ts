/** `waybill migrate`: brings the database to the newest schema. */
import type { Command } from "commander";
import { createDatabase, migrateDatabase } from "../../db/migrate.ts";
import { openVault, type Vault } from "../../db/vault.ts";
import { errorName } from "../../workers/service.ts";
import { dataKeysOf } from "../data-keys.ts";
import { withoutPassword } from "../readiness.ts";
import { Trouble } from "../trouble.ts";
import { type Place, answer, runningCopy } from "./place.ts";

export function addMigrate(program: Command, place: Place): void {
  program
    .command("migrate")
    .description("bring the database of DATABASE_URL, or of the running copy, to the newest schema")
    .option("--json", "print one JSON document")
    .action(async ({ json }: { json?: boolean }) => {
      const url = process.env["DATABASE_URL"] ?? runningCopy(place).databaseUrl;
      const migrations = await migrated(url, openVault(dataKeysOf(place.home)));
      answer(json, { migrations }, [`${migrations} migrations applied.`]);
    });
}

async function migrated(url: string, vault: Vault): Promise<number> {
  try {
    await createDatabase(url);
  } catch (error) {
    throw new Trouble(`The database at ${withoutPassword(url)} cannot be used (${errorName(error)}).`);
  }
  return await migrateDatabase(url, vault);
}
