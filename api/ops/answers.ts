/** The shapes of what people who operate Waybill are answered. */
import { z } from "zod";
import { OPERATORS, RECEIPT_MODES } from "../../domain/message.ts";
import { DIFFERENCES, type DifferenceKind } from "../../domain/reconcile.ts";
import {
  count,
  inboundFields,
  listedMessage,
  messageId,
  money,
  named,
  nextCursor,
  status,
  time,
} from "../answers.ts";

const units = money.shape.units;
const attemptId = z.string().regex(/^att_[0-9A-Z]{26}_\d+$/);
const effect = z.string().describe("What came of it; where that is nothing: none, and why");

export const books = named(
  "Books",
  z.object({
    balanced: z.boolean(),
    accounts: count,
    reserved: units,
    charged: units,
    released: units,
    refunded: units,
    differences: z.array(z.object({ accountId: z.string(), what: z.string(), stored: units, summed: units })),
  }),
);

const connection = z.object({
  slot: count,
  connected: z.boolean().describe("Up, and its owner was heard from within 10 s"),
  heartbeatAt: time,
  heartbeatAgeMs: count,
  windowInUse: count,
  lastError: z.string().nullable(),
});

export const channel = named(
  "Channel",
  z.object({
    id: z.string(),
    name: z.string(),
    active: z.boolean(),
    operators: z.array(z.enum(OPERATORS)),
    srcId: z.string(),
    receiptMode: z.enum(RECEIPT_MODES),
    supplier: z.object({ id: z.string(), name: z.string(), active: z.boolean() }),
    ratePerSecond: z.int().min(1).describe("Parts a second, over all channels of the supplier account"),
    window: z.int().min(1).describe("Submits that one connection may have in flight"),
    connectionsWanted: z.int().min(1),
    groups: z.array(
      z.object({ id: z.string(), name: z.string(), priority: z.int(), weight: z.int().min(1) }),
    ),
    connections: z.array(connection),
  }),
);

export const channels = named("Channels", z.object({ channels: z.array(channel) }));

export const changedChannel = named("ChangedChannel", channel.extend({ effect }));

export const switched = named("Switched", z.object({ id: z.string(), active: z.boolean(), effect }));

export const toppedUp = named(
  "ToppedUp",
  z.object({ accountId: z.string(), key: z.string(), units, balance: money, held: money, effect }),
);

const publicationMode = z.object({
  mode: z.enum(["live", "paused", "shadow"]),
  changedBy: z.string().nullable(),
  changedAt: time.nullable(),
});

export const publication = named(
  "Publication",
  publicationMode.extend({
    applications: z
      .array(publicationMode.extend({ id: z.string() }))
      .describe("Those with a mode of their own"),
  }),
);

export const changedPublication = named("ChangedPublication", publication.extend({ effect }));

export const reconciliation = named(
  "Reconciliation",
  z.object({
    differences: z.array(
      z.object({
        kind: z.enum(Object.keys(DIFFERENCES) as [DifferenceKind, ...DifferenceKind[]]),
        what: z.string().describe("The same as a sentence"),
        submitId: z.string(),
        channelId: z.string().nullable(),
        entryId: z.string().nullable(),
      }),
    ),
    truncated: z.boolean().describe("There are more differences than are listed"),
  }),
);

const alert = z.object({
  id: z.string(),
  kind: z.string(),
  subject: z.string(),
  detail: z.string().nullable(),
  raisedAt: time,
  clearedAt: time.nullable(),
  clearedBy: z.string().nullable(),
});

export const alerts = named("Alerts", z.object({ alerts: z.array(alert), nextCursor }));

export const clearedAlert = named("ClearedAlert", alert.extend({ effect }));

export const reviews = named(
  "Reviews",
  z.object({
    reviews: z.array(
      z.object({
        attemptId,
        messageId,
        applicationId: z.string(),
        reason: z.string(),
        since: time,
        channelId: z.string().nullable(),
        status,
        uncertain: z.boolean(),
        expiresAt: time.describe("The message's own limit, which ends it and its review"),
      }),
    ),
    nextCursor,
  }),
);

export const resolved = named("Resolved", z.object({ attemptId, effect }));

const supplierEvent = z.object({
  id: z.string(),
  kind: z.enum(["response", "no_response", "receipt", "inbound"]),
  supplierId: z.string(),
  msgId: z.string().nullable(),
  stat: z.string().nullable(),
  resultCode: z.int().nullable(),
  number: z.string().nullable(),
  srcId: z.string().nullable(),
  receivedAt: time,
  copies: count.describe("How often the supplier repeated it"),
});

export const anomalies = named(
  "Anomalies",
  z.object({
    anomalies: z.array(
      z.object({
        id: z.string(),
        kind: z.string(),
        attemptId: z.string().nullable(),
        messageId: messageId.nullable(),
        detail: z.string().nullable(),
        at: time,
        event: supplierEvent.nullable(),
      }),
    ),
    nextCursor,
  }),
);

export const unmatched = named(
  "Unmatched",
  z.object({
    receipts: z.array(supplierEvent.extend({ tries: count, nextTryAt: time })),
    nextCursor,
  }),
);

const inboundText = z.object({
  ...inboundFields,
  supplierId: z.string(),
  channelId: z.string().nullable(),
  applicationId: z.string().nullable().describe("Null: nobody knows whose it is"),
  matchedBy: z.enum(["extension", "last_message", "only_application", "person"]).nullable(),
});

export const inboundAnywhere = named(
  "InboundAnywhere",
  z.object({ inbound: z.array(inboundText), nextCursor }),
);

export const assignedInbound = named("AssignedInbound", inboundText.extend({ effect }));

export const messagesAnywhere = named(
  "MessagesAnywhere",
  z.object({ messages: z.array(listedMessage.extend({ applicationId: z.string() })), nextCursor }),
);

const backlog = z.object({
  count,
  oldestMs: count.nullable().describe("Since the oldest one was due; null where nothing waits"),
});

export const overview = named(
  "Overview",
  z.object({
    asOf: time,
    publication: publication.shape.mode,
    intake: backlog.describe("Attempts that a workflow has to take up"),
    outbox: backlog.describe("Commands that are not on a stream yet"),
    deadCommands: backlog,
    unansweredWrites: backlog,
    unfoldedEvents: backlog.describe("Supplier events that nothing has made of yet"),
    unmatchedReceipts: backlog,
    dueDecisions: backlog,
    webhooks: backlog.extend({ pausedHosts: count }),
    reviews: backlog,
    alerts: backlog,
    rates: z.object({
      overSeconds: z.int().min(1),
      acceptedPerSecond: z.number().min(0),
      answersPerSecond: z.number().min(0).describe("Parts that suppliers answered"),
      receiptsPerSecond: z.number().min(0),
    }),
    suppliers: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        active: z.boolean(),
        connected: count,
        connections: count,
        lastError: z.string().nullable(),
      }),
    ),
    lastErrors: z.array(z.object({ where: z.string(), subject: z.string(), error: z.string(), at: time })),
  }),
);

export const auditTrail = named(
  "AuditTrail",
  z.object({
    entries: z.array(
      z.object({
        id: z.string(),
        at: time,
        actor: z.string(),
        action: z.string(),
        subject: z.string(),
        note: z.string().nullable(),
        effect,
      }),
    ),
    nextCursor,
  }),
);
