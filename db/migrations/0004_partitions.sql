-- The tables that grow with every message become partitioned by time, so that old ones are dropped whole.
-- Written by hand where drizzle-kit knows no partitions; decision 11 has the reasons.
--
-- Ids sort by time, so each table is partitioned by its own id: primary keys stay what they were, and a
-- look-up by id touches one partition. A bound is the part of an id that says when.
CREATE FUNCTION "id_time"("at" timestamptz) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((ms >> (5 * place)) & 31)::int + 1, 1), '' ORDER BY place DESC)
    FROM (SELECT floor(extract(epoch FROM "at") * 1000)::bigint AS ms) t, generate_series(0, 9) AS place
$$;--> statement-breakpoint
COMMENT ON FUNCTION "id_time" IS 'The ten characters with which the time in an id begins (domain/ids.ts).';--> statement-breakpoint
CREATE SEQUENCE "supplier_event_numbers" MINVALUE 0 MAXVALUE 1048575 CYCLE;--> statement-breakpoint
CREATE FUNCTION "event_time"("at" timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT floor(extract(epoch FROM "at"))::bigint << 20
$$;--> statement-breakpoint
COMMENT ON FUNCTION "event_time" IS 'The smallest id that a supplier event stored in that second can have.';--> statement-breakpoint
CREATE FUNCTION "next_event_id"() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT event_time(clock_timestamp()) | nextval('supplier_event_numbers')
$$;--> statement-breakpoint
COMMENT ON FUNCTION "next_event_id" IS 'The second, then 20 bits that count: sorts by time, and stays below 2^53 until 2242.';--> statement-breakpoint
CREATE VIEW "sliced_tables" AS
  SELECT * FROM (VALUES
    ('batches', 'id', 'bat_', 100),
    ('messages', 'id', 'msg_', 85),
    ('attempts', 'id', 'att_', 80),
    ('segments', 'attempt_id', 'att_', 80),
    ('submit_outbox', 'submit_id', 'sub_', 80),
    ('takes', 'submit_id', 'sub_', 85),
    ('notifications', 'id', 'evt_', 80),
    ('notification_tries', 'notification_id', 'evt_', 100),
    ('supplier_events', 'id', NULL, 85)
  ) AS t("parent", "key", "prefix", "fillfactor");--> statement-breakpoint
COMMENT ON VIEW "sliced_tables" IS 'Tables with one partition a slice of time: by which column, what stands before the time in it, and the room that its pages keep for updates.';--> statement-breakpoint
-- Unique keys without the partition key are made on each partition. They hold for the whole table, for what
-- they compare lies in one partition: ids of one message begin alike, and each table checks that.
CREATE FUNCTION "make_partition"("parent" text, "name" text, "fillfactor" int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL EXCLUDING IDENTITY)', name, parent);
  EXECUTE format('ALTER TABLE %I SET (fillfactor = %s, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500)',
                 name, fillfactor);
  IF parent = 'attempts' THEN
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (message_id) WHERE decided_at IS NULL', name || '_one_live', name);
  ELSIF parent = 'notifications' THEN
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (message_id, url)', name || '_once', name);
  END IF;
END
$$;--> statement-breakpoint
-- Rows that came before their slice did lie in the default partition; they are moved while nobody can look.
CREATE FUNCTION "add_slice"("starts" timestamptz, "ends" timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  it record;
  name text;
  span text;
  lower text;
  upper text;
  columns text;
  strays boolean;
BEGIN
  span := to_char(starts AT TIME ZONE 'UTC', 'YYYYMMDD') || '_' || to_char(ends AT TIME ZONE 'UTC', 'YYYYMMDD');
  FOR it IN SELECT * FROM sliced_tables LOOP
    name := it.parent || '_' || span;
    lower := coalesce(quote_literal(it.prefix || id_time(starts)), event_time(starts)::text);
    upper := coalesce(quote_literal(it.prefix || id_time(ends)), event_time(ends)::text);
    PERFORM make_partition(it.parent, name, it.fillfactor);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE %I >= %s AND %2$I < %4$s)',
                   it.parent || '_default', it.key, lower, upper) INTO strays;
    IF strays THEN
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', it.parent);
      SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns FROM pg_attribute
       WHERE attrelid = it.parent::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
      EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= %s AND %2$I < %4$s RETURNING %5$s)
                      INSERT INTO %6$I (%5$s) SELECT %5$s FROM moved',
                     it.parent || '_default', it.key, lower, upper, columns, name);
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', it.parent, name, lower, upper);
  END LOOP;
