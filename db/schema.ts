/**
 * Every table, with the checks and unique keys on which the code relies (`ON CONFLICT … RETURNING`
 * instead of hoping). Money is an integer of 1/10000 of the currency unit. Times are the database's.
 */
import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  customType,
  date,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import {
  ATTEMPT_STATES,
  FINAL_STATUSES,
  MESSAGE_STATUSES,
  OPERATORS,
  RECEIPT_MODES,
  SEGMENT_RECEIPTS,
  SEGMENT_RESULTS,
} from "../domain/message.ts";

const bytea = customType<{ data: Buffer }>({ dataType: () => "bytea" });
/**
 * Ids that sort by time, byte by byte: what the tables that grow with every message are partitioned by
 * (migration 0004, docs/decisions). A partition holds a stretch of time, and a row of each of these tables
 * lies in the same stretch as its message.
 */
const sortedId = customType<{ data: string }>({ dataType: () => 'text COLLATE "C"' });
const at = (name: string) => timestamp(name, { withTimezone: true });
const createdAt = () => at("created_at").notNull().defaultNow();
const units = (name: string) => bigint(name, { mode: "bigint" });
/** By `Vault.hash`: what numbers are searched and matched by. */
const numberHash = () => text("number_hash");
const sealedNumber = () => ({
  numberHash: numberHash().notNull(),
  numberSealed: bytea("number_sealed").notNull(),
});
const oneOf = (column: string, values: readonly string[]) =>
  sql.raw(`${column} IN (${values.map((value) => `'${value}'`).join(", ")})`);

const PUBLICATION_MODES = ["live", "paused", "shadow"] as const;

// ---- who sends, and with what money -------------------------------------------------------------

export const enterprises = pgTable("enterprises", {
  id: text().primaryKey(),
  name: text().notNull(),
  active: boolean().notNull().default(true),
  createdAt: createdAt(),
});

/** One row is locked last in every transaction that moves money (D11). */
export const accounts = pgTable(
  "accounts",
  {
    id: text().primaryKey(),
    enterpriseId: text("enterprise_id")
      .notNull()
      .references(() => enterprises.id),
    currency: text().notNull(),
    balanceUnits: units("balance_units")
      .notNull()
      .default(sql`0`),
    heldUnits: units("held_units")
      .notNull()
      .default(sql`0`),
    floorUnits: units("floor_units")
      .notNull()
      .default(sql`0`),
    createdAt: createdAt(),
  },
  (t) => [
    check("accounts_balance_above_floor", sql`${t.balanceUnits} >= ${t.floorUnits}`),
    check("accounts_held_not_negative", sql`${t.heldUnits} >= 0`),
  ],
);

export const channelGroups = pgTable(
  "channel_groups",
  {
    id: text().primaryKey(),
    name: text().notNull(),
    /** Closes the window for retries; counted from the message's acceptance (D7). */
    retryWindowSeconds: integer("retry_window_seconds").notNull().default(3600),
    maxAttempts: integer("max_attempts").notNull().default(3),
  },
  (t) => [check("channel_groups_attempts_positive", sql`${t.maxAttempts} >= 1`)],
);

export const applications = pgTable(
  "applications",
  {
    id: text().primaryKey(),
    enterpriseId: text("enterprise_id")
      .notNull()
      .references(() => enterprises.id),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    channelGroupId: text("channel_group_id")
      .notNull()
      .references(() => channelGroups.id),
    name: text().notNull(),
    active: boolean().notNull().default(true),
    unitPriceUnits: units("unit_price_units").notNull(),
    /** The filing under which a text without 【…】 goes out unchanged. */
    defaultSignatureId: text("default_signature_id"),
    ratePerSecond: integer("rate_per_second"),
    /** Every text has to match one of its approved templates (A3). */
    templateRequired: boolean("template_required").notNull().default(false),
    /** Messages that it may send on one day in Asia/Shanghai; null: any number (A3). */
    dailyLimit: integer("daily_limit"),
    webhookUrl: text("webhook_url"),
    webhookSecret: text("webhook_secret").notNull(),
    /** Both sign while a secret is being rotated (interfaces §3). */
    webhookSecretPrevious: text("webhook_secret_previous"),
    /** Null: until it is taken out. */
    webhookSecretPreviousUntil: at("webhook_secret_previous_until"),
    /** Digits that follow a channel's number where this application is the sender (cmpp §13). */
    extension: text(),
    /** Words with which a recipient refuses, or asks again; null: those of the supplier's profile. */
    optOutWords: text("opt_out_words").array(),
    optInWords: text("opt_in_words").array(),
    createdAt: createdAt(),
  },
  (t) => [
    check("applications_extension", sql`${t.extension} ~ '^[0-9]{1,20}$'`),
    check("applications_price_positive", sql`${t.unitPriceUnits} > 0`),
    check("applications_daily_limit", sql`${t.dailyLimit} >= 0`),
  ],
);

