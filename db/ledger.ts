/**
 * Money: two-legged transfers under keys that let each happen once a message, and the balances that
 * they sum to. The account lock is the last a transaction takes, around these statements only (A5).
 */
import { closeKey, refundKey, reserveKey } from "../domain/ids.ts";
import { type Session, statement } from "./client.ts";

export interface Wanted {
  messageId: string;
  accountId: string;
  units: bigint;
}

/**
 * Holds the price of each message once, however often it is asked for (A4, A5). Answers the messages
 * that the balance did not suffice for; in the order given, so a cheaper later one may still pass.
 */
export async function reserve(tx: Session, wanted: readonly Wanted[]): Promise<Set<string>> {
  if (wanted.length === 0) return new Set();
  const free = await lockAccounts(
    tx,
    wanted.map((it) => it.accountId),
  );
  const keys = wanted.map((it) => reserveKey(it.messageId));
  const held = new Set((await tx.run(RESERVED, [keys])).map((row) => row.message_id));
  const affordable: Wanted[] = [];
  const refused = new Set<string>();
  for (const it of wanted) {
    if (held.has(it.messageId)) continue;
    const left = (free.get(it.accountId) ?? 0n) - it.units;
    if (left < 0n) {
      refused.add(it.messageId);
    } else {
      free.set(it.accountId, left);
      affordable.push(it);
    }
  }
  if (affordable.length > 0) {
    await tx.run(RESERVE, [
      affordable.map((it) => reserveKey(it.messageId)),
      affordable.map((it) => it.messageId),
      affordable.map((it) => it.accountId),
      affordable.map((it) => it.units),
    ]);
  }
  return refused;
}

/**
 * Takes what was held, and bills it, for messages whose reservation is still open. A message that was
 * charged or released before is left as it is (D5). Answers those charged now.
 */
export async function charge(
  tx: Session,
  items: readonly { messageId: string; attemptId: string }[],
): Promise<Set<string>> {
  if (items.length === 0) return new Set();
  await lockHolders(
    tx,
    items.map((it) => it.messageId),
  );
  const rows = await tx.run(CHARGE, [
    items.map((it) => it.messageId),
    items.map((it) => it.attemptId),
    items.map((it) => closeKey(it.messageId)),
    items.map((it) => reserveKey(it.messageId)),
  ]);
  return new Set(rows.map((row) => row.message_id));
}

/** Releases what is still held and refunds what was charged, each at most once a message (D5, D7). */
export async function giveBack(tx: Session, messages: readonly string[]): Promise<void> {
  if (messages.length === 0) return;
  await lockHolders(tx, messages);
  await tx.run(RELEASE, [messages, messages.map(closeKey), messages.map(reserveKey)]);
  await tx.run(REFUND, [messages, messages.map(refundKey)]);
}

/** Money in, once a key. Answers whether it moved now. */
export async function topUp(tx: Session, accountId: string, key: string, units: bigint): Promise<boolean> {
  await lockAccounts(tx, [accountId]);
  const rows = await tx.run(TOP_UP, [key, accountId, units]);
  return rows.length > 0;
}

/** Every account beside the sums of its transfers; a difference is a fault (D5). */
export interface Books {
  balanced: boolean;
  accounts: number;
  reserved: bigint;
  charged: bigint;
  released: bigint;
  refunded: bigint;
  differences: { accountId: string; what: string; stored: bigint; summed: bigint }[];
}

/** One statement, so one snapshot: true at any moment, also under load. */
export async function books(session: Session): Promise<Books> {
  const rows = await session.run(BOOKS);
  const differences = rows.flatMap((row) => [
    ...differing(row.id, "balance", row.balance_units, row.balance_summed),
    ...differing(row.id, "held", row.held_units, row.held_summed),
    ...differing(row.id, "billed", row.billed_units, row.charged - row.refunded),
    ...differing(row.id, "open_reservations", row.held_units, row.open_units),
  ]);
  const total = (of: (row: BooksRow) => bigint): bigint => rows.reduce((sum, row) => sum + of(row), 0n);
  return {
    balanced: differences.length === 0,
    accounts: rows.length,
    reserved: total((row) => row.reserved),
    charged: total((row) => row.charged),
    released: total((row) => row.released),
    refunded: total((row) => row.refunded),
    differences,
  };
}

