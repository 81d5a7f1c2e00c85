/** Connection slots: who owns each, and whether it is up, as planning reads it (B4). */
import type pg from "pg";
import { openSingleConnection, type Session, statement } from "./client.ts";

export interface SupplierRow {
  id: string;
  name: string;
  secret: string;
  profile: unknown;
  channelIds: string[];
}

/** Suppliers with their channels; disabled ones too, since what is under way must come to its end. */
export async function readSuppliers(session: Session): Promise<SupplierRow[]> {
  const rows = await session.run(SUPPLIERS);
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    secret: row.secret,
    profile: row.profile,
    channelIds: row.channel_ids,
  }));
}

/** Makes this owner the slot's and answers its new epoch: what an earlier owner sends is told apart. */
export async function beginEpoch(
  session: Session,
  supplierId: string,
  slot: number,
  owner: string,
): Promise<bigint> {
  const [row] = await session.run(BEGIN, [supplierId, slot, owner]);
  if (row === undefined) throw new Error("a connection slot could not be begun");
  return row.epoch;
}

export interface SlotState {
  supplierId: string;
  slot: number;
  epoch: bigint;
  connected: boolean;
  windowInUse: number;
  lastError: string | null;
}

/**
 * One statement for all slots of a process. A slot that somebody else began since is left alone; answers
 * the epochs of those that are still this owner's.
 */
export async function heartbeat(
  session: Session,
  owner: string,
  slots: readonly SlotState[],
): Promise<{ supplierId: string; slot: number; epoch: bigint }[]> {
  const records = slots.map((it) => ({
    supplier_id: it.supplierId,
    slot: it.slot,
    epoch: String(it.epoch),
    connected: it.connected,
    window_in_use: it.windowInUse,
    last_error: it.lastError,
  }));
  const rows = await session.run(HEARTBEAT, [owner, JSON.stringify(records)]);
  return rows.map((row) => ({ supplierId: row.supplier_id, slot: row.slot, epoch: row.epoch }));
}

/** What the connections that hold slot locks are called, beside "waybill-". */
const LOCKS = "gateway-slots";

/**
 * Session locks, one a slot, on a connection of their own: when the process dies PostgreSQL lets go of
 * them, and another process takes the slot over (design §6).
 */
export class SlotLocks {
  readonly #client: pg.Client;
  #lost = false;
  /** One statement at a time on one connection. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("end", () => (this.#lost = true));
  }

  static async open(url: string): Promise<SlotLocks> {
    return new SlotLocks(await openSingleConnection(url, LOCKS));
  }

  /** The connection is gone, and every lock with it. */
  get lost(): boolean {
    return this.#lost;
  }

  async tryLock(supplierId: string, slot: number): Promise<boolean> {
    const [row] = await this.#ask<{ got: boolean }>({
      name: "connections.try_lock",
      text: `SELECT pg_try_advisory_lock(hashtext($1), $2) AS got`,
      values: [`waybill-slot:${supplierId}`, slot],
    });
    return row?.got ?? false;
  }

  async unlock(supplierId: string, slot: number): Promise<void> {
    await this.#ask({
      name: "connections.unlock",
      text: `SELECT pg_advisory_unlock(hashtext($1), $2)`,
      values: [`waybill-slot:${supplierId}`, slot],
    });
  }

  /** How many processes hold slots, or would like to: each has one such connection to this database. */
  async processes(): Promise<number> {
    const [row] = await this.#ask<{ count: number }>({
      name: "connections.processes",
      text: `SELECT count(*)::int AS count FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = $1`,
      values: [`waybill-${LOCKS}`],
    });
    return Math.max(1, row?.count ?? 1);
  }

  /** Throws when the connection is broken; a half-open one never answers, so its asker needs a deadline. */
  async check(): Promise<void> {
    try {
      await this.#ask({ text: "SELECT 1" });
    } catch (error) {
      this.#lost = true;
      throw error;
    }
  }

  async #ask<Row extends pg.QueryResultRow>(query: pg.QueryConfig): Promise<Row[]> {
    const asked = this.#turn.then(() => this.#client.query<Row>(query));
    this.#turn = asked.catch(() => undefined);
    return (await asked).rows;
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}

const SUPPLIERS = statement<{
  id: string;
  name: string;
  secret: string;
  profile: unknown;
  channel_ids: string[];
}>(
  "connections.suppliers",
  `SELECT s.id, s.name, s.secret, s.profile,
          ARRAY(SELECT c.id FROM channels c WHERE c.supplier_id = s.id ORDER BY c.id) AS channel_ids
     FROM suppliers s ORDER BY s.id`,
);

const BEGIN = statement<{ epoch: bigint }>(
  "connections.begin",
  `INSERT INTO connections AS n (supplier_id, slot, owner, epoch, connected, heartbeat_at)
   VALUES ($1, $2, $3, 1, false, clock_timestamp())
   ON CONFLICT (supplier_id, slot) DO UPDATE
      SET owner = excluded.owner, epoch = n.epoch + 1, connected = false, heartbeat_at = clock_timestamp(),
          window_in_use = 0
   RETURNING epoch`,
);

const HEARTBEAT = statement<{ supplier_id: string; slot: number; epoch: bigint }>(
  "connections.heartbeat",
  `UPDATE connections n
      SET connected = t.connected, heartbeat_at = clock_timestamp(), window_in_use = t.window_in_use,
          last_error = t.last_error
     FROM jsonb_to_recordset($2::jsonb)
          AS t(supplier_id text, slot smallint, epoch bigint, connected boolean, window_in_use int, last_error text)
    WHERE n.supplier_id = t.supplier_id AND n.slot = t.slot AND n.epoch = t.epoch AND n.owner = $1
   RETURNING n.supplier_id, n.slot, n.epoch`,
);
