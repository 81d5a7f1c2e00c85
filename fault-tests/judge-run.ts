/** Puts all evidence of one run before all judges. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import path from "node:path";
import { Redis } from "ioredis";
import type pg from "pg";
import type { Customer } from "./customer.ts";
import { bankDifferences, bankFindings, type Difference, driftOf } from "./judges/bank.ts";
import {
  judgeBacklog,
  judgeBounds,
  judgeFacts,
  judgeLeaks,
  judgeLogs,
  judgeReviews,
  judgeStories,
  type ToldStory,
} from "./judges/checklist.ts";
import { type Classes, classify } from "./judges/classes.ts";
import { readBacklog, readConnections, readFacts, readWitnesses } from "./judges/collect.ts";
import type { Finding } from "./judges/evidence.ts";
import { judgeWebhooks } from "./judges/webhooks.ts";
import { judgeWitness } from "./judges/witness.ts";
import { connected, eventually, type Stage } from "./stage.ts";
import { CANARY, type Traffic } from "./traffic.ts";
import type { Watch } from "./watch.ts";

export interface Judged {
  classes: Classes;
  findings: Finding[];
  /** In units, as an absolute sum; no snapshot may have had any. */
  drift: number;
}

interface Evidence {
  stage: Stage;
  traffic: Traffic;
  customer: Customer;
  watch: Watch;
  /** Epoch milliseconds. */
  startedAt: number;
  signal: AbortSignal;
}

/** Time for what is due at once when everything is well (C9). */
const BACKLOG_PATIENCE_MS = 15_000;
const STORIES = 200;

export async function judgeRun(evidence: Evidence): Promise<Judged> {
  const { stage, traffic, customer, watch } = evidence;
  const { run } = stage.system;
  const requests = traffic.notes;
  const database = await connected(run.databaseUrl);
  try {
    const left = await whatIsLeft(stage, database, evidence.signal);
    const facts = await readFacts(database);
    const { submits, receipts } = await readWitnesses(run.suppliers);
    const ours = new Map(facts.messages.map((it) => [it.reference ?? "", it]));
    const differences = [...watch.differences.values(), ...(await bankDifferences(database))];
    const { messages, notifications } = facts;
    const findings = [
      ...judgeWitness({ requests, submits, receipts, messages: ours }),
      ...judgeFacts({ requests, facts, sightings: watch.sightings }),
      ...judgeWebhooks({ requests, messages, notifications, told: customer.told }),
      ...bankFindings(unique(differences)),
      ...judgeBacklog(left),
      ...judgeReviews([...watch.reviews.values()]),
      ...judgeStories(await readStories(stage, requests), facts),
      ...(await judgeLeaksIn(stage, new Set(requests.map((it) => it.to)))),
      ...judgeBounds(await bounds(stage, database)),
      ...judgeLogs(badLines(stage)),
      ...noEvidence({ submits, receipts, looks: watch.looks(), told: customer.told.length }),
    ];
    const classes = classify(requests, ours, facts.takes, findings);
    return { classes, findings, drift: driftOf(unique(differences)) };
  } finally {
    await database.end();
  }
}

/** Judges that had nothing to look at have found nothing either. */
function noEvidence(of: { submits: unknown[]; receipts: unknown[]; looks: number; told: number }): Finding[] {
  const counts = { submits: of.submits.length, receipts: of.receipts.length, looks: of.looks, told: of.told };
  return Object.entries(counts)
    .filter(([, count]) => count === 0)
    .map(([what]) => ({ clause: "evidence", verdict: "unexpected", subject: what, why: "there is none" }));
}

const unique = (differences: readonly Difference[]): Difference[] => [
  ...new Map(differences.map((it) => [`${it.what} ${it.subject}`, it])).values(),
];

async function whatIsLeft(
  stage: Stage,
  database: pg.Client,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  let left: Record<string, number> = {};
  await eventually(
    async () => {
      left = { ...(await readBacklog(database)), ...(await readStreams(stage)) };
      return Object.values(left).every((count) => count === 0);
    },
    BACKLOG_PATIENCE_MS,
    signal,
    500,
  );
  return left;
}

/** Commands on streams, delivered and not: all of them are acknowledged in the end. */
async function readStreams(stage: Stage): Promise<Record<string, number>> {
  return onRedis(stage, async (redis) => {
    let entries = 0;
    for (const key of await redis.keys("*commands:*")) entries += await redis.xlen(key);
    return { "entries on streams": entries };
  });
}

