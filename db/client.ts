/**
 * Pools by role and the two ways to use them: one statement, or one short transaction.
 *
 * Lock order everywhere: attempt, message, account (D11). Leases and limits are compared with the
 * database's clock, never with ours.
 */
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import pg from "pg";
import { lockedVault, type Vault } from "./vault.ts";

/**
 * Connections a pool may open (G). Their sum and the reserve for people and migrations are compared
 * with the server's max_connections at start.
 */
export const POOL_BUDGET = {
  api: 16,
  planning: 16,
  settlement: 8,
  publisher: 4,
  results: 12,
  gateway: 6,
  notifier: 4,
  sweeper: 4,
  operations: 4,
} as const;
export type PoolName = keyof typeof POOL_BUDGET;
const RESERVED_FOR_PEOPLE = 8;

/** No transaction may last longer than 20 s (D11). */
const STATEMENT_TIMEOUT_MS = 10_000;
const LOCK_TIMEOUT_MS = 5_000;
/** The server gives up first; only a connection that swallows its answer takes so long. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000;

/** A named, prepared statement; `Row` is what a row of its answer looks like. */
export interface Statement<Row> {
  readonly name: string;
  readonly text: string;
  /** Never set: it only carries the type. */
  readonly row?: Row;
}

/** Prepared once a connection: without it PostgreSQL spends 40 % more CPU on the hot statements. */
export const statement = <Row>(name: string, text: string): Statement<Row> => ({ name, text });

/** Where a statement can run: on any connection of a pool, or inside a transaction. */
export interface Session {
  run<Row>(what: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>;
  /** Seals what is stored through here, and opens what is read. */
  readonly vault: Vault;
}

export interface Database extends Session {
  /**
   * Runs `work` in one transaction; again from the start, at most twice, when PostgreSQL gave it up
   * for a deadlock or a serialization failure.
   */
  transaction<T>(work: (tx: Session) => Promise<T>): Promise<T>;
  /** For the read side, where a query is put together from filters. */
  readonly orm: NodePgDatabase;
  /** Connections open, idle and waited for: what the pool metrics show. */
  use(): { total: number; idle: number; waiting: number };
  close(): Promise<void>;
}

const INT8 = pg.types.builtins.INT8;

/** Without a vault nothing that names a person or quotes a text can be stored or read. */
export function openDatabase(
  url: string,
  pool: PoolName,
  size: number = POOL_BUDGET[pool],
  vault: Vault = lockedVault,
): Database {
  const connections = new pg.Pool({
    connectionString: url,
    max: size,
    application_name: `waybill-${pool}`,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 60_000,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    types,
  });
  // An idle connection that the server closes is replaced at the next use; without a listener the
  // event would end the process.
  connections.on("error", () => undefined);
  return {
    run: (what, values) => runOn(connections, what, values),
    transaction: (work) => inTransaction(connections, vault, work),
    vault,
    orm: drizzle({ client: connections }),
    use: () => ({
      total: connections.totalCount,
      idle: connections.idleCount,
      waiting: connections.waitingCount,
    }),
    close: () => connections.end(),
  };
}

/** One connection of its own, outside every pool: for session locks that live as long as it does. */
export async function openSingleConnection(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: `waybill-${name}`,
    connectionTimeoutMillis: 5_000,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    types,
  });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

/** Throws a sentence that says what to change when the budget does not fit the server (G). */
export async function checkConnectionBudget(database: Session): Promise<void> {
  const [row] = await database.run(MAX_CONNECTIONS);
  const available = row?.available ?? 0;
  const wanted = Object.values<number>(POOL_BUDGET).reduce((sum, size) => sum + size, RESERVED_FOR_PEOPLE);
  if (wanted > available) {
    throw new Error(
      `PostgreSQL allows ${available} connections and Waybill's pools may open ${wanted}: raise max_connections to ${wanted + 5} or more`,
    );
  }
}

const MAX_CONNECTIONS = statement<{ available: number }>(
  "client.max_connections",
  `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS available`,
);

/** The SQLSTATE of an error that PostgreSQL answered with; undefined where nothing answered. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/**
 * PostgreSQL was not there to answer: connection refused, lost or not to be had. Such an error says
 * nothing of what was asked, so it is never counted as a try (D12).
 */
export function isAway(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) return AWAY_STATES.has(state) || state.startsWith("08");
  if (!(error instanceof Error)) return false;
  const code: unknown = (error as { code?: unknown }).code;
  return (
    (typeof code === "string" && AWAY_CODES.has(code)) ||
    error.message.startsWith("Connection terminated") ||
    error.message.startsWith("timeout exceeded when trying to connect") ||
    error.message.startsWith("Query read timeout") ||
    error.message.startsWith("Client has encountered a connection error")
  );
}

/** Shutting down, crashed, starting up, or out of connections. */
const AWAY_STATES = new Set(["57P01", "57P02", "57P03", "53300"]);
const AWAY_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** PostgreSQL was not there, or gave up for others' sake: it says nothing about what was asked (D12). */
export const isTemporary = (error: unknown): boolean =>
  isAway(error) || GIVEN_UP.has(sqlState(error) ?? "") || OUT_OF_TIME.has(sqlState(error) ?? "");

const GIVEN_UP = new Set(["40001", "40P01"]);
/** A lock, or a statement, took too long. */
const OUT_OF_TIME = new Set(["55P03", "57014"]);

async function inTransaction<T>(pool: pg.Pool, vault: Vault, work: (tx: Session) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query("BEGIN");
      const result = await work({ run: (what, values) => runOn(client, what, values), vault });
      await client.query("COMMIT");
      return result;
    } catch (error) {
      broken = await rollback(client);
      if (tries < 3 && GIVEN_UP.has(sqlState(error) ?? "")) continue;
      throw error;
    } finally {
      client.release(broken);
    }
  }
}

/** A connection that cannot even roll back must not go back to the pool. */
async function rollback(client: pg.PoolClient): Promise<Error | undefined> {
  try {
    await client.query("ROLLBACK");
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

async function runOn<Row>(
  on: pg.Pool | pg.PoolClient,
  what: Statement<Row>,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const answer = await on.query({ name: what.name, text: what.text, values: [...values] });
  return answer.rows as Row[];
}

/** PostgreSQL's eight-byte integers are counted in bigint: money and ids lose nothing. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => (oid === INT8 ? BigInt : pg.types.getTypeParser(oid, format)),
};
