/** Channels as a person sees and switches them: supplier, place in each group, connections, rate. */
import type { Operator, ReceiptMode } from "../domain/message.ts";
import { audit, type Author } from "./audit.ts";
import { statement, type Database, type Session } from "./client.ts";
import { rfc3339 } from "./rfc3339.ts";

export interface ChannelRow {
  id: string;
  name: string;
  active: boolean;
  operators: Operator[];
  src_id: string;
  receipt_mode: ReceiptMode;
  supplier_id: string;
  supplier_name: string;
  supplier_active: boolean;
  /** Parts a second over all connections of the supplier account (B5). */
  rate_per_second: number;
  /** Submits in flight that one connection may have. */
  window: number;
  connections_wanted: number;
  groups: { id: string; name: string; priority: number; weight: number }[];
  connections: {
    slot: number;
    connected: boolean;
    heartbeat_at: string;
    heartbeat_age_ms: number;
    window_in_use: number;
    last_error: string | null;
  }[];
}

export const listChannels = (session: Session): Promise<ChannelRow[]> => session.run(LIST);

export interface ChannelChange {
  active?: boolean | undefined;
  ratePerSecond?: number | undefined;
}

/**
 * Switches a channel or sets the rate of its supplier account; undefined where there is no such channel.
 * Planning reads both afresh for every batch (B1).
 */
export function changeChannel(
  database: Database,
  author: Author,
  id: string,
  { active, ratePerSecond }: ChannelChange,
): Promise<{ channel: ChannelRow; effects: string[] } | undefined> {
  return database.transaction(async (tx) => {
    const effects: string[] = [];
    if (active !== undefined) effects.push(...(await switchChannel(tx, author, id, active)));
    if (ratePerSecond !== undefined) effects.push(...(await setRate(tx, author, id, ratePerSecond)));
    const [channel] = await tx.run(FIND, [id]);
    return channel && { channel, effects };
  });
}

/** No effect, and none audited, where there is no such channel. */
async function switchChannel(tx: Session, author: Author, id: string, active: boolean): Promise<string[]> {
  const [row] = await tx.run(SWITCH, [id, active]);
  if (row === undefined) return [];
  const effect = switchEffect(row.was_active, active);
  await audit(tx, author, { action: active ? "enable" : "disable", subject: id, effect });
  return [effect];
}

async function setRate(tx: Session, author: Author, id: string, rate: number): Promise<string[]> {
  const [row] = await tx.run(SET_RATE, [id, rate]);
  if (row === undefined) return [];
  const effect =
    row.was === rate
      ? `none: the rate was ${rate} parts a second already`
      : `rate of ${row.supplier_id} changed from ${row.was} to ${rate} parts a second`;
  await audit(tx, author, { action: "set_rate", subject: id, effect });
  return [effect];
}

/** The words for what a switch did. */
export function switchEffect(wasActive: boolean, active: boolean): string {
  const state = active ? "enabled" : "disabled";
  return wasActive === active ? `none: it was ${state} already` : state;
}

/** The gateway's own default, for profiles that name no rate, window or number of connections. */
const RATE = "coalesce((s.profile->>'ratePerSecond')::int, 200)";
const WINDOW = "coalesce((s.profile->>'window')::int, 16)";
const CONNECTIONS = "coalesce((s.profile->>'connections')::int, 1)";

const channels = (condition: string): string =>
  `SELECT c.id, c.name, c.active, c.operators, c.src_id, c.receipt_mode, s.id AS supplier_id,
          s.name AS supplier_name, s.active AS supplier_active, ${RATE} AS rate_per_second,
          ${WINDOW} AS window, ${CONNECTIONS} AS connections_wanted,
          (SELECT coalesce(json_agg(json_build_object('id', g.id, 'name', g.name, 'priority', m.priority,
                                                      'weight', m.weight) ORDER BY m.priority, g.id), '[]')
             FROM channel_group_members m JOIN channel_groups g ON g.id = m.group_id
            WHERE m.channel_id = c.id) AS groups,
          (SELECT coalesce(json_agg(json_build_object('slot', n.slot,
                     'connected', n.connected AND n.heartbeat_at > clock_timestamp() - interval '10 seconds',
                     'heartbeat_at', ${rfc3339("n.heartbeat_at")},
                     'heartbeat_age_ms',
                       greatest(0, extract(epoch FROM clock_timestamp() - n.heartbeat_at) * 1000)::bigint,
                     'window_in_use', n.window_in_use, 'last_error', n.last_error) ORDER BY n.slot), '[]')
             FROM connections n WHERE n.supplier_id = s.id) AS connections
     FROM channels c JOIN suppliers s ON s.id = c.supplier_id ${condition}
    ORDER BY c.id`;

const LIST = statement<ChannelRow>("channels.list", channels(""));
const FIND = statement<ChannelRow>("channels.find", channels("WHERE c.id = $1"));

const SWITCH = statement<{ was_active: boolean }>(
  "channels.switch",
  `UPDATE channels c SET active = $2
     FROM (SELECT id, active FROM channels WHERE id = $1 FOR NO KEY UPDATE) was
    WHERE c.id = was.id RETURNING was.active AS was_active`,
);

const SET_RATE = statement<{ supplier_id: string; was: number }>(
  "channels.set_rate",
  `UPDATE suppliers u SET profile = jsonb_set(u.profile, '{ratePerSecond}', to_jsonb($2::int))
     FROM (SELECT s.id, ${RATE} AS rate FROM suppliers s JOIN channels c ON c.supplier_id = s.id
            WHERE c.id = $1 FOR NO KEY UPDATE OF s) was
    WHERE u.id = was.id RETURNING u.id AS supplier_id, was.rate AS was`,
);
