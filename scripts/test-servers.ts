/** The servers of one test run: up while the tests run, stopped whatever comes of them. */
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { keepChildren } from "./children.ts";
import type { Copy } from "./copy.ts";
import { troubleIn } from "./postgres-log.ts";
import { SERVERS, startServers } from "./start-servers.ts";
import { listenForStop } from "./stop-requests.ts";

/** How tests are told where the servers of their run are. */
export interface TestAddresses {
  WAYBILL_TEST_DATABASE_URL: string;
  WAYBILL_TEST_REDIS_URL: string;
  WAYBILL_TEST_TEMPORAL_ADDRESS: string;
}

/** Answers what PostgreSQL logged meanwhile and must not have. */
export async function serveTests(
  { root, home, steps, servers, remember }: Copy,
  work: (addresses: TestAddresses) => Promise<void>,
): Promise<string[]> {
  const stop = listenForStop();
  const logs = path.join(home, "logs");
  mkdirSync(logs, { recursive: true, mode: 0o700 });
  const children = keepChildren({
    logs,
    reaperScript: path.join(root, "scripts/reaper.mjs"),
    onChange: remember,
    tell: (what) => steps.line(what),
  });
  stop.onSecond(() => children.kill());
  try {
    await startServers(children, servers, steps, stop.signal);
    await work({
      WAYBILL_TEST_DATABASE_URL: servers.databaseUrl,
      WAYBILL_TEST_REDIS_URL: servers.redisUrl,
      WAYBILL_TEST_TEMPORAL_ADDRESS: servers.temporalAddress,
    });
    return troubleIn(readFileSync(children.logOf("postgres"), "utf8"));
  } finally {
    await children.stop(SERVERS);
    await children.close();
    stop.close();
  }
}