async function onRedis<T>({ system }: Stage, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(system.run.redisUrl, { lazyConnect: true });
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

async function readStories({ system }: Stage, requests: Traffic["notes"]): Promise<ToldStory[]> {
  const known = requests.filter((it) => it.id !== undefined);
  const each = Math.max(1, Math.floor(known.length / STORIES));
  const stories: ToldStory[] = [];
  for (const { id } of known.filter((_, index) => index % each === 0)) {
    const answer = await fetch(`${system.run.api}/v1/messages/${id}`, {
      headers: { authorization: `Bearer ${system.run.apiKey}` },
      signal: AbortSignal.timeout(10_000),
    });
    if (answer.ok) stories.push((await answer.json()) as ToldStory);
  }
  return stories;
}

// ---- C10 ----------------------------------------------------------------------------------------

const CHUNK_BYTES = 16 * 2 ** 20;
/** Longer than anything that is looked for, so that nothing hides where two chunks meet. */
const OVERLAP_BYTES = 64;

async function judgeLeaksIn(stage: Stage, numbers: ReadonlySet<string>): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const file of filesToSearch(stage)) {
    for (const content of chunksOf(file)) {
      findings.push(...judgeLeaks([{ name: path.relative(stage.home, file), content }], numbers, CANARY));
    }
  }
  const places = [...(await metricsOf(stage)), ...(await redisOf(stage))];
  findings.push(...judgeLeaks(places, numbers, CANARY));
  return [...new Map(findings.map((it) => [`${it.subject} ${it.why}`, it])).values()];
}

/** Logs of all processes, and Temporal's histories as they lie on the disk. */
function filesToSearch({ home }: Stage): string[] {
  const logs = readdirSync(path.join(home, "logs")).map((name) => path.join(home, "logs", name));
  const histories = ["temporal.db", "temporal.db-wal"].map((name) => path.join(home, "temporal", name));
  return [...logs, ...histories].filter((file) => existsSync(file));
}

function* chunksOf(file: string): Generator<Buffer> {
  const { size } = statSync(file);
  const handle = openSync(file, "r");
  try {
    for (let at = 0; at < size; at += CHUNK_BYTES) {
      const chunk = Buffer.alloc(Math.min(CHUNK_BYTES + OVERLAP_BYTES, size - at));
      readSync(handle, chunk, 0, chunk.length, at);
      yield chunk;
    }
  } finally {
    closeSync(handle);
  }
}

async function metricsOf({ system }: Stage): Promise<{ name: string; content: Buffer }[]> {
  const places = Object.entries(system.run.metrics).map(async ([role, url]) => {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5_000) });
    return { name: `metrics of ${role}`, content: Buffer.from(await answer.text()) };
  });
  return Promise.all(places);
}

function redisOf(stage: Stage): Promise<{ name: string; content: Buffer }[]> {
  return onRedis(stage, async (redis) => {
    const places: { name: string; content: Buffer }[] = [];
    for (const key of await redis.keys("*")) {
      places.push({ name: `Redis ${key}`, content: (await redis.dumpBuffer(key)) ?? Buffer.alloc(0) });
    }
    return places;
  });
}

// ---- C11 and logs -------------------------------------------------------------------------------

/** Rule G's budget and the gateway's connection for its locks. */
const MOST_CONNECTIONS = 80;
const MOST_RESIDENT_MB = 600;

async function bounds(
  { system }: Stage,
  database: pg.Client,
): Promise<{ what: string; is: number; most: number }[]> {
  const { open, idleInTransaction } = await readConnections(database);
  return [
    { what: "connections to PostgreSQL", is: open, most: MOST_CONNECTIONS },
    { what: "idle transactions", is: idleInTransaction, most: 0 },
    ...Object.entries(system.run.pids).flatMap(([name, pid]) => {
      const residentMb = residentMbOf(pid);
      return name === "supervisor" || residentMb === undefined
        ? []
        : [{ what: `resident memory of ${name} in MB`, is: residentMb, most: MOST_RESIDENT_MB }];
    }),
  ];
}

/** Where the system says so; macOS has no such file, and then this is not judged. */
function residentMbOf(pid: number): number | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const kb = /VmRSS:\s+(\d+) kB/.exec(readFileSync(file, "utf8"))?.[1];
  return kb === undefined ? undefined : Math.round(Number(kb) / 1024);
}

/** Errors that no fault explains: a key that was not met as expected, and a replay that took another course. */
const BAD_LINES: readonly { in: RegExp; pattern: RegExp; what: string }[] = [
  { in: /^postgres/, pattern: /\b23505\b/, what: "an unexpected duplicate (23505)" },
  { in: /^postgres/, pattern: /\b40P01\b/, what: "a deadlock (40P01)" },
  { in: /^attempts/, pattern: /TMPRL1100|[Nn]ondeterminism|DeterminismViolation/, what: "a replay differed" },
];

function badLines({ home }: Stage): { log: string; what: string }[] {
  const folder = path.join(home, "logs");
  return readdirSync(folder).flatMap((name) =>
    BAD_LINES.filter((it) => it.in.test(name)).flatMap(({ pattern, what }) => {
      const lines = readFileSync(path.join(folder, name), "latin1").split("\n");
      const count = lines.filter((line) => pattern.test(line)).length;
      return count === 0 ? [] : [{ log: name, what: `${what}, ${count} times` }];
    }),
  );
}
