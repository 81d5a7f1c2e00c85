/** The role `notifier`: webhooks, with a pool of their own. */
import { createNotifier } from "./notifier.ts";
import { answers, closing, openPool } from "./role-parts.ts";
import type { RoleFrame, RoleParts } from "./role.ts";
import type { Loop } from "./service.ts";

export async function assemble(frame: RoleFrame): Promise<RoleParts> {
  const { config, log, metrics } = frame;
  const database = await openPool(frame, "notifier");
  const service = createNotifier({
    database,
    log,
    allowLoopback: config.allowLoopbackWebhooks,
    onOutcome: (outcome) => metrics.webhooks.inc({ outcome }),
  });
  const loop: Loop = service;
  return { services: [closing(database), service], loops: [loop], ready: () => answers(database) };
}
