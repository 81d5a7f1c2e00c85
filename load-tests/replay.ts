/** After a tier: every role dies and comes back, and every command of the tier is published once more (L6). */
import type { Session } from "../db/client.ts";
import { ROLES } from "../scripts/roles.ts";
import type { System } from "../scripts/system.ts";
import { readStreams } from "./command-streams.ts";
import { drained } from "./drain.ts";
import { readStored, replayOutbox } from "./facts.ts";
import type { Senders } from "./sender.ts";
import { supplierTotals } from "./suppliers.ts";
import type { Counted, TierFacts } from "./verdict.ts";
import { delay } from "../workers/service.ts";

const PATIENCE_MS = 60_000;
const POLL_MS = 100;

export async function restartAndReplay(
  system: System,
  database: Session,
  senders: Senders,
  signal: AbortSignal,
): Promise<NonNullable<TierFacts["replay"]>> {
  const applications = [senders.main.applicationId, senders.stopped.applicationId];
  const counts = async (): Promise<Counted> => {
    const { transfers, billing } = await readStored(database, applications, senders.accountId);
    const { submits } = await supplierTotals(system.run);
    return { submits, transfers: transfers.length, billing: billing.length };
  };
  const before = await counts();
  await Promise.all(ROLES.filter((role) => role !== "simulator").map((role) => system.children.crash(role)));
  await system.ready(signal);
  const replayed = await replayOutbox(database, applications);
  await drained(database, PATIENCE_MS, signal, () => true);
  const commandsLeft = await untilTaken(system, senders, signal);
  return { replayed, before, after: await counts(), commandsLeft };
}

/** The gateway has looked at each command again and acknowledged it. */
async function untilTaken({ run }: System, { channelIds }: Senders, signal: AbortSignal): Promise<number> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const { undelivered, pending } = await readStreams(run.redisUrl, channelIds);
    if (undelivered + pending === 0 || Date.now() > deadline) return undelivered + pending;
    await delay(POLL_MS, signal);
  }
}