export const apiKeys = pgTable("api_keys", {
  id: text().primaryKey(),
  applicationId: text("application_id")
    .notNull()
    .references(() => applications.id),
  /** SHA-256 of the secret part; the key itself is shown once and never stored. */
  secretHash: bytea("secret_hash").notNull().unique(),
  active: boolean().notNull().default(true),
  createdAt: createdAt(),
});

export const opsTokens = pgTable(
  "ops_tokens",
  {
    id: text().primaryKey(),
    secretHash: bytea("secret_hash").notNull().unique(),
    role: text().notNull(),
    active: boolean().notNull().default(true),
    createdAt: createdAt(),
  },
  () => [check("ops_tokens_role", oneOf("role", ["viewer", "operator"]))],
);

// ---- where it can go ----------------------------------------------------------------------------

/** A supplier account: one CMPP login with its quirks as data. */
export const suppliers = pgTable("suppliers", {
  id: text().primaryKey(),
  name: text().notNull(),
  active: boolean().notNull().default(true),
  secret: text().notNull(),
  /** `SupplierProfile` of gateway-bridge/supplier.ts, validated when it is read. */
  profile: jsonb().notNull(),
  createdAt: createdAt(),
});

export const channels = pgTable(
  "channels",
  {
    id: text().primaryKey(),
    supplierId: text("supplier_id")
      .notNull()
      .references(() => suppliers.id),
    name: text().notNull(),
    active: boolean().notNull().default(true),
    operators: text().array().notNull(),
    srcId: text("src_id").notNull(),
    receiptMode: text("receipt_mode").notNull().default("per_segment"),
    createdAt: createdAt(),
  },
  () => [check("channels_receipt_mode", oneOf("receipt_mode", RECEIPT_MODES))],
);

export const channelGroupMembers = pgTable(
  "channel_group_members",
  {
    groupId: text("group_id")
      .notNull()
      .references(() => channelGroups.id),
    channelId: text("channel_id")
      .notNull()
      .references(() => channels.id),
    /** Smaller goes first. */
    priority: integer().notNull(),
    weight: integer().notNull().default(1),
  },
  (t) => [
    primaryKey({ columns: [t.groupId, t.channelId] }),
    check("channel_group_members_weight", sql`${t.weight} > 0`),
  ],
);

export const signatures = pgTable(
  "signatures",
  {
    id: text().primaryKey(),
    enterpriseId: text("enterprise_id")
      .notNull()
      .references(() => enterprises.id),
    /** With its brackets, as it stands at the head of a text. */
    text: text().notNull(),
    status: text().notNull().default("pending"),
  },
  (t) => [
    unique("signatures_text_per_enterprise").on(t.enterpriseId, t.text),
    check("signatures_status", oneOf("status", ["pending", "approved", "rejected"])),
  ],
);

/** A signature is sold on a channel only where it was filed with that channel's supplier. */
export const filings = pgTable(
  "filings",
  {
    id: text().primaryKey(),
    signatureId: text("signature_id")
      .notNull()
      .references(() => signatures.id),
    channelId: text("channel_id")
      .notNull()
      .references(() => channels.id),
    active: boolean().notNull().default(true),
  },
  (t) => [unique("filings_once").on(t.signatureId, t.channelId)],
);

/**
 * The longest wins. A single number that was ported to another operator stands as `#` and its hash, which
 * is longer than any prefix (A6).
 */
export const numberPrefixes = pgTable(
  "number_prefixes",
  {
    prefix: text().primaryKey(),
    numberSealed: bytea("number_sealed"),
    operator: text().notNull(),
  },
  (t) => [
    check("number_prefixes_operator", oneOf("operator", OPERATORS)),
    check(
      "number_prefixes_digits",
      sql`CASE WHEN ${t.numberSealed} IS NULL THEN ${t.prefix} ~ '^1[0-9]{2,9}$' ELSE ${t.prefix} ~ '^#.{22}$' END`,
    ),
  ],
);

/** One row a connection slot, kept by its owner; a stale heartbeat means not connected (B4). */
export const connections = pgTable(
  "connections",
  {
    supplierId: text("supplier_id")
      .notNull()
      .references(() => suppliers.id),
    slot: smallint().notNull(),
    owner: text().notNull(),
    epoch: bigint({ mode: "bigint" }).notNull(),
    connected: boolean().notNull(),
    heartbeatAt: at("heartbeat_at").notNull(),
    windowInUse: integer("window_in_use").notNull().default(0),
    lastError: text("last_error"),
  },
  (t) => [primaryKey({ columns: [t.supplierId, t.slot] })],
);

// ---- what may be sent, to whom and how often (A3) -----------------------------------------------

/** A text that was approved, with `{name}` where it may differ. */
export const templates = pgTable(
  "templates",
  {
    id: text().primaryKey(),
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    body: text().notNull(),
    status: text().notNull().default("pending"),
    createdAt: createdAt(),
  },
  (t) => [
    check("templates_status", oneOf("status", ["pending", "approved", "rejected"])),
    index("templates_approved")
      .on(t.applicationId)
      .where(sql`${t.status} = 'approved'`),
  ],
);

