/** What each role is started with. */
import path from "node:path";
import type { Recipe } from "./children.ts";
import type { Copy } from "./copy.ts";
import { dataKeySettings } from "./data-keys.ts";
import type { Layout } from "./layout.ts";
import type { Role } from "./roles.ts";
import { runFileIn } from "./run-file.ts";

/** What a role is told beside what all roles are told. */
export interface RoleSettings {
  always?: Readonly<Record<string, string>>;
  /** In its next life alone: a role that a kill point ended comes back without it. */
  once?: Readonly<Record<string, string>>;
}

const PROGRAMS: Readonly<Record<Role, readonly [string, ...string[]]>> = {
  api: ["workers/main.js", "api"],
  attempts: ["workers/main.js", "attempts"],
  results: ["workers/main.js", "results"],
  notifier: ["workers/main.js", "notifier"],
  sweeper: ["workers/main.js", "sweeper"],
  gateway: ["gateway-bridge/main.js"],
  simulator: ["gateway-bridge/simulator-main.js"],
};

/** The worker takes what the API leaves: accepting stays quick when the machine is full (design §6). */
const NICENESS: Partial<Record<Role, number>> = { attempts: 5 };

export function roleRecipe(
  role: Role,
  { root, home }: Copy,
  layout: Layout,
  settings: RoleSettings = {},
): Recipe {
  const [script, ...args] = PROGRAMS[role];
  const { databaseUrl, redisUrl, temporal } = layout.seenBy[role];
  return {
    name: role,
    title: role,
    command: process.env["WAYBILL_NODE"] ?? process.execPath,
    args: ["--enable-source-maps", path.join(root, "dist", script), ...args],
    env: {
      ...inherited(),
      ...temporal,
      NODE_COMPILE_CACHE: path.join(home, "compile-cache"), // Starts faster from Node 22 on; unknown to 20.
      // Made at build time: a worker that finds it does not compile workflow code at each start.
      WAYBILL_WORKFLOW_BUNDLE: path.join(root, "dist/workflow-bundle.js"),
      DATABASE_URL: databaseUrl,
      REDIS_URL: redisUrl,
      WAYBILL_HOST: "127.0.0.1",
      WAYBILL_API_PORT: String(layout.apiPort),
      WAYBILL_METRICS_PORT: String(layout.metricsPorts[role]),
      WAYBILL_RUN_FILE: runFileIn(home),
      WAYBILL_WEBHOOK_ALLOW_LOOPBACK: "1",
      WAYBILL_TETHERED: "1",
      ...(role === "simulator" ? simulatorSettings(home, layout) : dataKeySettings(home)),
      ...layout.shape.roleEnvironment,
      ...settings.always,
    },
    ...(settings.once === undefined ? {} : { firstLife: settings.once }),
    niceness: NICENESS[role] ?? 0,
    stopSignal: "SIGTERM",
    tethered: true,
  };
}

/** It keeps its witness log and unacknowledged receipts in a folder, so they survive its restarts. */
const simulatorSettings = (home: string, layout: Layout): Record<string, string> => ({
  WAYBILL_SIMULATOR: JSON.stringify({
    ...layout.shape.simulator,
    dataDir: path.join(home, "simulator"),
    suppliers: layout.simulated,
  }),
});

/** Temporal's settings are passed on by the layout alone, and npm's are of no use to a role. */
function inherited(): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TEMPORAL_|npm_)/.test(name)));
}
