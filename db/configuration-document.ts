/**
 * What can be set from outside as one declarative document: its sections, what each entry may say, and
 * in which column that is kept. Money is in 1/10000 of the currency unit.
 */
import { z } from "zod";
import { OPERATORS, RECEIPT_MODES } from "../domain/message.ts";
import { isSignature } from "../domain/signature.ts";
import { recipient, storable, webhookSecret } from "../domain/submission.ts";
import { portedPrefix } from "./intake-rules.ts";
import type { SealedColumn, Vault } from "./vault.ts";

/** YAML reads digits as a number; they are a string all the same. */
const digits = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((value) => (typeof value === "number" ? String(value) : value), schema);

const id = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "must be 1 to 64 letters, digits, dots, dashes or underscores");
const name = storable.min(1).max(200);
const active = z.boolean().optional();
const absent = z.boolean().optional();
const review = z.enum(["pending", "approved", "rejected"]).optional();
const count = z.int().min(0);
const words = z.array(storable.min(1).max(32)).max(50);

/** The address in the form in which it is stored; undefined where webhooks may not go there. */
export type WebhookAddress = (text: string) => string | undefined;

export const configurationDocument = (addressOf: WebhookAddress) =>
  z.strictObject({
    version: z.literal(1),
    enterprises: list({ id, name: name.optional(), active }),
    accounts: list({
      id,
      enterprise: id.optional(),
      currency: z
        .string()
        .regex(/^[A-Z]{3}$/, "must be a currency of three capital letters")
        .optional(),
      floorUnits: z.int().optional(),
    }),
    suppliers: list({
      id,
      name: name.optional(),
      active,
      secret: storable.min(1).max(128).optional(),
      profile: z.record(z.string(), z.unknown()).optional(),
    }),
    channels: list({
      id,
      supplier: id.optional(),
      name: name.optional(),
      active,
      operators: z.array(z.enum(OPERATORS)).min(1).optional(),
      srcId: digits(z.string().regex(/^\d{1,21}$/, "must be 1 to 21 digits")).optional(),
      receiptMode: z.enum(RECEIPT_MODES).optional(),
    }),
    groups: list({
      id,
      name: name.optional(),
      retryWindowSeconds: count.max(259_200).optional(),
      maxAttempts: z.int().min(1).max(20).optional(),
      members: list({ channel: id, priority: count, weight: z.int().min(1).optional() }),
    }),
    signatures: list({
      id,
      enterprise: id.optional(),
      text: storable.refine(isSignature, "must be a name in 【…】").optional(),
      status: review,
    }),
    filings: list({ id, signature: id.optional(), channel: id.optional(), active }),
    applications: list({
      id,
      enterprise: id.optional(),
      account: id.optional(),
      group: id.optional(),
      name: name.optional(),
      active,
      unitPriceUnits: z.int().min(1).optional(),
      defaultSignature: id.nullish(),
      ratePerSecond: count.nullish(),
      templateRequired: z.boolean().optional(),
      dailyLimit: count.max(2_147_483_647).nullish(),
      frequency: list({
        windowSeconds: z.int().min(1).max(86_400),
        maxMessages: z.int().min(1).max(100_000),
      }),
      webhookUrl: z
        .string()
        .transform(
          (text, context) => addressOf(text) ?? refuse(context, "webhooks may not go to this address"),
        )
        .nullish(),
      webhookSecret: webhookSecret.optional(),
      webhookSecretPrevious: webhookSecret.nullish(),
      extension: digits(z.string().regex(/^\d{1,20}$/, "must be 1 to 20 digits")).nullish(),
      optOutWords: words.nullish(),
      optInWords: words.nullish(),
    }),
    apiKeys: list({
      id,
      application: id.optional(),
      active,
      sha256: z
        .string()
        .regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits")
        .optional(),
    }),
    templates: list({
      id,
      application: id.optional(),
      body: storable.min(1).max(20_000).optional(),
      status: review,
    }),
    blacklist: list({
      number: digits(recipient),
      application: id.optional(),
      source: z.enum(["platform", "opt_out"]).optional(),
      absent,
    }),
    prefixes: list({
      prefix: digits(z.string().regex(/^1\d{2,10}$/, "must be 3 to 11 digits, the first of them 1")),
      operator: z.enum(OPERATORS).optional(),
      absent,
    }),
  });

export type ConfigurationDocument = z.output<ReturnType<typeof configurationDocument>>;

function list<Shape extends z.ZodRawShape>(entry: Shape) {
  return z.array(z.strictObject(entry)).optional();
}

function refuse(context: z.RefinementCtx, message: string): never {
  context.addIssue({ code: "custom", message });
  return z.NEVER;
}

/** How a section of the document is kept: one table, one row an entry. */
export interface Section {
  /** As in the document; a list inside an entry is `groups.members`. */
  name: string;
  table: string;
  /** Fields and their columns. */
  columns: Readonly<Record<string, string>>;
  /** Fields that tell one entry from another. */
  key: readonly string[];
  /** Fields without which no entry can be made; the database has a default for the rest. */
  needed: readonly string[];
  /** Fields that stay what they were when the entry was made. */
  fixed: readonly string[];
  /** Fields that name an entry of another section. */
  refers: Readonly<Record<string, string>>;
  /** Fields that are never shown. */
  secret: readonly string[];
  /** The field that names the entry in which the list stands; the list is whole. */
  owner?: string;
  /** The field that holds somebody's number, stored as a hash in its column and sealed beside it. */
  sealed?: SealedField;
  /** Recipients' numbers: told by their count alone, on the screen and in the audit trail. */
  countedOnly: boolean;
}

