/** The role `sweeper`: what a crash left between two steps, and what is old enough to go. */
import { openStreams } from "../gateway-bridge/streams.ts";
import { createRetention } from "./retention.ts";
import { answers, closing, closingStreams, closingTemporal, openPool } from "./role-parts.ts";
import type { RoleFrame, RoleParts } from "./role.ts";
import { createSweeper } from "./sweeper.ts";
import { createTells } from "./tells.ts";
import { connectTemporal } from "./temporal.ts";

export async function assemble(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "sweeper");
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const tells = createTells({ temporal, metrics, log }, config.temporal.results);
  const loops = [
    ...createSweeper({ database, streams, temporal, tells, metrics, log }, config.temporal.sweeper),
    createRetention({ database, databaseUrl: config.databaseUrl, metrics, log }, config.temporal.retention),
  ];
  return {
    services: [closing(database), closingStreams(streams), closingTemporal(temporal), tells, ...loops],
    loops,
    ready: () => answers(database),
  };
}
