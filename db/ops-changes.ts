/** What people change beside channels and publication: switches, money in, alerts. Each with its audit row. */
import { audit, type Author } from "./audit.ts";
import { switchEffect } from "./channels.ts";
import { statement, type Database, type Session, type Statement } from "./client.ts";
import { topUp } from "./ledger.ts";
import { rfc3339 } from "./rfc3339.ts";

export interface Switched {
  id: string;
  active: boolean;
  effect: string;
}

/** Undefined where there is no such application. */
export const switchApplication = (
  database: Database,
  author: Author,
  id: string,
  active: boolean,
): Promise<Switched | undefined> => switchOne(database, author, SWITCH_APPLICATION, id, active);

/** Undefined where there is no such filing. */
export const switchFiling = (
  database: Database,
  author: Author,
  id: string,
  active: boolean,
): Promise<Switched | undefined> => switchOne(database, author, SWITCH_FILING, id, active);

function switchOne(
  database: Database,
  author: Author,
  what: Statement<{ was_active: boolean }>,
  id: string,
  active: boolean,
): Promise<Switched | undefined> {
  return database.transaction(async (tx) => {
    const [row] = await tx.run(what, [id, active]);
    if (row === undefined) return undefined;
    const effect = switchEffect(row.was_active, active);
    await audit(tx, author, { action: active ? "enable" : "disable", subject: id, effect });
    return { id, active, effect };
  });
}

const switching = (table: "applications" | "filings") =>
  statement<{ was_active: boolean }>(
    `ops.switch_${table}`,
    `UPDATE ${table} t SET active = $2
       FROM (SELECT id, active FROM ${table} WHERE id = $1 FOR NO KEY UPDATE) was
      WHERE t.id = was.id RETURNING was.active AS was_active`,
  );
const SWITCH_APPLICATION = switching("applications");
const SWITCH_FILING = switching("filings");

export interface AccountRow {
  id: string;
  currency: string;
  balance_units: bigint;
  held_units: bigint;
}

export type ToppedUp =
  | { kind: "topped_up"; account: AccountRow; effect: string }
  | { kind: "not_found" }
  /** The key stands for another account or another amount. */
  | { kind: "key_reused" };

/** Money in, once a key; the second time answers what the account holds now and moves nothing (D13). */
export function topUpOnce(
  database: Database,
  author: Author,
  accountId: string,
  { key, units }: { key: string; units: bigint },
): Promise<ToppedUp> {
  return database.transaction(async (tx): Promise<ToppedUp> => {
    if ((await tx.run(ACCOUNT, [accountId])).length === 0) return { kind: "not_found" };
    const moved = await topUp(tx, accountId, topUpKey(key), units);
    const repeated = !moved && (await tx.run(SAME_TOP_UP, [topUpKey(key), accountId, units])).length > 0;
    const effect = topUpEffect(moved, repeated, key, units);
    await audit(tx, author, { action: "top_up", subject: accountId, effect });
    if (!moved && !repeated) return { kind: "key_reused" };
    const [account] = await tx.run(ACCOUNT, [accountId]);
    return account === undefined ? { kind: "not_found" } : { kind: "topped_up", account, effect };
  });
}

/** Stops the second of two equal requests, to whichever account it goes. */
const topUpKey = (key: string): string => `top_up:${key}`;

function topUpEffect(moved: boolean, repeated: boolean, key: string, units: bigint): string {
  if (moved) return `${units} units in under the key ${key}`;
  return repeated
    ? `none: ${units} units came in under the key ${key} before`
    : `none: the key ${key} belongs to another top-up`;
}

const ACCOUNT = statement<AccountRow>(
  "ops.account",
  "SELECT id, currency, balance_units, held_units FROM accounts WHERE id = $1",
);

const SAME_TOP_UP = statement<{ id: bigint }>(
  "ops.same_top_up",
  "SELECT id FROM ledger_transfers WHERE key = $1 AND kind = 'top_up' AND account_id = $2 AND units = $3",
);

export interface AlertRow {
  id: bigint;
  kind: string;
  subject: string;
  detail: string | null;
  raised_at: string;
  cleared_at: string | null;
  cleared_by: string | null;
}

/** Newest first. */
export const listAlerts = (
  session: Session,
  state: "open" | "cleared" | "all",
  before: bigint | undefined,
  limit: number,
): Promise<AlertRow[]> => session.run(ALERTS[state], [before, limit]);

/** An alert stays until a person clears it (K); undefined where there is none of that id. */
export function clearAlert(
  database: Database,
  author: Author,
  { id, subject }: { id: bigint; subject: string },
): Promise<{ alert: AlertRow; effect: string } | undefined> {
  return database.transaction(async (tx) => {
    const [cleared] = await tx.run(CLEAR, [id, author.actor]);
    const alert = cleared ?? (await tx.run(ALERT, [id]))[0];
    if (alert === undefined) return undefined;
    const effect = cleared ? "cleared" : `none: ${alert.cleared_by ?? "somebody"} cleared it before`;
    await audit(tx, author, { action: "clear_alert", subject, effect });
    return { alert, effect };
  });
}

const ALERT_COLUMNS = `id, kind, subject, detail, ${rfc3339("raised_at")} AS raised_at,
  ${rfc3339("cleared_at")} AS cleared_at, cleared_by`;

const alerts = (state: string, condition: string) =>
  statement<AlertRow>(
    `ops.alerts_${state}`,
    `SELECT ${ALERT_COLUMNS} FROM alerts
      WHERE id < coalesce($1::bigint, 9223372036854775807) ${condition} ORDER BY id DESC LIMIT $2`,
  );

const ALERTS = {
  open: alerts("open", "AND cleared_at IS NULL"),
  cleared: alerts("cleared", "AND cleared_at IS NOT NULL"),
  all: alerts("all", ""),
};

const ALERT = statement<AlertRow>("ops.alert", `SELECT ${ALERT_COLUMNS} FROM alerts WHERE id = $1`);

const CLEAR = statement<AlertRow>(
  "ops.clear_alert",
  `UPDATE alerts SET cleared_at = clock_timestamp(), cleared_by = $2
    WHERE id = $1 AND cleared_at IS NULL RETURNING ${ALERT_COLUMNS}`,
);
