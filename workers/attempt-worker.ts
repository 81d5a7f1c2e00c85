/** The Temporal worker: workflow code and the five activities, in one process with the intake. */
import { fileURLToPath } from "node:url";
import { Worker } from "@temporalio/worker";
import type { Activities } from "../activities/index.ts";
import type { Lingers } from "../activities/linger.ts";
import type { Config } from "./config.ts";
import type { Log, Service } from "./service.ts";
import { errorName } from "./service.ts";
import type { Temporal } from "./temporal.ts";

interface Deps {
  config: Config;
  temporal: Temporal;
  activities: Activities;
  lingers: Lingers;
  log: Log;
  /** The worker ended by itself: the process must then end too, to be restarted. */
  died: () => void;
}

export function createAttemptWorker({ config, temporal, activities, lingers, log, died }: Deps): Service {
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
      lingers.end();
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
