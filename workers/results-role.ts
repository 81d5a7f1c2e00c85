/** The role `results`: stored events are folded, workflows told, and inbound texts joined. */
import { openStreams } from "../gateway-bridge/streams.ts";
import { openDueCalls } from "./due-calls.ts";
import { createInbound } from "./inbound.ts";
import { createResults } from "./results.ts";
import { answers, closing, closingStreams, closingTemporal, openPool } from "./role-parts.ts";
import type { RoleFrame, RoleParts } from "./role.ts";
import { createTells } from "./tells.ts";
import { connectTemporal } from "./temporal.ts";

export async function assemble(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "results");
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const tells = createTells({ temporal, metrics, log }, config.temporal.results);
  const calls = openDueCalls(config.redisUrl, config.keyPrefix);
  const folding = createResults({ database, streams, calls, tells, metrics, log }, config.temporal);
  const inbound = createInbound({ database, metrics, log });
  return {
    services: [
      closing(database),
      closingStreams(streams),
      closingTemporal(temporal),
      calls,
      tells,
      folding,
      inbound,
    ],
    loops: [folding, inbound],
    ready: () => answers(database),
  };
}
