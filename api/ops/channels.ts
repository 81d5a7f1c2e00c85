/** Channels: how they stand, and switching them; planning sees a change with its next batch (B1). */
import type { RequestHandler } from "express";
import { changeChannel, listChannels, type ChannelRow } from "../../db/channels.ts";
import type { Database, Session } from "../../db/client.ts";
import type { AnswerOf } from "../answers.ts";
import { ProblemError } from "../problems.ts";
import { readBody } from "../body.ts";
import { authorOf } from "./access.ts";
import type { changedChannel, channel, channels } from "./answers.ts";
import { channelBody } from "./bodies.ts";

export const showChannels =
  (session: Session): RequestHandler =>
  async (_request, response) => {
    const answer: AnswerOf<typeof channels> = { channels: (await listChannels(session)).map(channelView) };
    response.json(answer);
  };

export const editChannel =
  (database: Database): RequestHandler<{ id: string }> =>
  async (request, response) => {
    const { note, ...change } = readBody(request, channelBody);
    const changed = await changeChannel(database, authorOf(response, note), request.params.id, change);
    if (changed === undefined) throw new ProblemError("not_found");
    const answer: AnswerOf<typeof changedChannel> = {
      ...channelView(changed.channel),
      effect: changed.effects.join("; "),
    };
    response.json(answer);
  };

const channelView = (row: ChannelRow): AnswerOf<typeof channel> => ({
  id: row.id,
  name: row.name,
  active: row.active,
  operators: row.operators,
  srcId: row.src_id,
  receiptMode: row.receipt_mode,
  supplier: { id: row.supplier_id, name: row.supplier_name, active: row.supplier_active },
  ratePerSecond: row.rate_per_second,
  window: row.window,
  connectionsWanted: row.connections_wanted,
  groups: row.groups,
  connections: row.connections.map((each) => ({
    slot: each.slot,
    connected: each.connected,
    heartbeatAt: each.heartbeat_at,
    heartbeatAgeMs: each.heartbeat_age_ms,
    windowInUse: each.window_in_use,
    lastError: each.last_error,
  })),
});
