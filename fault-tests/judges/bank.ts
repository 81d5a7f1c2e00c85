/**
 * The bank check: plain SQL over the ledger tables, in one statement and so over one snapshot, which makes
 * it true at any moment, also in the middle of a fault (C5, D5).
 */
import type pg from "pg";
import type { Finding } from "./evidence.ts";

/** Money that is not where it should be. `units`, 1/10000 of the currency's unit, are never negative. */
export interface Difference {
  what: string;
  subject: string;
  units: bigint;
}

export async function bankDifferences(database: pg.ClientBase | pg.Pool): Promise<Difference[]> {
  const { rows } = await database.query<{ what: string; subject: string; units: string }>(DIFFERENCES);
  return rows.map(({ what, subject, units }) => ({ what, subject, units: BigInt(units) }));
}

export const bankFindings = (differences: readonly Difference[]): Finding[] =>
  differences.map(({ what, subject, units }) => ({
    clause: "C5",
    verdict: "unexpected",
    subject,
    why: `${what} (${units} units)`,
  }));

/** A difference of no amount, such as a record that is missing, still counts as one. */
export const driftOf = (differences: readonly Difference[]): number =>
  differences.reduce((sum, { units }) => sum + Math.max(1, Number(units)), 0);

/**
 * What a charge is for is judged by how the message ended, so only messages that are final have to agree;
 * every other line holds at any time.
 */
const DIFFERENCES = `
  WITH pot AS (
    SELECT account_id,
           sum(CASE 'balance' WHEN credit_pot THEN units WHEN debit_pot THEN -units ELSE 0 END) AS balance,
           sum(CASE 'held' WHEN credit_pot THEN units WHEN debit_pot THEN -units ELSE 0 END) AS held,
           sum(CASE 'earned' WHEN credit_pot THEN units WHEN debit_pot THEN -units ELSE 0 END) AS earned,
           sum(units) FILTER (WHERE kind = 'top_up') AS paid_in
      FROM ledger_transfers GROUP BY account_id),
  of_message AS (
    SELECT message_id,
           count(*) FILTER (WHERE kind = 'reserve') AS reserves,
           count(*) FILTER (WHERE kind IN ('charge', 'release')) AS closes,
           count(*) FILTER (WHERE kind = 'charge') AS charges,
           count(*) FILTER (WHERE kind = 'refund') AS refunds,
           coalesce(sum(units) FILTER (WHERE kind = 'reserve'), 0) AS reserved,
           coalesce(sum(units) FILTER (WHERE kind IN ('charge', 'release')), 0) AS closed,
           coalesce(sum(units) FILTER (WHERE kind = 'charge'), 0) AS charged,
           coalesce(sum(units) FILTER (WHERE kind = 'refund'), 0) AS refunded
      FROM ledger_transfers WHERE message_id IS NOT NULL GROUP BY message_id),
  difference AS (
    SELECT 'the balance is not the sum of its entries' AS what, a.id AS subject,
           abs(a.balance_units - coalesce(p.balance, 0)) AS units
      FROM accounts a LEFT JOIN pot p ON p.account_id = a.id
     WHERE a.balance_units <> coalesce(p.balance, 0)
    UNION ALL
    SELECT 'what is held is not the sum of its entries', a.id, abs(a.held_units - coalesce(p.held, 0))
      FROM accounts a LEFT JOIN pot p ON p.account_id = a.id
     WHERE a.held_units <> coalesce(p.held, 0)
    UNION ALL
    SELECT 'the balance is below its floor', id, floor_units - balance_units
      FROM accounts WHERE balance_units < floor_units
    UNION ALL
    SELECT 'money came from nowhere or is gone', a.id,
           abs(a.balance_units + a.held_units + coalesce(p.earned, 0) - coalesce(p.paid_in, 0))
      FROM accounts a LEFT JOIN pot p ON p.account_id = a.id
     WHERE a.balance_units + a.held_units + coalesce(p.earned, 0) <> coalesce(p.paid_in, 0)
    UNION ALL
    SELECT 'one account pays what another reserved', r.message_id, r.units
      FROM ledger_transfers r JOIN ledger_transfers o ON o.message_id = r.message_id AND o.account_id > r.account_id
    UNION ALL
    SELECT 'reserved more than once', message_id, reserved FROM of_message WHERE reserves > 1
    UNION ALL
    SELECT 'taken or released without a reservation', message_id, closed FROM of_message WHERE closes > 0 AND reserves = 0
    UNION ALL
    SELECT 'taken or released more than once', message_id, closed FROM of_message WHERE closes > 1
    UNION ALL
    SELECT 'taken or released in another amount than reserved', message_id, abs(closed - reserved)
      FROM of_message WHERE closes = 1 AND reserves = 1 AND closed <> reserved
    UNION ALL
    SELECT 'refunded more than once', message_id, refunded FROM of_message WHERE refunds > 1
    UNION ALL
    SELECT 'refunded in another amount than charged', message_id, abs(refunded - charged)
      FROM of_message WHERE refunds = 1 AND refunded <> charged
    UNION ALL
    SELECT 'charged and not billed, or billed in another amount', o.message_id, abs(o.charged - coalesce(b.amount_units, 0))
      FROM of_message o LEFT JOIN billing_records b USING (message_id)
     WHERE o.charges = 1 AND o.charged <> coalesce(b.amount_units, 0)
    UNION ALL
    SELECT 'billed and not charged', b.message_id, b.amount_units
      FROM billing_records b LEFT JOIN of_message o USING (message_id) WHERE coalesce(o.charges, 0) = 0
    UNION ALL
    SELECT 'the bill and the refund disagree', b.message_id, b.amount_units
      FROM billing_records b LEFT JOIN of_message o USING (message_id)
     WHERE (b.refunded_at IS NOT NULL) <> (coalesce(o.refunds, 0) = 1)
    UNION ALL
    SELECT 'delivered, and its price was not kept', m.id, abs(m.price_units - coalesce(o.charged - o.refunded, 0))
      FROM messages m LEFT JOIN of_message o ON o.message_id = m.id
     WHERE m.status = 'delivered' AND coalesce(o.charged - o.refunded, 0) <> m.price_units
    UNION ALL
    SELECT 'ended without delivery, and money was kept', m.id, o.reserved - (o.closed - o.charged) - o.refunded
      FROM messages m JOIN of_message o ON o.message_id = m.id
     WHERE m.status IN ('undelivered', 'failed', 'refused', 'expired', 'canceled')
       AND o.reserved - (o.closed - o.charged) - o.refunded <> 0
    UNION ALL
    SELECT 'given back before its end', m.id, o.closed - o.charged + o.refunded
      FROM messages m JOIN of_message o ON o.message_id = m.id
     WHERE m.final_at IS NULL AND o.closed - o.charged + o.refunded <> 0)
  SELECT what, subject, units::text AS units FROM difference ORDER BY what, subject`;