interface SealedField {
  field: string;
  column: SealedColumn;
  /** Undefined where the value names nobody, and is stored as it is. */
  hashOf: (vault: Vault, value: string) => string | undefined;
}

const section = (
  name: string,
  table: string,
  columns: Record<string, string>,
  more: Partial<Section> = {},
): Section => ({
  name,
  table,
  columns,
  key: ["id"],
  needed: [],
  fixed: [],
  refers: {},
  secret: [],
  countedOnly: false,
  ...more,
});

/** In an order in which each refers only to those before it. */
export const SECTIONS: readonly Section[] = [
  section("enterprises", "enterprises", { id: "id", name: "name", active: "active" }, { needed: ["name"] }),
  section(
    "accounts",
    "accounts",
    { id: "id", enterprise: "enterprise_id", currency: "currency", floorUnits: "floor_units" },
    {
      needed: ["enterprise", "currency"],
      fixed: ["enterprise", "currency"],
      refers: { enterprise: "enterprises" },
    },
  ),
  section(
    "suppliers",
    "suppliers",
    { id: "id", name: "name", active: "active", secret: "secret", profile: "profile" },
    { needed: ["name", "secret", "profile"], secret: ["secret"] },
  ),
  section(
    "channels",
    "channels",
    {
      id: "id",
      supplier: "supplier_id",
      name: "name",
      active: "active",
      operators: "operators",
      srcId: "src_id",
      receiptMode: "receipt_mode",
    },
    {
      needed: ["supplier", "name", "operators", "srcId"],
      fixed: ["supplier"],
      refers: { supplier: "suppliers" },
    },
  ),
  section(
    "groups",
    "channel_groups",
    { id: "id", name: "name", retryWindowSeconds: "retry_window_seconds", maxAttempts: "max_attempts" },
    { needed: ["name"] },
  ),
  section(
    "groups.members",
    "channel_group_members",
    { group: "group_id", channel: "channel_id", priority: "priority", weight: "weight" },
    { key: ["group", "channel"], refers: { channel: "channels" }, owner: "group" },
  ),
  section(
    "signatures",
    "signatures",
    { id: "id", enterprise: "enterprise_id", text: "text", status: "status" },
    {
      needed: ["enterprise", "text"],
      fixed: ["enterprise", "text"],
      refers: { enterprise: "enterprises" },
    },
  ),
  section(
    "filings",
    "filings",
    { id: "id", signature: "signature_id", channel: "channel_id", active: "active" },
    {
      needed: ["signature", "channel"],
      fixed: ["signature", "channel"],
      refers: { signature: "signatures", channel: "channels" },
    },
  ),
  section(
    "applications",
    "applications",
    {
      id: "id",
      enterprise: "enterprise_id",
      account: "account_id",
      group: "channel_group_id",
      name: "name",
      active: "active",
      unitPriceUnits: "unit_price_units",
      defaultSignature: "default_signature_id",
      ratePerSecond: "rate_per_second",
      templateRequired: "template_required",
      dailyLimit: "daily_limit",
      webhookUrl: "webhook_url",
      webhookSecret: "webhook_secret",
      webhookSecretPrevious: "webhook_secret_previous",
      extension: "extension",
      optOutWords: "opt_out_words",
      optInWords: "opt_in_words",
    },
    {
      needed: ["enterprise", "account", "group", "name", "unitPriceUnits"],
      fixed: ["enterprise", "account"],
      refers: {
        enterprise: "enterprises",
        account: "accounts",
        group: "groups",
        defaultSignature: "signatures",
      },
      secret: ["webhookSecret", "webhookSecretPrevious"],
    },
  ),
  section(
    "applications.frequency",
    "frequency_limits",
    { application: "application_id", windowSeconds: "window_seconds", maxMessages: "max_messages" },
    { key: ["application", "windowSeconds"], owner: "application" },
  ),
  section(
    "apiKeys",
    "api_keys",
    { id: "id", application: "application_id", active: "active", sha256: "secret_hash" },
    { needed: ["application"], fixed: ["application"], refers: { application: "applications" } },
  ),
  section(
    "templates",
    "templates",
    { id: "id", application: "application_id", body: "body", status: "status" },
    {
      needed: ["application", "body"],
      fixed: ["application"],
      refers: { application: "applications" },
    },
  ),
  section(
    "blacklist",
    "blacklist",
    { number: "number_hash", application: "application_id", source: "source" },
    {
      key: ["number", "application"],
      refers: { application: "applications" },
      sealed: {
        field: "number",
        column: "blacklist.number",
        hashOf: (vault, number) => vault.hash(number),
      },
      countedOnly: true,
    },
  ),
  section(
    "prefixes",
    "number_prefixes",
    { prefix: "prefix", operator: "operator" },
    {
      key: ["prefix"],
      needed: ["operator"],
      sealed: {
        field: "prefix",
        column: "number_prefixes.number",
        hashOf: (vault, prefix) => (prefix.length < 11 ? undefined : portedPrefix(vault, prefix)),
      },
      countedOnly: true,
    },
  ),
];