/** Numbers that get nothing from one application, or from none where it names none. */
export const blacklist = pgTable(
  "blacklist",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    ...sealedNumber(),
    applicationId: text("application_id").references(() => applications.id),
    /** Who wants it: we, or the recipient. */
    source: text().notNull().default("platform"),
    createdAt: createdAt(),
  },
  (t) => [
    uniqueIndex("blacklist_once").on(t.numberHash, sql`coalesce(${t.applicationId}, '')`),
    check("blacklist_source", oneOf("source", ["platform", "opt_out"])),
  ],
);

/** Messages of an application to one number within any stretch of so many seconds. */
export const frequencyLimits = pgTable(
  "frequency_limits",
  {
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    windowSeconds: integer("window_seconds").notNull(),
    maxMessages: integer("max_messages").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.applicationId, t.windowSeconds] }),
    check("frequency_limits_window", sql`${t.windowSeconds} BETWEEN 1 AND 86400`),
    check("frequency_limits_positive", sql`${t.maxMessages} > 0`),
  ],
);

/**
 * Messages that count towards a limit, once each, written with their reservation (A4). The number that
 * the last one has within its day is the day's count: no counter is kept that could drift from them.
 */
export const admissions = pgTable(
  "admissions",
  {
    messageId: text("message_id").primaryKey(),
    enterpriseId: text("enterprise_id").notNull(),
    applicationId: text("application_id").notNull(),
    numberHash: numberHash().notNull(),
    countedAt: at("counted_at").notNull(),
    /** In Asia/Shanghai. */
    day: date().notNull(),
    numberOfDay: integer("number_of_day").notNull(),
  },
  (t) => [
    unique("admissions_numbered").on(t.applicationId, t.day, t.numberOfDay),
    index("admissions_of_recipient").on(t.applicationId, t.numberHash, t.countedAt),
  ],
);

// ---- the message and its attempts ---------------------------------------------------------------

export const batches = pgTable("batches", {
  id: sortedId().primaryKey(),
  applicationId: text("application_id")
    .notNull()
    .references(() => applications.id),
  itemCount: integer("item_count").notNull(),
  createdAt: createdAt(),
});

export const messages = pgTable(
  "messages",
  {
    id: sortedId().primaryKey(),
    enterpriseId: text("enterprise_id").notNull(),
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    accountId: text("account_id").notNull(),
    batchId: text("batch_id"),
    ...sealedNumber(),
    textSealed: bytea("text_sealed").notNull(),
    encoding: text().notNull(),
    segmentCount: integer("segment_count").notNull(),
    reference: text(),
    webhookUrl: text("webhook_url"),
    unitPriceUnits: units("unit_price_units").notNull(),
    priceUnits: units("price_units").notNull(),
    currency: text().notNull(),
    status: text().notNull().default("accepted"),
    reason: text(),
    /** A segment's submit outcome is unknown: it may or may not have reached the supplier. */
    uncertain: boolean().notNull().default(false),
    /** Known once the reservation's checks have passed. */
    operator: text(),
    signatureId: text("signature_id"),
    currentAttemptId: text("current_attempt_id").notNull(),
    createdAt: createdAt(),
    expiresAt: at("expires_at").notNull(),
    queuedAt: at("queued_at"),
    sentAt: at("sent_at"),
    finalAt: at("final_at"),
  },
  (t) => [
    check("messages_status", oneOf("status", MESSAGE_STATUSES)),
    check("messages_encoding", oneOf("encoding", ["ascii", "ucs2"])),
    check("messages_price", sql`${t.priceUnits} = ${t.unitPriceUnits} * ${t.segmentCount}`),
    check(
      "messages_final_has_a_time",
      sql`(${t.finalAt} IS NOT NULL) = (${oneOf("status", FINAL_STATUSES)})`,
    ),
    index("messages_newest").on(t.applicationId, t.createdAt.desc(), t.id.desc()),
    index("messages_by_reference")
      .on(t.applicationId, t.reference, t.createdAt.desc(), t.id.desc())
      .where(sql`${t.reference} IS NOT NULL`),
    index("messages_by_number").on(t.applicationId, t.numberHash, t.createdAt.desc(), t.id.desc()),
    /** Everything that ended otherwise than delivered has a reason. */
    index("messages_with_a_reason")
      .on(t.applicationId, t.createdAt.desc(), t.id.desc())
      .where(sql`${t.reason} IS NOT NULL`),
    index("messages_of_batch")
      .on(t.batchId)
      .where(sql`${t.batchId} IS NOT NULL`),
    index("messages_uncertain")
      .on(t.currentAttemptId)
      .where(sql`${t.uncertain} AND ${t.finalAt} IS NULL`),
    index("messages_past_limit")
      .on(t.expiresAt)
      .where(sql`${t.finalAt} IS NULL`),
  ],
);

