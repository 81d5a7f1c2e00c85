/** The Temporal worker: workflow code and the five activities, in one process with the intake. */
import { fileURLToPath } from "node:url";
import { Worker } from "@temporalio/worker";
import type { Activities } from "../activities/index.ts";
import type { Config } from "./config.ts";
import type { Log, Service } from "./service.ts";
import { errorName } from "./service.ts";
import type { Temporal } from "./temporal.ts";

/** `died` is called when the worker ends by itself: the process must then end too, to be restarted. */
export function createAttemptWorker(
  config: Config,
  temporal: Temporal,
  activities: Activities,
  log: Log,
  died: () => void,
): Service {
  let worker: Worker | undefined;
  let running: Promise<void> | undefined;
  const { worker: size, workflow, taskQueue } = config.temporal;
  return {
    name: "attempt-worker",
    async start() {
      if (worker !== undefined) return;
      worker = await Worker.create({
        connection: temporal.connection,
        namespace: temporal.namespace,
        taskQueue,
        activities,
        ...workflowCode(config),
        debugMode: config.profile === "throughput",
        maxCachedWorkflows: size.cachedWorkflows,
        maxConcurrentWorkflowTaskExecutions: size.workflowTasks,
        maxConcurrentLocalActivityExecutions: size.localActivities,
        maxConcurrentActivityTaskExecutions: size.activities,
        workflowTaskPollerBehavior: { type: "simple-maximum", maximum: size.pollers },
        activityTaskPollerBehavior: { type: "simple-maximum", maximum: 2 },
        stickyQueueScheduleToStartTimeout: workflow.stickyScheduleToStartMs,
        shutdownGraceTime: "5s",
      });
      running = worker.run().catch((error: unknown) => {
        log.error({ error: errorName(error) }, "the Temporal worker ended by itself");
        died();
      });
    },
    async stop() {
      if (worker?.getState() === "RUNNING") worker.shutdown();
      await running;
      worker = undefined;
      running = undefined;
    },
  };
}

/** A bundle made at build time where there is one; else it is made from the sources at start. */
function workflowCode(config: Config): { workflowBundle: { codePath: string } } | { workflowsPath: string } {
  return config.workflowBundle === undefined
    ? { workflowsPath: fileURLToPath(new URL(`../workflows/index${extension}`, import.meta.url)) }
    : { workflowBundle: { codePath: config.workflowBundle } };
}

const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
