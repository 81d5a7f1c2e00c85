/** The role `attempts`: the Temporal worker, and the intake beside it, so that starts can be eager (design §2). */
import { createActivities } from "../activities/index.ts";
import { createLingers } from "../activities/linger.ts";
import { publishesAnything, startPublication } from "../db/publication.ts";
import { openStreams } from "../gateway-bridge/streams.ts";
import { createAttemptWorker } from "./attempt-worker.ts";
import { listenForDue } from "./due-calls.ts";
import { createIntake } from "./intake.ts";
import { answers, closing, closingStreams, closingTemporal, openPool } from "./role-parts.ts";
import type { RoleFrame, RoleParts } from "./role.ts";
import { connectTemporal } from "./temporal.ts";

export async function assemble(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const planning = await openPool(frame, "planning");
  const settlement = config.settlementPool ? await openPool(frame, "settlement") : planning;
  const publisher = await openPool(frame, "publisher");
  await startPublication(publisher, config.publication);
  const streams = openStreams(config.redisUrl, config.keyPrefix);
  const temporal = await connectTemporal(config, log);
  const { policy, worker: size } = config.temporal;
  const lingers = createLingers({
    room: size.lingering,
    rememberMs: 2 * policy.lingerMs,
    onOutcome: (outcome) => metrics.lingers.inc({ outcome }),
  });
  const activities = createActivities({
    planning,
    settlement,
    publisher,
    streams,
    lingers,
    coalesce: config.temporal.coalesce,
    tries: { inAll: policy.regular.tries, local: policy.local.tries },
    onBatch: (step, size) => metrics.batchSize.observe({ step }, size),
  });
  const worker = createAttemptWorker({ config, temporal, activities, lingers, log, died: frame.quit });
  const intake = createIntake({ database: planning, temporal, metrics, log }, config.temporal);
  return {
    services: [
      closing(planning),
      ...(settlement === planning ? [] : [closing(settlement)]),
      closing(publisher),
      closingStreams(streams),
      closingTemporal(temporal),
      listenForDue(config.redisUrl, config.keyPrefix, lingers),
      worker,
      intake,
    ],
    loops: [intake],
    // With publishing off nothing gets out, and this role says so; the API stays ready (H).
    ready: async () => (await answers(planning)) && (await publishesAnything(publisher)),
  };
}