/** The first answer to a client key, given again to whoever repeats it (A1). */
export const idempotencyKeys = pgTable(
  "idempotency_keys",
  {
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    key: text().notNull(),
    /** Keyed hash of the SHA-256 of the parsed body in canonical form: a body can be guessed. */
    bodyHash: text("body_hash").notNull(),
    /** Its exact bytes but for the time at its end, which is `created_at`. */
    answerSealed: bytea("answer_sealed").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    primaryKey({ columns: [t.applicationId, t.key] }),
    index("idempotency_keys_oldest").on(t.createdAt),
  ],
);

/**
 * Attempts that a workflow has to take up: accepted messages and successors alike. The row is closed
 * (deleted) by the transaction that persists the attempt or ends the message, never by a start (A2).
 */
export const inbox = pgTable(
  "inbox",
  {
    attemptId: text("attempt_id").primaryKey(),
    messageId: text("message_id").notNull(),
    dueAt: at("due_at").notNull().defaultNow(),
    startCount: integer("start_count").notNull().default(0),
  },
  (t) => [index("inbox_due").on(t.dueAt)],
);

export const attempts = pgTable(
  "attempts",
  {
    id: sortedId().primaryKey(),
    messageId: text("message_id").notNull(),
    enterpriseId: text("enterprise_id").notNull(),
    applicationId: text("application_id").notNull(),
    number: integer().notNull(),
    retryOf: text("retry_of"),
    submitId: text("submit_id").notNull(),
    state: text().notNull(),
    channelId: text("channel_id").references(() => channels.id),
    supplierId: text("supplier_id").references(() => suppliers.id),
    receiptMode: text("receipt_mode"),
    segmentCount: integer("segment_count").notNull(),
    /** Candidates and what spoke for or against each, as the plan saw them (B). */
    route: jsonb(),
    /** Raised by every fold; settlement commits only at the revision that it judged (D10). */
    factsRevision: integer("facts_revision").notNull().default(0),
    /** A decision is due since then; the workflow has to be told. */
    dueAt: at("due_at"),
    outcome: text(),
    reason: text(),
    /** A person accepted that this text may arrive twice: channels that were tried may be used again. */
    mayRepeatChannels: boolean("may_repeat_channels").notNull().default(false),
    createdAt: createdAt(),
    queuedAt: at("queued_at"),
    decidedAt: at("decided_at"),
  },
  (t) => [
    // Number, submit id and predecessor follow from the id, so the primary key makes each of them unique:
    // an attempt has one successor, ever (D6).
    check("attempts_id", sql`${t.id} = 'att_' || substr(${t.messageId}, 5) || '_' || ${t.number}::text`),
    check("attempts_submit_id", sql`${t.submitId} = 'sub_' || substr(${t.id}, 5)`),
    check(
      "attempts_retry_of",
      sql`${t.retryOf} IS NOT DISTINCT FROM
          CASE WHEN ${t.number} > 1 THEN 'att_' || substr(${t.messageId}, 5) || '_' || (${t.number} - 1)::text END`,
    ),
    check("attempts_number", sql`${t.number} >= 1`),
    // One index a partition (add_partition): all attempts of a message lie in the same one.
    uniqueIndex("attempts_one_live_per_message")
      .on(t.messageId)
      .where(sql`${t.decidedAt} IS NULL`),
    check("attempts_state", oneOf("state", ATTEMPT_STATES)),
    check("attempts_queued_has_channel", sql`${t.state} <> 'queued' OR ${t.channelId} IS NOT NULL`),
    check(
      "attempts_decided_has_outcome",
      sql`(${t.state} = 'decided') = (${t.decidedAt} IS NOT NULL AND ${t.outcome} IS NOT NULL)`,
    ),
    index("attempts_decision_due")
      .on(t.dueAt, t.id)
      .where(sql`${t.decidedAt} IS NULL AND ${t.dueAt} IS NOT NULL`),
  ],
);

/**
 * Attempts on which a person must decide (D12). An attempt may be here before it has a row of its own:
 * its very first step can fail.
 */
export const reviews = pgTable(
  "reviews",
  {
    attemptId: text("attempt_id").primaryKey(),
    messageId: text("message_id").notNull(),
    reason: text().notNull(),
    since: at("since").notNull().defaultNow(),
    /** A person said to wait longer: it is listed no more, and not opened again for the same reason. */
    waitingSince: at("waiting_since"),
  },
  (t) => [
    index("reviews_open")
      .on(t.since)
      .where(sql`${t.waitingSince} IS NULL`),
  ],
);

/** Workflows whose attempt was decided without them, by a cancel: the sweeper tells them. */
export const untold = pgTable("untold", {
  attemptId: text("attempt_id").primaryKey(),
  since: at("since").notNull().defaultNow(),
});

