/** The gateway process: one for each group of suppliers. */
import { checkConnectionBudget, openDatabase } from "../db/client.ts";
import { runRole } from "../workers/role.ts";
import { createGateway } from "./gateway.ts";
import { openStreams } from "./streams.ts";

await runRole("gateway", async ({ config, log, metrics, vault }) => {
  const database = openDatabase(config.databaseUrl, "gateway", undefined, vault);
  metrics.watchPool("gateway", database);
  await checkConnectionBudget(database);
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const gateway = createGateway({
    database,
    databaseUrl: config.databaseUrl,
    redisUrl: config.redisUrl,
    prefix: config.keyPrefix,
    streams,
    log,
    onAnswer: (channel, answer) => metrics.submits.inc({ channel, answer }),
  });
  await gateway.start();
  return {
    services: [
      { name: "database", start: () => Promise.resolve(), stop: () => database.close() },
      { name: "streams", start: () => Promise.resolve(), stop: () => streams.close() },
      gateway,
    ],
    loops: gateway.loops(),
    ready: () => checkConnectionBudget(database).then(() => true),
  };
});
