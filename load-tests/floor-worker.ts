/**
 * The attempt workflow with steps that do nothing: what is left is Temporal, its SDK and the workflow's own
 * code. The same worker, the same starts and the same policies as the role `attempts`, on a task queue of
 * its own. Its argument says whether attempts linger.
 */
import type { Activities } from "../activities/index.ts";
import { createLingers } from "../activities/linger.ts";
import { readConfig } from "../workers/config.ts";
import type { FromFloorWorker, ToFloorWorker } from "./floor-protocol.ts";

const config = readConfig(process.env);
// What the profile changes must be changed before anything of Temporal is loaded.
if (config.profile === "throughput") await import("../workers/throughput.ts");
const { createAttemptWorker } = await import("../workers/attempt-worker.ts");
const { connectTemporal, startAttempt } = await import("../workers/temporal.ts");

const { policy } = config.temporal;
const lingerMs = process.argv[2] === "linger" ? policy.lingerMs : 0;
const attempts = { ...config.temporal, policy: { ...policy, lingerMs } };
const lingers = createLingers({ room: config.temporal.worker.lingering, rememberMs: 2 * policy.lingerMs });

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const say = (what: FromFloorWorker): void => void process.send?.(what);
const notHere = (): Promise<never> => Promise.reject(new Error("nothing is reviewed here"));
const LIMIT_MS = 259_200_000;

const activities: Activities = {
  reserve: () => Promise.resolve({ kind: "reserved" }),
  planRoute: () => Promise.resolve({ kind: "planned", channelId: "chn_floor", considered: [] }),
  persistOutbox: () => Promise.resolve({ kind: "queued", existing: false, limitInMs: LIMIT_MS }),
  publish(attemptId) {
    lingers.expect(attemptId);
    say({ kind: "published", attemptId });
    return Promise.resolve({ kind: "published" });
  },
  linger: ({ attemptId, atMostMs }) => lingers.linger(attemptId, atMostMs),
  settleOrRetry(attemptId) {
    say({ kind: "settled", attemptId });
    return Promise.resolve({ kind: "final", status: "delivered" });
  },
  openReview: notHere,
  closeReview: notHere,
  resolveReview: notHere,
};

const temporal = await connectTemporal(config, log);
const worker = createAttemptWorker({
  config,
  temporal,
  activities,
  lingers,
  log,
  died: () => process.exit(1),
});
await worker.start();
process.on("message", (told: ToFloorWorker) => {
  if (told.kind === "end") void worker.stop().then(() => process.exit(0));
  else if (told.kind === "call") lingers.call([told.attemptId]);
  else void startAttempt(temporal, attempts, told.attemptId);
});
process.once("disconnect", () => process.exit(0));
say({ kind: "ready" });