export const segments = pgTable(
  "segments",
  {
    attemptId: sortedId("attempt_id").notNull(),
    part: smallint().notNull(),
    supplierId: text("supplier_id").notNull(),
    /** The recipient again, so that a receipt with an unknown Msg_Id finds its candidates (D14). */
    numberHash: numberHash().notNull(),
    result: text(),
    resultCode: integer("result_code"),
    /** The supplier's Msg_Id: 16 hex characters, never parsed (cmpp §10). */
    msgId: text("msg_id"),
    resultAt: at("result_at"),
    receipt: text(),
    receiptStat: text("receipt_stat"),
    receiptAt: at("receipt_at"),
  },
  (t) => [
    primaryKey({ columns: [t.attemptId, t.part] }),
    check("segments_result", oneOf("result", SEGMENT_RESULTS)),
    check("segments_receipt", oneOf("receipt", SEGMENT_RECEIPTS)),
    index("segments_by_msg_id")
      .on(t.supplierId, t.msgId)
      .where(sql`${t.msgId} IS NOT NULL`),
    index("segments_without_msg_id")
      .on(t.supplierId, t.numberHash)
      .where(sql`${t.msgId} IS NULL AND (${t.result} IS NULL OR ${t.result} IN ('accepted', 'unknown'))`),
    index("segments_unanswered")
      .on(t.attemptId)
      .where(sql`${t.result} IS NULL`),
  ],
);

/** Last reference used in a long message's user data header, per sender and recipient (cmpp §8). */
export const concatReferences = pgTable(
  "concat_references",
  { srcId: text("src_id").notNull(), numberHash: numberHash().notNull(), last: smallint().notNull() },
  (t) => [primaryKey({ columns: [t.srcId, t.numberHash] })],
);

export const submitOutbox = pgTable(
  "submit_outbox",
  {
    id: bigint({ mode: "bigint" }).notNull().generatedAlwaysAsIdentity(),
    submitId: sortedId("submit_id").primaryKey(),
    messageId: text("message_id").notNull(),
    applicationId: text("application_id").notNull(),
    attemptId: text("attempt_id").notNull(),
    channelId: text("channel_id").notNull(),
    /** Sealed, in base64url: it goes to Redis as it is. */
    payload: text().notNull(),
    schemaVersion: integer("schema_version").notNull(),
    status: text().notNull().default("pending"),
    attemptCount: integer("attempt_count").notNull().default(0),
    nextAttemptAt: at("next_attempt_at").notNull().defaultNow(),
    leaseOwner: text("lease_owner"),
    leaseExpiresAt: at("lease_expires_at"),
    streamEntryId: text("stream_entry_id"),
    /** Where the row went while the mode was shadow, and what it held (C5). */
    shadowEntryId: text("shadow_entry_id"),
    shadowPayloadHash: bytea("shadow_payload_hash"),
    publishedAt: at("published_at"),
    lastError: text("last_error"),
    createdAt: createdAt(),
    updatedAt: at("updated_at").notNull().defaultNow(),
  },
  (t) => [
    check("submit_outbox_attempt", sql`${t.attemptId} = 'att_' || substr(${t.submitId}, 5)`),
    check("submit_outbox_status", oneOf("status", ["pending", "publishing", "published", "dead"])),
    check(
      "submit_outbox_lease",
      sql`(${t.status} = 'publishing') = (${t.leaseOwner} IS NOT NULL AND ${t.leaseExpiresAt} IS NOT NULL)`,
    ),
    check("submit_outbox_published", sql`${t.status} <> 'published' OR ${t.publishedAt} IS NOT NULL`),
    /** By application, so that what one of them holds back is stepped over in one move (C4, C5). */
    index("submit_outbox_unpublished")
      .on(t.applicationId, t.nextAttemptAt)
      .where(sql`${t.status} IN ('pending', 'publishing')`),
    index("submit_outbox_dead")
      .on(t.updatedAt)
      .where(sql`${t.status} = 'dead'`),
  ],
);

/** Publication mode of all; the one an operator stored wins over the flags it started with (H). */
export const publication = pgTable(
  "publication",
  {
    singleton: boolean().primaryKey().default(true),
    mode: text().notNull().default("live"),
    changedBy: text("changed_by"),
    changedAt: at("changed_at").notNull().defaultNow(),
  },
  (t) => [
    check("publication_singleton", sql`${t.singleton}`),
    check("publication_mode", oneOf("mode", PUBLICATION_MODES)),
  ],
);

/** Applications with a mode of their own: a staged rollout begins with one (H). */
export const applicationPublication = pgTable(
  "application_publication",
  {
    applicationId: text("application_id")
      .primaryKey()
      .references(() => applications.id),
    mode: text().notNull(),
    /** Null: as the flags said at a start. */
    changedBy: text("changed_by"),
    changedAt: at("changed_at").notNull().defaultNow(),
  },
  () => [check("application_publication_mode", oneOf("mode", PUBLICATION_MODES))],
);

/**
 * The proof that a part was written at most once: its row is committed before its first byte, and
 * whoever inserts first wins, the gateway (`write`) or a decision (`withdrawn`) (C3).
 */
