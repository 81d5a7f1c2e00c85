/** What the roles of workers/main.ts are put together with. */
import { checkConnectionBudget, type Database, openDatabase, type PoolName } from "../db/client.ts";
import type { Streams } from "../gateway-bridge/streams.ts";
import type { RoleFrame } from "./role.ts";
import type { Service } from "./service.ts";
import type { Temporal } from "./temporal.ts";

/** The budget is checked by every process, for whoever starts first (G). */
export async function openPool({ config, metrics, vault }: RoleFrame, pool: PoolName): Promise<Database> {
  const database = openDatabase(config.databaseUrl, pool, undefined, vault);
  metrics.watchPool(pool, database);
  await checkConnectionBudget(database);
  return database;
}

export const answers = async (database: Database): Promise<boolean> => {
  await checkConnectionBudget(database);
  return true;
};

/** Things that only have to be closed, in the order of services. */
export const closing = (database: Database): Service => stopping("database", () => database.close());

export const closingStreams = (streams: Streams): Service => stopping("streams", () => streams.close());

export const closingTemporal = (temporal: Temporal): Service =>
  stopping("temporal", () => temporal.connection.close());

const stopping = (name: string, stop: () => Promise<void>): Service => ({
  name,
  start: () => Promise.resolve(),
  stop,
});