END
$$;--> statement-breakpoint
COMMENT ON FUNCTION "add_slice" IS 'Gives every table of sliced_tables its partition for a stretch of time; all of them or none.';--> statement-breakpoint
-- The tables as they were, beside the new ones until their rows are copied.
CREATE SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "admissions" DROP CONSTRAINT "admissions_message_id_messages_id_fk";--> statement-breakpoint
ALTER TABLE "billing_records" DROP CONSTRAINT "billing_records_message_id_messages_id_fk";--> statement-breakpoint
ALTER TABLE "inbox" DROP CONSTRAINT "inbox_message_id_messages_id_fk";--> statement-breakpoint
ALTER TABLE "ledger_transfers" DROP CONSTRAINT "ledger_transfers_message_id_messages_id_fk";--> statement-breakpoint
ALTER TABLE "reviews" DROP CONSTRAINT "reviews_message_id_messages_id_fk";--> statement-breakpoint
ALTER TABLE "batches" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "messages" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "attempts" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "segments" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "submit_outbox" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "takes" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "supplier_events" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "notifications" SET SCHEMA "unsliced";--> statement-breakpoint
ALTER TABLE "notification_tries" SET SCHEMA "unsliced";--> statement-breakpoint
CREATE TABLE "batches" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"application_id" text NOT NULL,
	"item_count" integer NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
) PARTITION BY RANGE ("id");--> statement-breakpoint
CREATE TABLE "messages" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"enterprise_id" text NOT NULL,
	"application_id" text NOT NULL,
	"account_id" text NOT NULL,
	"batch_id" text,
	"number" text NOT NULL,
	"text" text NOT NULL,
	"encoding" text NOT NULL,
	"segment_count" integer NOT NULL,
	"reference" text,
	"webhook_url" text,
	"unit_price_units" bigint NOT NULL,
	"price_units" bigint NOT NULL,
	"currency" text NOT NULL,
	"status" text DEFAULT 'accepted' NOT NULL,
	"reason" text,
	"uncertain" boolean DEFAULT false NOT NULL,
	"operator" text,
	"signature_id" text,
	"current_attempt_id" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	"queued_at" timestamp with time zone,
	"sent_at" timestamp with time zone,
	"final_at" timestamp with time zone,
	CONSTRAINT "messages_status" CHECK (status IN ('accepted', 'queued', 'sent', 'delivered', 'undelivered', 'failed', 'refused', 'expired', 'canceled')),
	CONSTRAINT "messages_encoding" CHECK (encoding IN ('ascii', 'ucs2')),
	CONSTRAINT "messages_number" CHECK ("messages"."number" ~ '^1[0-9]{10}$'),
	CONSTRAINT "messages_price" CHECK ("messages"."price_units" = "messages"."unit_price_units" * "messages"."segment_count"),
	CONSTRAINT "messages_final_has_a_time" CHECK (("messages"."final_at" IS NOT NULL) = (status IN ('delivered', 'undelivered', 'failed', 'refused', 'expired', 'canceled')))
) PARTITION BY RANGE ("id");--> statement-breakpoint
CREATE TABLE "attempts" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"message_id" text NOT NULL,
	"enterprise_id" text NOT NULL,
	"application_id" text NOT NULL,
	"number" integer NOT NULL,
	"retry_of" text,
	"submit_id" text NOT NULL,
	"state" text NOT NULL,
	"channel_id" text,
	"supplier_id" text,
	"receipt_mode" text,
	"segment_count" integer NOT NULL,
	"route" jsonb,
	"facts_revision" integer DEFAULT 0 NOT NULL,
	"due_at" timestamp with time zone,
	"outcome" text,
	"reason" text,
	"may_repeat_channels" boolean DEFAULT false NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"queued_at" timestamp with time zone,
	"decided_at" timestamp with time zone,
	CONSTRAINT "attempts_id" CHECK ("attempts"."id" = 'att_' || substr("attempts"."message_id", 5) || '_' || "attempts"."number"::text),
	CONSTRAINT "attempts_submit_id" CHECK ("attempts"."submit_id" = 'sub_' || substr("attempts"."id", 5)),
	CONSTRAINT "attempts_retry_of" CHECK ("attempts"."retry_of" IS NOT DISTINCT FROM
          CASE WHEN "attempts"."number" > 1 THEN 'att_' || substr("attempts"."message_id", 5) || '_' || ("attempts"."number" - 1)::text END),
	CONSTRAINT "attempts_number" CHECK ("attempts"."number" >= 1),
	CONSTRAINT "attempts_state" CHECK (state IN ('planned', 'queued', 'decided')),
	CONSTRAINT "attempts_queued_has_channel" CHECK ("attempts"."state" <> 'queued' OR "attempts"."channel_id" IS NOT NULL),
	CONSTRAINT "attempts_decided_has_outcome" CHECK (("attempts"."state" = 'decided') = ("attempts"."decided_at" IS NOT NULL AND "attempts"."outcome" IS NOT NULL))
) PARTITION BY RANGE ("id");--> statement-breakpoint
CREATE TABLE "segments" (
	"attempt_id" text COLLATE "C" NOT NULL,
	"part" smallint NOT NULL,
	"supplier_id" text NOT NULL,
	"number" text NOT NULL,
	"result" text,
	"result_code" integer,
	"msg_id" text,
	"result_at" timestamp with time zone,
	"receipt" text,
	"receipt_stat" text,
	"receipt_at" timestamp with time zone,
	CONSTRAINT "segments_attempt_id_part_pk" PRIMARY KEY("attempt_id","part"),
	CONSTRAINT "segments_result" CHECK (result IN ('accepted', 'rejected', 'unknown', 'never_written')),
	CONSTRAINT "segments_receipt" CHECK (receipt IN ('delivered', 'failed', 'undecided'))
) PARTITION BY RANGE ("attempt_id");--> statement-breakpoint
CREATE TABLE "submit_outbox" (
	"id" bigint GENERATED ALWAYS AS IDENTITY (sequence name "submit_outbox_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"submit_id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"message_id" text NOT NULL,
	"application_id" text NOT NULL,
	"attempt_id" text NOT NULL,
	"channel_id" text NOT NULL,
	"payload" text NOT NULL,
	"schema_version" integer NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"attempt_count" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp with time zone DEFAULT now() NOT NULL,
	"lease_owner" text,
	"lease_expires_at" timestamp with time zone,
	"stream_entry_id" text,
	"shadow_entry_id" text,
	"shadow_payload_hash" "bytea",
	"published_at" timestamp with time zone,
	"last_error" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "submit_outbox_attempt" CHECK ("submit_outbox"."attempt_id" = 'att_' || substr("submit_outbox"."submit_id", 5)),
	CONSTRAINT "submit_outbox_status" CHECK (status IN ('pending', 'publishing', 'published', 'dead')),
	CONSTRAINT "submit_outbox_lease" CHECK (("submit_outbox"."status" = 'publishing') = ("submit_outbox"."lease_owner" IS NOT NULL AND "submit_outbox"."lease_expires_at" IS NOT NULL)),
	CONSTRAINT "submit_outbox_published" CHECK ("submit_outbox"."status" <> 'published' OR "submit_outbox"."published_at" IS NOT NULL)
) PARTITION BY RANGE ("submit_id");--> statement-breakpoint
CREATE TABLE "takes" (
	"submit_id" text COLLATE "C" NOT NULL,
	"part" smallint NOT NULL,
	"write_number" smallint NOT NULL,
	"kind" text NOT NULL,
	"attempt_id" text NOT NULL,
	"supplier_id" text NOT NULL,
	"owner" text NOT NULL,
	"slot" smallint,
	"epoch" bigint,
	"taken_at" timestamp with time zone DEFAULT now() NOT NULL,
	"answer" text,
	"answered_at" timestamp with time zone,
	CONSTRAINT "takes_submit_id_part_write_number_pk" PRIMARY KEY("submit_id","part","write_number"),
	CONSTRAINT "takes_attempt" CHECK ("takes"."attempt_id" = 'att_' || substr("takes"."submit_id", 5)),
	CONSTRAINT "takes_kind" CHECK (kind IN ('write', 'withdrawn')),
	CONSTRAINT "takes_answer" CHECK (answer IN ('accepted', 'rejected', 'throttled', 'unknown')),
	CONSTRAINT "takes_write_has_connection" CHECK ("takes"."kind" = 'withdrawn' OR "takes"."epoch" IS NOT NULL)
) PARTITION BY RANGE ("submit_id");--> statement-breakpoint
CREATE TABLE "supplier_events" (
	"id" bigint PRIMARY KEY DEFAULT next_event_id() NOT NULL,
	"event_key" text NOT NULL,
	"kind" text NOT NULL,
	"supplier_id" text NOT NULL,
	"slot" smallint,
	"epoch" bigint,
	"attempt_id" text,
	"part" smallint,
	"write_number" smallint,
	"answer" text,
	"result_code" integer,
	"msg_id" text,
	"stat" text,
	"meaning" text,
	"number" text,
	"src_id" text,
	"raw" "bytea",
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"try_count" integer DEFAULT 0 NOT NULL,
	"folded_at" timestamp with time zone,
	"fate" text,
	CONSTRAINT "supplier_events_kind" CHECK (kind IN ('response', 'no_response', 'receipt', 'inbound')),
	CONSTRAINT "supplier_events_answer" CHECK (answer IN ('accepted', 'rejected', 'throttled', 'unknown')),
	CONSTRAINT "supplier_events_meaning" CHECK (meaning IN ('delivered', 'failed', 'undecided')),
	CONSTRAINT "supplier_events_fate" CHECK (fate IN ('applied', 'late', 'foreign'))
) PARTITION BY RANGE ("id");--> statement-breakpoint
CREATE TABLE "notifications" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"message_id" text NOT NULL,
	"application_id" text NOT NULL,
	"url" text NOT NULL,
	"host" text GENERATED ALWAYS AS (split_part(url, '/', 3)) STORED NOT NULL,
	"body" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"try_count" integer DEFAULT 0 NOT NULL,
	"ladder_start" integer DEFAULT 0 NOT NULL,
	"next_try_at" timestamp with time zone DEFAULT now() NOT NULL,
	"lease_owner" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"delivered_at" timestamp with time zone,
	CONSTRAINT "notifications_of_message" CHECK ("notifications"."id" = 'evt_' || substr("notifications"."message_id", 5)
          OR starts_with("notifications"."id", 'evt_' || substr("notifications"."message_id", 5) || '_')),
	CONSTRAINT "notifications_status" CHECK (status IN ('pending', 'delivered', 'parked', 'disabled'))
) PARTITION BY RANGE ("id");--> statement-breakpoint
CREATE TABLE "notification_tries" (
	"notification_id" text COLLATE "C" NOT NULL,
	"try_number" integer NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"http_status" integer,
	"error" text,
	"duration_ms" integer NOT NULL,
	CONSTRAINT "notification_tries_notification_id_try_number_pk" PRIMARY KEY("notification_id","try_number")
) PARTITION BY RANGE ("notification_id");--> statement-breakpoint
CREATE TABLE "supplier_event_keys" (
	"event_key" text PRIMARY KEY NOT NULL,
	"event_id" bigint NOT NULL,
	"copy_count" integer DEFAULT 0 NOT NULL
);--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_channel_id_channels_id_fk" FOREIGN KEY ("channel_id") REFERENCES "public"."channels"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_supplier_id_suppliers_id_fk" FOREIGN KEY ("supplier_id") REFERENCES "public"."suppliers"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "batches" ADD CONSTRAINT "batches_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "attempts_decision_due" ON "attempts" USING btree ("due_at","id") WHERE "attempts"."decided_at" IS NULL AND "attempts"."due_at" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "messages_newest" ON "messages" USING btree ("application_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "messages_by_reference" ON "messages" USING btree ("application_id","reference","created_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "messages"."reference" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "messages_by_number" ON "messages" USING btree ("application_id","number","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "messages_of_batch" ON "messages" USING btree ("batch_id") WHERE "messages"."batch_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "messages_uncertain" ON "messages" USING btree ("current_attempt_id") WHERE "messages"."uncertain" AND "messages"."final_at" IS NULL;--> statement-breakpoint
CREATE INDEX "messages_past_limit" ON "messages" USING btree ("expires_at") WHERE "messages"."final_at" IS NULL;--> statement-breakpoint
CREATE INDEX "notifications_of_host" ON "notifications" USING btree ("application_id","host","next_try_at") WHERE "notifications"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "notifications_newest" ON "notifications" USING btree ("application_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "segments_by_msg_id" ON "segments" USING btree ("supplier_id","msg_id") WHERE "segments"."msg_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "segments_without_msg_id" ON "segments" USING btree ("supplier_id","number") WHERE "segments"."msg_id" IS NULL AND ("segments"."result" IS NULL OR "segments"."result" IN ('accepted', 'unknown'));--> statement-breakpoint
CREATE INDEX "segments_unanswered" ON "segments" USING btree ("attempt_id") WHERE "segments"."result" IS NULL;--> statement-breakpoint
CREATE INDEX "submit_outbox_unpublished" ON "submit_outbox" USING btree ("application_id","next_attempt_at") WHERE "submit_outbox"."status" IN ('pending', 'publishing');--> statement-breakpoint
CREATE INDEX "submit_outbox_dead" ON "submit_outbox" USING btree ("updated_at") WHERE "submit_outbox"."status" = 'dead';--> statement-breakpoint
CREATE INDEX "supplier_events_unfolded" ON "supplier_events" USING btree ("supplier_id","due_at","id") WHERE "supplier_events"."folded_at" IS NULL;--> statement-breakpoint
CREATE INDEX "supplier_events_unmatched" ON "supplier_events" USING btree ("supplier_id","number") WHERE "supplier_events"."folded_at" IS NULL AND "supplier_events"."kind" = 'receipt';--> statement-breakpoint
CREATE INDEX "supplier_events_of_attempt" ON "supplier_events" USING btree ("attempt_id") WHERE "supplier_events"."attempt_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "takes_unanswered" ON "takes" USING btree ("taken_at") WHERE "takes"."kind" = 'write' AND "takes"."answered_at" IS NULL;--> statement-breakpoint
CREATE INDEX "supplier_event_keys_of_event" ON "supplier_event_keys" USING btree ("event_id");--> statement-breakpoint
CREATE INDEX "idempotency_keys_oldest" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
COMMENT ON TABLE "batches" IS 'A customer''s list of messages, posted at once.';--> statement-breakpoint
COMMENT ON TABLE "messages" IS 'One text to one number, with a status that never goes back.';--> statement-breakpoint
COMMENT ON TABLE "attempts" IS 'One try to hand one message to one channel; one Temporal workflow.';--> statement-breakpoint
COMMENT ON TABLE "segments" IS 'One part of an attempt: the supplier''s result and its receipt.';--> statement-breakpoint
COMMENT ON TABLE "submit_outbox" IS 'Committed commands on their way to the stream (C1).';--> statement-breakpoint
COMMENT ON TABLE "takes" IS 'Proof of at most one write: committed before its first byte; or withdrawn by a decision (C3).';--> statement-breakpoint
COMMENT ON TABLE "supplier_events" IS 'What suppliers said, raw (D2).';--> statement-breakpoint
COMMENT ON TABLE "notifications" IS 'One webhook a message and target, written with the final state (D10, E1).';--> statement-breakpoint
COMMENT ON TABLE "notification_tries" IS 'Each try of a webhook and its outcome.';--> statement-breakpoint
COMMENT ON COLUMN "messages"."uncertain" IS 'Some part was written and nobody knows whether it was taken.';--> statement-breakpoint
COMMENT ON COLUMN "messages"."current_attempt_id" IS 'The only attempt that may still change this message.';--> statement-breakpoint
COMMENT ON COLUMN "attempts"."facts_revision" IS 'Raised by every fold that changed something (D10).';--> statement-breakpoint
COMMENT ON COLUMN "attempts"."due_at" IS 'A decision is due since then; the workflow has to be told.';--> statement-breakpoint
COMMENT ON COLUMN "takes"."answer" IS 'accepted, rejected, throttled or unknown; null while nothing is known.';--> statement-breakpoint
COMMENT ON COLUMN "submit_outbox"."lease_owner" IS 'Token of the claim; only its holder may write back.';--> statement-breakpoint
COMMENT ON COLUMN "supplier_events"."fate" IS 'applied, late or foreign: what folding made of it.';--> statement-breakpoint
COMMENT ON TABLE "supplier_event_keys" IS 'Which event has a key, so that it is stored once however often it is said (D2).';--> statement-breakpoint
COMMENT ON COLUMN "supplier_event_keys"."copy_count" IS 'How often the supplier repeated the event.';--> statement-breakpoint
COMMENT ON COLUMN "supplier_events"."id" IS 'From next_event_id: sorts by the time at which it was stored.';--> statement-breakpoint
-- Every month there is data of, and two ahead; the sweeper goes on from there. Rows of no slice fall into the
-- default partitions, so that an insert never fails for want of one.
DO $$
DECLARE
  it record;
  month timestamp;
  oldest timestamptz;
BEGIN
  FOR it IN SELECT * FROM sliced_tables LOOP
    PERFORM make_partition(it.parent, it.parent || '_default', it.fillfactor);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', it.parent, it.parent || '_default');
  END LOOP;
  SELECT least(now(), min(t.at)) INTO oldest FROM (
    SELECT min(created_at) AS at FROM unsliced.batches UNION ALL
    SELECT min(created_at) FROM unsliced.messages UNION ALL
    SELECT min(received_at) FROM unsliced.supplier_events) t;
  month := date_trunc('month', greatest(oldest - interval '1 day', now() - interval '5 years') AT TIME ZONE 'UTC');
  WHILE month <= (now() AT TIME ZONE 'UTC') + interval '2 months' LOOP
    PERFORM add_slice(month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
    month := month + interval '1 month';
  END LOOP;
END
$$;--> statement-breakpoint
INSERT INTO "batches" ("id", "application_id", "item_count", "created_at")
  SELECT "id", "application_id", "item_count", "created_at" FROM "unsliced"."batches";--> statement-breakpoint
INSERT INTO "messages" ("id", "enterprise_id", "application_id", "account_id", "batch_id", "number", "text", "encoding", "segment_count", "reference", "webhook_url", "unit_price_units", "price_units", "currency", "status", "reason", "uncertain", "operator", "signature_id", "current_attempt_id", "created_at", "expires_at", "queued_at", "sent_at", "final_at")
  SELECT "id", "enterprise_id", "application_id", "account_id", "batch_id", "number", "text", "encoding", "segment_count", "reference", "webhook_url", "unit_price_units", "price_units", "currency", "status", "reason", "uncertain", "operator", "signature_id", "current_attempt_id", "created_at", "expires_at", "queued_at", "sent_at", "final_at" FROM "unsliced"."messages";--> statement-breakpoint
INSERT INTO "attempts" ("id", "message_id", "enterprise_id", "application_id", "number", "retry_of", "submit_id", "state", "channel_id", "supplier_id", "receipt_mode", "segment_count", "route", "facts_revision", "due_at", "outcome", "reason", "may_repeat_channels", "created_at", "queued_at", "decided_at")
  SELECT "id", "message_id", "enterprise_id", "application_id", "number", "retry_of", "submit_id", "state", "channel_id", "supplier_id", "receipt_mode", "segment_count", "route", "facts_revision", "due_at", "outcome", "reason", "may_repeat_channels", "created_at", "queued_at", "decided_at" FROM "unsliced"."attempts";--> statement-breakpoint
INSERT INTO "segments" ("attempt_id", "part", "supplier_id", "number", "result", "result_code", "msg_id", "result_at", "receipt", "receipt_stat", "receipt_at")
  SELECT "attempt_id", "part", "supplier_id", "number", "result", "result_code", "msg_id", "result_at", "receipt", "receipt_stat", "receipt_at" FROM "unsliced"."segments";--> statement-breakpoint
INSERT INTO "submit_outbox" ("id", "submit_id", "message_id", "application_id", "attempt_id", "channel_id", "payload", "schema_version", "status", "attempt_count", "next_attempt_at", "lease_owner", "lease_expires_at", "stream_entry_id", "shadow_entry_id", "shadow_payload_hash", "published_at", "last_error", "created_at", "updated_at") OVERRIDING SYSTEM VALUE
  SELECT "id", "submit_id", "message_id", "application_id", "attempt_id", "channel_id", "payload", "schema_version", "status", "attempt_count", "next_attempt_at", "lease_owner", "lease_expires_at", "stream_entry_id", "shadow_entry_id", "shadow_payload_hash", "published_at", "last_error", "created_at", "updated_at" FROM "unsliced"."submit_outbox";--> statement-breakpoint
INSERT INTO "takes" ("submit_id", "part", "write_number", "kind", "attempt_id", "supplier_id", "owner", "slot", "epoch", "taken_at", "answer", "answered_at")
  SELECT "submit_id", "part", "write_number", "kind", "attempt_id", "supplier_id", "owner", "slot", "epoch", "taken_at", "answer", "answered_at" FROM "unsliced"."takes";--> statement-breakpoint
INSERT INTO "supplier_events" ("id", "event_key", "kind", "supplier_id", "slot", "epoch", "attempt_id", "part", "write_number", "answer", "result_code", "msg_id", "stat", "meaning", "number", "src_id", "raw", "received_at", "due_at", "try_count", "folded_at", "fate")
  SELECT event_time("received_at") | ("id" & 1048575), "event_key", "kind", "supplier_id", "slot", "epoch", "attempt_id", "part", "write_number", "answer", "result_code", "msg_id", "stat", "meaning", "number", "src_id", "raw", "received_at", "due_at", "try_count", "folded_at", "fate" FROM "unsliced"."supplier_events";--> statement-breakpoint
INSERT INTO "supplier_event_keys" ("event_key", "event_id", "copy_count")
  SELECT "event_key", event_time("received_at") | ("id" & 1048575), "copy_count" FROM "unsliced"."supplier_events";--> statement-breakpoint
UPDATE "anomalies" SET "event_id" = event_time(e."received_at") | (e."id" & 1048575)
  FROM "unsliced"."supplier_events" e WHERE e."id" = "anomalies"."event_id";--> statement-breakpoint
INSERT INTO "notifications" ("id", "message_id", "application_id", "url", "body", "status", "try_count", "ladder_start", "next_try_at", "lease_owner", "created_at", "delivered_at")
  SELECT "id", "message_id", "application_id", "url", "body", "status", "try_count", "ladder_start", "next_try_at", "lease_owner", "created_at", "delivered_at" FROM "unsliced"."notifications";--> statement-breakpoint
INSERT INTO "notification_tries" ("notification_id", "try_number", "at", "http_status", "error", "duration_ms")
  SELECT "notification_id", "try_number", "at", "http_status", "error", "duration_ms" FROM "unsliced"."notification_tries";--> statement-breakpoint
SELECT setval(pg_get_serial_sequence('submit_outbox', 'id'), max("id")) FROM "submit_outbox" HAVING count(*) > 0;--> statement-breakpoint
DROP SCHEMA "unsliced" CASCADE;--> statement-breakpoint
ANALYZE "batches", "messages", "attempts", "segments", "submit_outbox", "takes", "supplier_events", "notifications", "notification_tries";