export const takes = pgTable(
  "takes",
  {
    submitId: sortedId("submit_id").notNull(),
    part: smallint().notNull(),
    writeNumber: smallint("write_number").notNull(),
    kind: text().notNull(),
    attemptId: text("attempt_id").notNull(),
    supplierId: text("supplier_id").notNull(),
    owner: text().notNull(),
    slot: smallint(),
    epoch: bigint({ mode: "bigint" }),
    takenAt: at("taken_at").notNull().defaultNow(),
    /** accepted | rejected | throttled | unknown; null while nothing is known. */
    answer: text(),
    answeredAt: at("answered_at"),
  },
  (t) => [
    primaryKey({ columns: [t.submitId, t.part, t.writeNumber] }),
    check("takes_attempt", sql`${t.attemptId} = 'att_' || substr(${t.submitId}, 5)`),
    check("takes_kind", oneOf("kind", ["write", "withdrawn"])),
    check("takes_answer", oneOf("answer", ["accepted", "rejected", "throttled", "unknown"])),
    check("takes_write_has_connection", sql`${t.kind} = 'withdrawn' OR ${t.epoch} IS NOT NULL`),
    index("takes_unanswered")
      .on(t.takenAt)
      .where(sql`${t.kind} = 'write' AND ${t.answeredAt} IS NULL`),
  ],
);

/**
 * What has been said already: whoever inserts the key first stores the event, every later copy is counted
 * here (D2). A table of its own, so that a copy which comes after a border of partitions is one all the same.
 */
export const supplierEventKeys = pgTable(
  "supplier_event_keys",
  {
    eventKey: text("event_key").primaryKey(),
    eventId: bigint("event_id", { mode: "bigint" }).notNull(),
    /** How often the supplier repeated it. */
    copyCount: integer("copy_count").notNull().default(0),
  },
  (t) => [index("supplier_event_keys_of_event").on(t.eventId)],
);

/** What a supplier said, raw, committed before anything acts on it (D2). */
export const supplierEvents = pgTable(
  "supplier_events",
  {
    /** Begins with the second in which it was stored (next_event_id), so it sorts by time. */
    id: bigint({ mode: "bigint" })
      .primaryKey()
      .default(sql`next_event_id()`),
    /**
     * Unique by its row in supplier_event_keys; here it names the event, whatever became of that row. Of a
     * delivery a keyed hash: what tells two apart holds the number.
     */
    eventKey: text("event_key").notNull(),
    kind: text().notNull(),
    supplierId: text("supplier_id").notNull(),
    slot: smallint(),
    epoch: bigint({ mode: "bigint" }),
    /** Known at once for answers to a submit, by matching for receipts. */
    attemptId: text("attempt_id"),
    part: smallint(),
    writeNumber: smallint("write_number"),
    /** What the result code means by the supplier's profile; null for receipts. */
    answer: text(),
    resultCode: integer("result_code"),
    msgId: text("msg_id"),
    stat: text(),
    /** What the state of a receipt means by the supplier's own table when it came; null for answers. */
    meaning: text(),
    numberHash: numberHash(),
    numberSealed: bytea("number_sealed"),
    srcId: text("src_id"),
    rawSealed: bytea("raw_sealed"),
    receivedAt: at("received_at").notNull().defaultNow(),
    /** When to (re-)try folding; unmatched receipts wait here without filling the window. */
    dueAt: at("due_at").notNull().defaultNow(),
    tryCount: integer("try_count").notNull().default(0),
    foldedAt: at("folded_at"),
    /** applied | late | foreign: what folding made of it. */
    fate: text(),
  },
  (t) => [
    check("supplier_events_kind", oneOf("kind", ["response", "no_response", "receipt", "inbound"])),
    check("supplier_events_answer", oneOf("answer", ["accepted", "rejected", "throttled", "unknown"])),
    check("supplier_events_meaning", oneOf("meaning", ["delivered", "failed", "undecided"])),
    check("supplier_events_fate", oneOf("fate", ["applied", "late", "foreign"])),
    index("supplier_events_unfolded")
      .on(t.supplierId, t.dueAt, t.id)
      .where(sql`${t.foldedAt} IS NULL`),
    index("supplier_events_unmatched")
      .on(t.supplierId, t.numberHash)
      .where(sql`${t.foldedAt} IS NULL AND ${t.kind} = 'receipt'`),
    index("supplier_events_of_attempt")
      .on(t.attemptId)
      .where(sql`${t.attemptId} IS NOT NULL`),
  ],
);

/** Facts that contradict a decision or each other; nothing acts on them, a person can look (D8). */
export const anomalies = pgTable(
  "anomalies",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    kind: text().notNull(),
    attemptId: text("attempt_id"),
    eventId: bigint("event_id", { mode: "bigint" }),
    detail: text(),
    createdAt: createdAt(),
  },
  (t) => [unique("anomalies_once").on(t.kind, t.eventId)],
);

// ---- what recipients write ----------------------------------------------------------------------