const differing = (accountId: string, what: string, stored: bigint, summed: bigint) =>
  stored === summed ? [] : [{ accountId, what, stored, summed }];

/**
 * Locks the accounts in which these messages hold or held money, and no other: a message that was
 * refused before it reserved anything must not bring an account into the order of locks.
 */
export async function lockHolders(tx: Session, messages: readonly string[]): Promise<void> {
  if (messages.length > 0) await tx.run(LOCK_HOLDERS, [messages.map(reserveKey)]);
}

/** Sorted, so that two batches over the same accounts cannot lock them crosswise. */
async function lockAccounts(tx: Session, ids: readonly string[]): Promise<Map<string, bigint>> {
  const rows = await tx.run(LOCK_ACCOUNTS, [[...new Set(ids)]]);
  return new Map(rows.map((row) => [row.id, row.free_units]));
}

const LOCK_ACCOUNTS = statement<{ id: string; free_units: bigint }>(
  "ledger.lock_accounts",
  `SELECT id, balance_units - floor_units AS free_units
     FROM accounts WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
);

const LOCK_HOLDERS = statement<{ id: string }>(
  "ledger.lock_holders",
  `SELECT id FROM accounts
    WHERE id IN (SELECT account_id FROM ledger_transfers WHERE key = ANY($1::text[]))
    ORDER BY id FOR NO KEY UPDATE`,
);

const RESERVED = statement<{ message_id: string }>(
  "ledger.reserved",
  `SELECT message_id FROM ledger_transfers WHERE key = ANY($1::text[])`,
);

/** What is held was looked up under the account's lock, so a key that is there all the same is a fault (D13). */
const RESERVE = statement<{ message_id: string }>(
  "ledger.reserve",
  `WITH moved AS (
     INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
     SELECT key, 'reserve', message_id, account_id, 'balance', 'held', units
       FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS t(key, message_id, account_id, units)
     RETURNING account_id, units),
   summed AS (SELECT account_id, sum(units)::bigint AS units FROM moved GROUP BY account_id)
   UPDATE accounts SET balance_units = balance_units - summed.units, held_units = held_units + summed.units
     FROM summed WHERE id = summed.account_id`,
);

const CHARGE = statement<{ message_id: string }>(
  "ledger.charge",
  `WITH item AS (
     SELECT m.id AS message_id, t.attempt_id, t.close_key, m.unit_price_units, m.segment_count, r.account_id, r.units
       FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS t(message_id, attempt_id, close_key, reserve_key)
       JOIN messages m ON m.id = t.message_id
       JOIN ledger_transfers r ON r.key = t.reserve_key),
   moved AS (
     INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
     SELECT close_key, 'charge', message_id, account_id, 'held', 'earned', units FROM item
     ON CONFLICT (key) DO NOTHING
     RETURNING message_id, account_id, units),
   billed AS (
     INSERT INTO billing_records (message_id, account_id, attempt_id, unit_price_units, unit_count, amount_units)
     SELECT item.message_id, item.account_id, attempt_id, unit_price_units, segment_count, item.units
       FROM item JOIN moved USING (message_id)),
   summed AS (SELECT account_id, sum(units)::bigint AS units FROM moved GROUP BY account_id),
   taken AS (
     UPDATE accounts SET held_units = held_units - summed.units FROM summed WHERE id = summed.account_id)
   SELECT message_id FROM moved`,
);

const RELEASE = statement<Record<string, never>>(
  "ledger.release",
  `WITH moved AS (
     INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
     SELECT t.close_key, 'release', t.message_id, r.account_id, 'held', 'balance', r.units
       FROM unnest($1::text[], $2::text[], $3::text[]) AS t(message_id, close_key, reserve_key)
       JOIN ledger_transfers r ON r.key = t.reserve_key
     ON CONFLICT (key) DO NOTHING
     RETURNING account_id, units),
   summed AS (SELECT account_id, sum(units)::bigint AS units FROM moved GROUP BY account_id)
   UPDATE accounts SET balance_units = balance_units + summed.units, held_units = held_units - summed.units
     FROM summed WHERE id = summed.account_id`,
);

const REFUND = statement<Record<string, never>>(
  "ledger.refund",
  `WITH moved AS (
     INSERT INTO ledger_transfers (key, kind, message_id, account_id, debit_pot, credit_pot, units)
     SELECT t.refund_key, 'refund', b.message_id, b.account_id, 'earned', 'balance', b.amount_units
       FROM unnest($1::text[], $2::text[]) AS t(message_id, refund_key)
       JOIN billing_records b ON b.message_id = t.message_id
     ON CONFLICT (key) DO NOTHING
     RETURNING message_id, account_id, units),
   marked AS (
     UPDATE billing_records SET refunded_at = now() FROM moved
      WHERE billing_records.message_id = moved.message_id),
   summed AS (SELECT account_id, sum(units)::bigint AS units FROM moved GROUP BY account_id)
   UPDATE accounts SET balance_units = balance_units + summed.units
     FROM summed WHERE id = summed.account_id`,
);

const TOP_UP = statement<{ key: string }>(
  "ledger.top_up",
  `WITH moved AS (
     INSERT INTO ledger_transfers (key, kind, account_id, debit_pot, credit_pot, units)
     VALUES ($1, 'top_up', $2, 'outside', 'balance', $3)
     ON CONFLICT (key) DO NOTHING
     RETURNING key, account_id, units)
   UPDATE accounts SET balance_units = balance_units + moved.units FROM moved
    WHERE id = moved.account_id RETURNING moved.key`,
);

interface BooksRow {
  id: string;
  balance_units: bigint;
  held_units: bigint;
  balance_summed: bigint;
  held_summed: bigint;
  reserved: bigint;
  charged: bigint;
  released: bigint;
  refunded: bigint;
  billed_units: bigint;
  open_units: bigint;
}

const BOOKS = statement<BooksRow>(
  "ledger.books",
  `WITH per_account AS (
     SELECT account_id,
            sum(CASE WHEN credit_pot = 'balance' THEN units WHEN debit_pot = 'balance' THEN -units ELSE 0 END) AS balance,
            sum(CASE WHEN credit_pot = 'held' THEN units WHEN debit_pot = 'held' THEN -units ELSE 0 END) AS held,
            sum(units) FILTER (WHERE kind = 'reserve') AS reserved,
            sum(units) FILTER (WHERE kind = 'charge') AS charged,
            sum(units) FILTER (WHERE kind = 'release') AS released,
            sum(units) FILTER (WHERE kind = 'refund') AS refunded
       FROM ledger_transfers GROUP BY account_id),
   billed AS (
     SELECT account_id, sum(amount_units) AS units FROM billing_records
      WHERE refunded_at IS NULL GROUP BY account_id),
   open AS (
     SELECT r.account_id, sum(r.units) AS units FROM ledger_transfers r
      WHERE r.kind = 'reserve' AND NOT EXISTS (
              SELECT 1 FROM ledger_transfers c WHERE c.message_id = r.message_id AND c.kind IN ('charge', 'release'))
      GROUP BY r.account_id)
   SELECT a.id, a.balance_units, a.held_units,
          coalesce(p.balance, 0)::bigint AS balance_summed, coalesce(p.held, 0)::bigint AS held_summed,
          coalesce(p.reserved, 0)::bigint AS reserved, coalesce(p.charged, 0)::bigint AS charged,
          coalesce(p.released, 0)::bigint AS released, coalesce(p.refunded, 0)::bigint AS refunded,
          coalesce(b.units, 0)::bigint AS billed_units, coalesce(o.units, 0)::bigint AS open_units
     FROM accounts a
     LEFT JOIN per_account p ON p.account_id = a.id
     LEFT JOIN billed b ON b.account_id = a.id
     LEFT JOIN open o ON o.account_id = a.id
    ORDER BY a.id`,
);
