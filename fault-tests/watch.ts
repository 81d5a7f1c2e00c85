/**
 * Looks while it runs: states of messages, whether the bank check holds, whether anybody was asked to
 * review. It also keeps one transaction open and idle for as long as the run, as a forgotten client would.
 */
import type pg from "pg";
import { bankDifferences, type Difference } from "./judges/bank.ts";
import { readReviews, readSightings } from "./judges/collect.ts";
import type { Sighting } from "./judges/evidence.ts";
import { connected, pause } from "./stage.ts";

export interface Watch {
  readonly sightings: readonly Sighting[];
  /** Of every look that found one, by what and whom it is about. */
  readonly differences: ReadonlyMap<string, Difference>;
  readonly reviews: ReadonlyMap<string, { attemptId: string; reason: string }>;
  /** How often it could look. */
  looks(): number;
  stop(): Promise<void>;
}

const EVERY_MS = 1_000;
/** The whole ledger is read for one, so it is not done at every look. */
const LOOKS_A_CHECK = 3;
/** What became final a little before the last look may have been seen as something else then. */
const OVERLAP_MS = 10_000;

export function startWatch(databaseUrl: string): Watch {
  const sightings: Sighting[] = [];
  const differences = new Map<string, Difference>();
  const reviews = new Map<string, { attemptId: string; reason: string }>();
  const seen = new Map<string, string>();
  let looks = 0;
  let isOver = false;
  let since = new Date(0);
  let looking: pg.Client | undefined;
  let idle: pg.Client | undefined;

  async function look(): Promise<void> {
    looking ??= await connected(databaseUrl);
    idle ??= await idleTransaction(databaseUrl, () => (idle = undefined));
    const startedAt = new Date(Date.now() - OVERLAP_MS);
    for (const it of await readSightings(looking, since)) {
      if (seen.get(it.messageId) === it.status) continue;
      seen.set(it.messageId, it.status);
      sightings.push(it);
    }
    since = startedAt;
    if (looks % LOOKS_A_CHECK === 0) {
      for (const it of await bankDifferences(looking)) differences.set(`${it.what} ${it.subject}`, it);
    }
    for (const it of await readReviews(looking)) reviews.set(it.attemptId, it);
    looks++;
  }

  /** PostgreSQL is one of those that are killed: the connections are made anew then. */
  async function run(): Promise<void> {
    while (!isOver) {
      await look().catch(async () => {
        const broken = looking;
        looking = undefined;
        await broken?.end().catch(() => undefined);
      });
      await pause(EVERY_MS);
    }
    await Promise.allSettled([looking?.end(), idle?.end()]);
  }

  const running = run();
  return {
    sightings,
    differences,
    reviews,
    looks: () => looks,
    async stop() {
      isOver = true;
      await running;
    },
  };
}

/** Its snapshot stays, and with it every row version since. */
async function idleTransaction(databaseUrl: string, ended: () => void): Promise<pg.Client> {
  const client = await connected(databaseUrl);
  client.once("end", ended);
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT count(*) FROM messages");
  return client;
}