/** A text that a recipient sent, joined from its parts, and whose it is. */
export const inboundMessages = pgTable(
  "inbound_messages",
  {
    id: sortedId().primaryKey(),
    supplierId: text("supplier_id")
      .notNull()
      .references(() => suppliers.id),
    channelId: text("channel_id").references(() => channels.id),
    /** Null: nobody knows whom it is for, and a person may say (D14). */
    applicationId: text("application_id").references(() => applications.id),
    enterpriseId: text("enterprise_id"),
    /** The handset, for equality and to be read. */
    numberHash: text("number_hash").notNull(),
    numberSealed: bytea("number_sealed").notNull(),
    /** The number that it wrote to: one of ours. */
    destId: text("dest_id").notNull(),
    /** A text, or bytes that are none. */
    isText: boolean("is_text").notNull(),
    contentSealed: bytea("content_sealed").notNull(),
    partCount: smallint("part_count").notNull(),
    /** False: the parts that lack did not come within an hour. */
    complete: boolean().notNull(),
    matchedBy: text("matched_by"),
    /** What the text did to its sender's wish for messages. */
    wish: text(),
    /** When its first part came. */
    receivedAt: at("received_at").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    check(
      "inbound_messages_matched_by",
      oneOf("matched_by", ["extension", "last_message", "only_application", "person"]),
    ),
    check("inbound_messages_matched", sql`(${t.applicationId} IS NULL) = (${t.matchedBy} IS NULL)`),
    check("inbound_messages_wish", oneOf("wish", ["opt_out", "opt_in"])),
    index("inbound_messages_newest")
      .on(t.applicationId, t.id.desc())
      .where(sql`${t.applicationId} IS NOT NULL`),
    index("inbound_messages_unmatched")
      .on(t.id.desc())
      .where(sql`${t.applicationId} IS NULL`),
  ],
);

/** Each DELIVER that brought a text or a part of one, written with its raw event (D2). */
export const inboundParts = pgTable(
  "inbound_parts",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    eventKey: text("event_key").notNull().unique(),
    supplierId: text("supplier_id").notNull(),
    numberHash: text("number_hash").notNull(),
    numberSealed: bytea("number_sealed").notNull(),
    destId: text("dest_id").notNull(),
    msgFmt: smallint("msg_fmt").notNull(),
    /** Without its user data header; its row is known by `event_key`. */
    contentSealed: bytea("content_sealed").notNull(),
    /** `<bits>:<reference>:<total>` of a long text; null for a text of one part. */
    reference: text(),
    total: smallint().notNull(),
    part: smallint().notNull(),
    receivedAt: at("received_at").notNull().defaultNow(),
    /** When to look: at once, and when the patience with the other parts ends. */
    dueAt: at("due_at").notNull().defaultNow(),
    inboundId: sortedId("inbound_id").references(() => inboundMessages.id),
  },
  (t) => [
    check("inbound_parts_place", sql`${t.part} BETWEEN 1 AND ${t.total}`),
    index("inbound_parts_due")
      .on(t.dueAt, t.id)
      .where(sql`${t.inboundId} IS NULL`),
    index("inbound_parts_of_text")
      .on(t.supplierId, t.numberHash, t.destId, t.reference, t.id)
      .where(sql`${t.reference} IS NOT NULL`),
  ],
);

// ---- money --------------------------------------------------------------------------------------

/** Two legs a row: `units` leave one pot and enter another; append-only, once per key (D5, A4). */
export const ledgerTransfers = pgTable(
  "ledger_transfers",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    key: text().notNull().unique(),
    kind: text().notNull(),
    accountId: text("account_id")
      .notNull()
      .references(() => accounts.id),
    messageId: text("message_id"),
    debitPot: text("debit_pot").notNull(),
    creditPot: text("credit_pot").notNull(),
    units: units("units").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    check("ledger_transfers_positive", sql`${t.units} > 0`),
    check(
      "ledger_transfers_legs",
      sql`(${t.kind}, ${t.debitPot}, ${t.creditPot}) IN (('top_up', 'outside', 'balance'),
          ('reserve', 'balance', 'held'), ('charge', 'held', 'earned'),
          ('release', 'held', 'balance'), ('refund', 'earned', 'balance'))`,
    ),
    check("ledger_transfers_of_a_message", sql`(${t.kind} = 'top_up') = (${t.messageId} IS NULL)`),
    index("ledger_transfers_of_message")
      .on(t.messageId)
      .where(sql`${t.messageId} IS NOT NULL`),
    index("ledger_transfers_of_account").on(t.accountId, t.id),
  ],
);

export const billingRecords = pgTable(
  "billing_records",
  {
    messageId: text("message_id").primaryKey(),
    accountId: text("account_id").notNull(),
    attemptId: text("attempt_id").notNull(),
    unitPriceUnits: units("unit_price_units").notNull(),
    unitCount: integer("unit_count").notNull(),
    amountUnits: units("amount_units").notNull(),
    chargedAt: at("charged_at").notNull().defaultNow(),
    refundedAt: at("refunded_at"),
  },
  (t) => [check("billing_records_amount", sql`${t.amountUnits} = ${t.unitPriceUnits} * ${t.unitCount}`)],
);

