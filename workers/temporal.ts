/** Where Temporal is: one connection a process, shared by worker and client so that starts can be eager. */
import { loadClientConnectConfig } from "@temporalio/envconfig";
import {
  Client,
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from "@temporalio/client";
import { NativeConnection } from "@temporalio/worker";
import { type AttemptId, attemptWorkflowId } from "../domain/ids.ts";
import type { Config, TemporalConfig } from "./config.ts";
import type { Log } from "./service.ts";
import { logTemporalTo } from "./temporal-log.ts";

export interface Temporal {
  connection: NativeConnection;
  client: Client;
  namespace: string;
}

/**
 * TEMPORAL_* follows Temporal's own environment configuration (TLS, API key, profile), so a cluster or
 * Temporal Cloud needs no code change; the address may be given alone.
 */
export async function connectTemporal(config: Config, log: Log): Promise<Temporal> {
  logTemporalTo(log);
  const fromEnvironment = loadClientConnectConfig();
  const connection = await NativeConnection.connect({
    ...fromEnvironment.connectionOptions,
    ...(config.temporalAddress === undefined ? {} : { address: config.temporalAddress }),
  });
  const namespace = fromEnvironment.namespace ?? config.temporal.namespace;
  return { connection, client: new Client({ connection, namespace }), namespace };
}

/** closed: its workflow ran to an end before; what is left to do shows in its rows. */
export type StartKind = "eager" | "normal" | "closed";

/**
 * Starts an attempt's workflow, or finds the one that runs. One that was terminated by hand can be
 * started again; one that completed cannot, and then its rows say so.
 */
export async function startAttempt(
  temporal: Temporal,
  config: TemporalConfig,
  attemptId: string,
): Promise<StartKind> {
  try {
    const handle = await temporal.client.workflow.start("attempt", {
      workflowId: attemptWorkflowId(attemptId as AttemptId),
      taskQueue: config.taskQueue,
      args: [{ attemptId, policy: { ...config.policy } }],
      workflowIdConflictPolicy: "USE_EXISTING",
      workflowIdReusePolicy: "ALLOW_DUPLICATE_FAILED_ONLY",
      workflowTaskTimeout: config.workflow.taskTimeoutMs,
      requestEagerStart: true,
    });
    return handle.eagerlyStarted ? "eager" : "normal";
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return "closed";
    throw error;
  }
}

/** INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE: asked again, it would be refused again. */
const REFUSALS: ReadonlySet<number> = new Set([3, 9, 11]);

/** Temporal answered, and would not start this one; anything else says nothing about the attempt. */
export function isRefused(error: unknown): boolean {
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) && REFUSALS.has(cause.code);
}

export type Told = "told" | "no_workflow";

/** Tells an attempt to look at its facts; returns when it has committed what follows from them. */
export async function tellToLook(temporal: Temporal, attemptId: string, deadlineMs: number): Promise<Told> {
  const handle = temporal.client.workflow.getHandle(attemptWorkflowId(attemptId as AttemptId));
  try {
    await temporal.connection.withDeadline(Date.now() + deadlineMs, () => handle.executeUpdate("look"));
    return "told";
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return "no_workflow";
    throw error;
  }
}

/**
 * Tells namespaces with the same name apart: it changes when Temporal's data is gone, and then the open
 * workflows are gone with it.
 */
export async function namespaceIdentity(temporal: Temporal): Promise<string> {
  const answer = await temporal.connection.workflowService.describeNamespace({
    namespace: temporal.namespace,
  });
  const id = answer.namespaceInfo?.id;
  if (id === undefined || id === null || id === "") throw new Error("Temporal did not name its namespace");
  return id;
}
