/**
 * A person's word, handed to the attempt's workflow as the signal that Temporal's own UI and CLI send
 * (interfaces §4). What it did is read from the audit row that carrying it out leaves.
 */
import { Client, Connection, WorkflowNotFoundError } from "@temporalio/client";
import { loadClientConnectConfig } from "@temporalio/envconfig";
import type { Database } from "../db/client.ts";
import { effectSince, newestAudit, noteEffect } from "../db/reviews.ts";
import { type AttemptId, attemptWorkflowId } from "../domain/ids.ts";
import type { Resolution } from "../domain/steps.ts";
import type { Config } from "./config.ts";
import { delay, type Service } from "./service.ts";

export interface ReviewSignal extends Service {
  resolve(attemptId: string, resolution: Resolution): Promise<{ effect: string }>;
}

const LOOK_EVERY_MS = 50;
const PATIENCE_MS = 5_000;

/** Connects when it is first used: the API is ready without Temporal. */
export function createReviewSignal(config: Config, database: Database): ReviewSignal {
  const fromEnvironment = loadClientConnectConfig();
  const connection = Connection.lazy({
    ...fromEnvironment.connectionOptions,
    ...(config.temporalAddress === undefined ? {} : { address: config.temporalAddress }),
  });
  const namespace = fromEnvironment.namespace ?? config.temporal.namespace;
  const client = new Client({ connection, namespace });

  async function resolve(attemptId: string, resolution: Resolution): Promise<{ effect: string }> {
    const before = await newestAudit(database, attemptId);
    const handle = client.workflow.getHandle(attemptWorkflowId(attemptId as AttemptId));
    try {
      await handle.signal("resolve", resolution);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      return {
        effect: await noteEffect(database, attemptId, resolution, "none: no workflow of it is running"),
      };
    }
    const giveUp = Date.now() + PATIENCE_MS;
    while (Date.now() < giveUp) {
      const effect = await effectSince(database, attemptId, before);
      if (effect !== undefined) return { effect };
      await delay(LOOK_EVERY_MS);
    }
    return { effect: "sent, and not carried out yet" };
  }

  return {
    name: "review-signal",
    resolve,
    start: () => Promise.resolve(),
    stop: () => connection.close(),
  };
}
