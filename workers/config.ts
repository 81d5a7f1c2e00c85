/**
 * Environment and temporal-config.yaml, read once, checked by one schema and frozen. No other file of
 * a role reads the environment.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { SLICE_WIDTHS } from "../domain/slices.ts";
import type { PublicationStart } from "../db/publication.ts";
import { type DataKeys, parseDataKeys } from "../db/data-keys.ts";

const port = z.coerce.number().int().min(0).max(65535);
const flag = z.stringbool();
/** `true`, `false`, or the applications for which it is true, with commas between them. */
const scopedFlag = z.union([
  flag,
  z
    .string()
    .regex(/^app_[\w-]+(,app_[\w-]+)*$/, "must be true, false, or application ids with commas between them")
    .transform((ids) => ids.split(",")),
]);
type Scope = z.output<typeof scopedFlag>;

const environment = z.object({
  DATABASE_URL: z.string().min(1),
  REDIS_URL: z.string().min(1),
  TEMPORAL_ADDRESS: z.string().min(1).optional(),
  /** One of the two: keys under which numbers and texts are stored; docs/data-life.md. */
  WAYBILL_DATA_KEYS: z.string().min(1).optional(),
  WAYBILL_DATA_KEYS_FILE: z.string().min(1).optional(),
  WAYBILL_HOST: z.string().default("127.0.0.1"),
  WAYBILL_API_PORT: port.default(7080),
  WAYBILL_METRICS_PORT: port.default(0),
  /** Stands before every Redis key. */
  WAYBILL_KEY_PREFIX: z.string().default("waybill:"),
  WAYBILL_TASK_QUEUE: z.string().min(1).optional(),
  WAYBILL_TEMPORAL_CONFIG: z.string().min(1).optional(),
  WAYBILL_WORKFLOW_BUNDLE: z.string().min(1).optional(),
  WAYBILL_LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  WAYBILL_RUN_FILE: z.string().min(1).optional(),
  WAYBILL_WEBHOOK_ALLOW_LOOPBACK: flag.default(false),
  /** `throughput`: see workers/throughput.ts. */
  WAYBILL_PROFILE: z.enum(["standard", "throughput"]).default("standard"),
  /** The flags of rule H; docs/flags.md says what each does, and which go together. */
  SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED: scopedFlag.default(true),
  SEND_SUBMIT_OUTBOX_SHADOW_ENABLED: scopedFlag.default(false),
  SEND_ROUTE_BATCH_ENABLED: flag.default(true),
  SEND_ROUTE_BATCH_SIZE: z.coerce.number().int().min(1).max(64).optional(),
  SEND_CALLBACK_POOL_ENABLED: flag.default(true),
  /** The role ends when its standard input does, so that it cannot outlive its supervisor. */
  WAYBILL_TETHERED: flag.default(false),
});

const dataKeySettings = environment.pick({ WAYBILL_DATA_KEYS: true, WAYBILL_DATA_KEYS_FILE: true });

const ms = z.int().min(1);
const count = z.int().min(1);
const days = z.int().min(0).max(36_500);

/** A message may be open for 72 hours, and its notification under way for as long again (D7, E3). */
const LONGEST_LIFE_DAYS = 7;
const forEverOrAtLeast = (least: number) =>
  days.refine((it) => it === 0 || it >= least, { error: `0 keeps it for ever; else ${least} days or more` });

const retention = z.strictObject({
  everyMs: ms,
  slice: z.enum(SLICE_WIDTHS),
  aheadDays: days.min(7),
  keepDays: z.strictObject({
    messages: forEverOrAtLeast(LONGEST_LIFE_DAYS),
    supplierEvents: forEverOrAtLeast(LONGEST_LIFE_DAYS),
    idempotencyKeys: forEverOrAtLeast(LONGEST_LIFE_DAYS),
    admissions: forEverOrAtLeast(LONGEST_LIFE_DAYS),
    anomalies: days,
    alerts: days,
    audit: days,
  }),
});

/** A step takes its time before and after the linger, and at 80 % of its timeout a task is prolonged. */
const LINGER_SHARE = 0.6;

const temporalConfig = z
  .strictObject({
    namespace: z.string().min(1),
    taskQueue: z.string().min(1),
    workflow: z.strictObject({ taskTimeoutMs: ms, stickyScheduleToStartMs: ms }),
    policy: z.strictObject({
      local: z.strictObject({ startToCloseMs: ms, tries: count, firstRetryMs: ms }),
      regular: z.strictObject({ heartbeatMs: ms, tries: count }),
      plans: count,
      lingerMs: z.int().min(0),
    }),
    coalesce: z.strictObject({ items: count.max(64), windowMs: z.int().min(0), batchesInFlight: count }),
    worker: z.strictObject({
      cachedWorkflows: count,
      workflowTasks: count,
      lingering: z.int().min(0),
      localActivities: count,
      activities: count,
      pollers: count,
    }),
    intake: z.strictObject({ claim: count.max(64), pollMs: ms }),
    results: z.strictObject({
      batch: count,
      pollMs: ms,
      gatherMs: z.int().min(0),
      tellsInFlight: count,
      tellTimeoutMs: ms,
    }),
    sweeper: z.strictObject({ everyMs: ms, batch: count }),
    retention,
  })
  .refine((it) => it.policy.lingerMs <= it.workflow.taskTimeoutMs * LINGER_SHARE, {
    error: `lingerMs must be at most ${LINGER_SHARE} of the workflow's taskTimeoutMs`,
    path: ["policy", "lingerMs"],
  })
  .refine(
    (it) => it.worker.lingering < it.worker.workflowTasks && it.worker.lingering < it.worker.localActivities,
    {
      error: "lingering must leave workflowTasks and localActivities for attempts that have work",
      path: ["worker", "lingering"],
    },
  );
