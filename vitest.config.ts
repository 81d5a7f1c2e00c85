import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // Temporal's native module does not survive worker threads.
    pool: "forks",
    // The servers and the simulated suppliers want their share of two cores.
    maxWorkers: 2,
    // Some unit tests run a process of ours: on a busy machine its start alone can take seconds.
    testTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: [
            "{domain,fault-points,fault-tests,gateway-bridge,activities,workers,api,scripts,db,workflows,load-tests}/**/*.test.ts",
          ],
        },
      },
      {
        extends: true,
        test: {
          name: "replay",
          include: ["tests/replay.test.ts", "tests/architecture.test.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "integration",
          include: ["tests/**/*.test.ts"],
          exclude: ["tests/replay.test.ts", "tests/architecture.test.ts"],
          globalSetup: ["tests/global-setup.ts"],
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
