/** The database for commands that work without the API. */
import { type Database, openDatabase, sqlState } from "../../db/client.ts";
import { openVault } from "../../db/vault.ts";
import { errorName } from "../../workers/service.ts";
import { dataKeysOf } from "../data-keys.ts";
import { withoutPassword } from "../readiness.ts";
import { Trouble } from "../trouble.ts";
import { type Place, runningCopy } from "./place.ts";

/** That of DATABASE_URL, or of the running copy. PostgreSQL's refusals become sentences. */
export async function inDatabase<Result>(
  place: Place,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const url = process.env["DATABASE_URL"] ?? runningCopy(place).databaseUrl;
  const database = openDatabase(url, "operations", 1, openVault(dataKeysOf(place.home)));
  try {
    return await work(database);
  } catch (error) {
    const state = sqlState(error);
    const what = state === undefined ? errorName(error) : `SQLSTATE ${state}${constraintOf(error)}`;
    throw new Trouble(`The database at ${withoutPassword(url)} said no (${what}); nothing was changed.`);
  } finally {
    await database.close();
  }
}

function constraintOf(error: unknown): string {
  const { constraint } = error as { constraint?: unknown };
  return typeof constraint === "string" ? ` of ${constraint}` : "";
}