// ---- telling the customer -----------------------------------------------------------------------

/**
 * One row a message and target, written by the transaction that made the message final (D10, E1), and
 * one an inbound text and target, written by the one that made the text.
 */
export const notifications = pgTable(
  "notifications",
  {
    id: sortedId().primaryKey(),
    messageId: text("message_id"),
    /** In the place of a message. Its id says whose notification this is, so there is never a second one. */
    inboundId: sortedId("inbound_id"),
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    url: text().notNull(),
    /** Who must not stall the others; derived, so that settlement need not know. */
    host: text()
      .notNull()
      .generatedAlwaysAs(sql`split_part(url, '/', 3)`),
    /** The exact bytes that are signed and sent at every try. */
    bodySealed: bytea("body_sealed").notNull(),
    status: text().notNull().default("pending"),
    tryCount: integer("try_count").notNull().default(0),
    /** `try_count` at the last replay: the ladder begins again there (E3). */
    ladderStart: integer("ladder_start").notNull().default(0),
    nextTryAt: at("next_try_at").notNull().defaultNow(),
    leaseOwner: text("lease_owner"),
    createdAt: createdAt(),
    deliveredAt: at("delivered_at"),
  },
  (t) => [
    check(
      "notifications_of_message",
      sql`${t.id} = 'evt_' || substr(${t.messageId}, 5)
          OR starts_with(${t.id}, 'evt_' || substr(${t.messageId}, 5) || '_')`,
    ),
    // Without the table's name, which the partitions to which they are added do not have.
    check("notifications_of_inbound", sql`id = 'evt_' || substr(inbound_id, 5)`),
    check("notifications_subject", sql`(message_id IS NULL) <> (inbound_id IS NULL)`),
    // One index a partition (add_partition): all of a message's lie in the same one.
    uniqueIndex("notifications_once").on(t.messageId, t.url),
    check("notifications_status", oneOf("status", ["pending", "delivered", "parked", "disabled"])),
    /** The claim steps from host to host in it, from anywhere on, so its cost is hosts and not rows (E3). */
    index("notifications_of_host")
      .on(t.applicationId, sql`md5(${t.host})`, t.nextTryAt)
      .where(sql`${t.status} = 'pending'`),
    index("notifications_newest").on(t.applicationId, t.createdAt.desc(), t.id.desc()),
  ],
);

/**
 * Hosts that failed last time; a row goes when a call succeeds. Per application: one customer's failures
 * pause nobody else (E3).
 */
export const webhookHosts = pgTable(
  "webhook_hosts",
  {
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    host: text().notNull(),
    failureCount: integer("failure_count").notNull(),
    failingSince: at("failing_since").notNull(),
    pausedUntil: at("paused_until").notNull(),
  },
  (t) => [primaryKey({ columns: [t.applicationId, t.host] })],
);

/** Addresses that answered 410: nothing is sent there until a person replays (interfaces §3). */
export const webhookGone = pgTable(
  "webhook_gone",
  {
    applicationId: text("application_id")
      .notNull()
      .references(() => applications.id),
    url: text().notNull(),
    goneAt: at("gone_at").notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.applicationId, t.url] })],
);

export const notificationTries = pgTable(
  "notification_tries",
  {
    notificationId: sortedId("notification_id").notNull(),
    tryNumber: integer("try_number").notNull(),
    at: at("at").notNull().defaultNow(),
    httpStatus: integer("http_status"),
    /** Stable word for what went wrong; null where it was taken. */
    error: text(),
    durationMs: integer("duration_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.notificationId, t.tryNumber] })],
);

// ---- for people ---------------------------------------------------------------------------------

/** Does not depend on a metrics server and stays until a person clears it (K). */
export const alerts = pgTable(
  "alerts",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    kind: text().notNull(),
    subject: text().notNull(),
    detail: text(),
    raisedAt: at("raised_at").notNull().defaultNow(),
    clearedAt: at("cleared_at"),
    clearedBy: text("cleared_by"),
  },
  (t) => [
    uniqueIndex("alerts_open_once")
      .on(t.kind, t.subject)
      .where(sql`${t.clearedAt} IS NULL`),
  ],
);

export const auditLog = pgTable(
  "audit_log",
  {
    id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
    at: at("at").notNull().defaultNow(),
    actor: text().notNull(),
    action: text().notNull(),
    subject: text().notNull(),
    note: text(),
    effect: text().notNull(),
  },
  (t) => [index("audit_log_of_subject").on(t.subject, t.id)],
);

/** Small facts about the deployment, such as which Temporal namespace the open workflows live in. */
export const deploymentFacts = pgTable("deployment_facts", {
  name: text().primaryKey(),
  value: text().notNull(),
});
