/** The role `api`: HTTP for customers and operators. Redis and Temporal are not in the way of a request. */
import { createApiService } from "../api/service.ts";
import { openStreamSurvey } from "../gateway-bridge/streams.ts";
import { createReviewSignal } from "./review-signal.ts";
import { answers, closing, openPool } from "./role-parts.ts";
import type { RoleFrame, RoleParts } from "./role.ts";
import { version } from "./version.ts";
import { checkWebhookUrl } from "./webhook-dial.ts";

export async function assemble(frame: RoleFrame): Promise<RoleParts> {
  const { config, log } = frame;
  const database = await openPool(frame, "api");
  const allowLoopback = config.allowLoopbackWebhooks;
  const reviews = createReviewSignal(config, database);
  const service = createApiService({
    database,
    log,
    version,
    runFile: config.runFile,
    mayCallWebhook: (url) => checkWebhookUrl(url, { allowLoopback }).ok,
    // For a call that asks for them, and not before.
    openSurvey: () => openStreamSurvey(config.redisUrl, config.keyPrefix),
    resolveReview: (attemptId, resolution) => reviews.resolve(attemptId, resolution),
    host: config.host,
    port: config.apiPort,
  });
  return { services: [closing(database), reviews, service], loops: [], ready: () => answers(database) };
}