export type TemporalConfig = Readonly<z.infer<typeof temporalConfig>>;

export interface Config {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  /** Undefined: as Temporal's own environment configuration says. */
  readonly temporalAddress: string | undefined;
  readonly dataKeys: DataKeys;
  readonly host: string;
  readonly apiPort: number;
  readonly metricsPort: number;
  readonly keyPrefix: string;
  readonly workflowBundle: string | undefined;
  readonly logLevel: "debug" | "info" | "warn" | "error" | "silent";
  readonly runFile: string | undefined;
  readonly allowLoopbackWebhooks: boolean;
  readonly tethered: boolean;
  readonly profile: "standard" | "throughput";
  /** What publication starts as; the mode that an operator stored wins (H). */
  readonly publication: PublicationStart;
  /** Settlement has connections of its own, so that a flood of receipts leaves the others theirs (D1). */
  readonly settlementPool: boolean;
  readonly temporal: TemporalConfig;
}

/** Throws one readable sentence a fault; a program that cannot be configured does not start. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const it = checked(environment, env, "environment");
  const temporal = readTemporalConfig(it.WAYBILL_TEMPORAL_CONFIG, it.WAYBILL_TASK_QUEUE);
  const dataKeys = readDataKeys(env);
  if (dataKeys === undefined) throw new Error(NO_DATA_KEYS);
  const items = it.SEND_ROUTE_BATCH_ENABLED ? (it.SEND_ROUTE_BATCH_SIZE ?? temporal.coalesce.items) : 1;
  return Object.freeze({
    databaseUrl: it.DATABASE_URL,
    redisUrl: it.REDIS_URL,
    temporalAddress: it.TEMPORAL_ADDRESS,
    dataKeys,
    host: it.WAYBILL_HOST,
    apiPort: it.WAYBILL_API_PORT,
    metricsPort: it.WAYBILL_METRICS_PORT,
    keyPrefix: it.WAYBILL_KEY_PREFIX,
    workflowBundle: it.WAYBILL_WORKFLOW_BUNDLE,
    logLevel: it.WAYBILL_LOG_LEVEL,
    runFile: it.WAYBILL_RUN_FILE,
    allowLoopbackWebhooks: it.WAYBILL_WEBHOOK_ALLOW_LOOPBACK,
    tethered: it.WAYBILL_TETHERED,
    profile: it.WAYBILL_PROFILE,
    publication: startOfPublication(
      it.SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED,
      it.SEND_SUBMIT_OUTBOX_SHADOW_ENABLED,
    ),
    settlementPool: it.SEND_CALLBACK_POOL_ENABLED,
    temporal: { ...temporal, coalesce: { ...temporal.coalesce, items } },
  });
}

const NO_DATA_KEYS =
  "numbers and texts are stored encrypted: set WAYBILL_DATA_KEYS_FILE to a file with the keys, or WAYBILL_DATA_KEYS to the keys themselves; `waybill keys new` prints a set (keep a copy of it: without its keys a database is lost)";

/** Undefined where neither is set. Throws a sentence that quotes no key. */
export function readDataKeys(env: NodeJS.ProcessEnv): DataKeys | undefined {
  const { WAYBILL_DATA_KEYS: written, WAYBILL_DATA_KEYS_FILE: file } = checked(
    dataKeySettings,
    env,
    "environment",
  );
  if (written !== undefined && file !== undefined) {
    throw new Error("WAYBILL_DATA_KEYS and WAYBILL_DATA_KEYS_FILE are both set: which one counts?");
  }
  if (file !== undefined) return parseDataKeys(readFileSync(file, "utf8"));
  return written === undefined ? undefined : parseDataKeys(written);
}

/** A message has exactly one live publication path: it cannot go live and to the shadow at once (C5). */
function startOfPublication(publish: Scope, shadow: Scope): PublicationStart {
  const [published, shadowed] = [listOf(publish), listOf(shadow)];
  const both = published.filter((id) => shadowed.includes(id));
  if ((publish === true && shadow === true) || both.length > 0) {
    throw new Error(
      `SEND_SUBMIT_OUTBOX_SHADOW_ENABLED and SEND_SUBMIT_OUTBOX_PUBLISH_ENABLED are both on for ${both.join() || "all"}: a command goes live or to the shadow, never both`,
    );
  }
  return {
    mode: shadow === true ? "shadow" : publish === true ? "live" : "paused",
    applications: new Map([
      ...published.map((id) => [id, "live"] as const),
      ...shadowed.map((id) => [id, "shadow"] as const),
    ]),
  };
}

const listOf = (scope: Scope): string[] => (typeof scope === "boolean" ? [] : scope);

/** The file beside package.json, unless another is named. */
export function readTemporalConfig(path?: string, taskQueue?: string): TemporalConfig {
  const file = path ?? beside("temporal-config.yaml");
  const read = checked(temporalConfig, parse(readFileSync(file, "utf8")), file);
  return Object.freeze({ ...read, ...(taskQueue === undefined ? {} : { taskQueue }) });
}

/** Sources run from the checkout, compiled files from dist/ below it. */
function beside(name: string): string {
  const up = import.meta.url.includes("/dist/") ? "../../" : "../";
  return fileURLToPath(new URL(up + name, import.meta.url));
}

function checked<T extends z.ZodType>(schema: T, value: unknown, where: string): z.output<T> {
  const result = schema.safeParse(value);
  if (!result.success) throw new Error(`${where} is not valid:\n${z.prettifyError(result.error)}`);
  return result.data;
}
