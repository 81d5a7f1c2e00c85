CREATE TABLE "accounts" (
	"id" text PRIMARY KEY NOT NULL,
	"enterprise_id" text NOT NULL,
	"currency" text NOT NULL,
	"balance_units" bigint DEFAULT 0 NOT NULL,
	"held_units" bigint DEFAULT 0 NOT NULL,
	"floor_units" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "accounts_balance_above_floor" CHECK ("accounts"."balance_units" >= "accounts"."floor_units"),
	CONSTRAINT "accounts_held_not_negative" CHECK ("accounts"."held_units" >= 0)
);
--> statement-breakpoint
CREATE TABLE "admissions" (
	"message_id" text PRIMARY KEY NOT NULL,
	"enterprise_id" text NOT NULL,
	"application_id" text NOT NULL,
	"number" text NOT NULL,
	"counted_at" timestamp with time zone NOT NULL,
	"day" date NOT NULL,
	"number_of_day" integer NOT NULL,
	CONSTRAINT "admissions_numbered" UNIQUE("application_id","day","number_of_day")
);
--> statement-breakpoint
CREATE TABLE "alerts" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "alerts_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"kind" text NOT NULL,
	"subject" text NOT NULL,
	"detail" text,
	"raised_at" timestamp with time zone DEFAULT now() NOT NULL,
	"cleared_at" timestamp with time zone,
	"cleared_by" text
);
--> statement-breakpoint
CREATE TABLE "anomalies" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "anomalies_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"kind" text NOT NULL,
	"attempt_id" text,
	"event_id" bigint,
	"detail" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "anomalies_once" UNIQUE("kind","event_id")
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"application_id" text NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "api_keys_secret_hash_unique" UNIQUE("secret_hash")
);
--> statement-breakpoint
CREATE TABLE "applications" (
	"id" text PRIMARY KEY NOT NULL,
	"enterprise_id" text NOT NULL,
	"account_id" text NOT NULL,
	"channel_group_id" text NOT NULL,
	"name" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"unit_price_units" bigint NOT NULL,
	"default_signature_id" text,
	"rate_per_second" integer,
	"template_required" boolean DEFAULT false NOT NULL,
	"daily_limit" integer,
	"webhook_url" text,
	"webhook_secret" text NOT NULL,
	"webhook_secret_previous" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "applications_price_positive" CHECK ("applications"."unit_price_units" > 0),
	CONSTRAINT "applications_daily_limit" CHECK ("applications"."daily_limit" >= 0)
);
--> statement-breakpoint
CREATE TABLE "attempts" (
	"id" text PRIMARY KEY NOT NULL,
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
	CONSTRAINT "attempts_retry_of_unique" UNIQUE("retry_of"),
	CONSTRAINT "attempts_submit_id_unique" UNIQUE("submit_id"),
	CONSTRAINT "attempts_number_per_message" UNIQUE("message_id","number"),
	CONSTRAINT "attempts_state" CHECK (state IN ('planned', 'queued', 'decided')),
	CONSTRAINT "attempts_queued_has_channel" CHECK ("attempts"."state" <> 'queued' OR "attempts"."channel_id" IS NOT NULL),
	CONSTRAINT "attempts_decided_has_outcome" CHECK (("attempts"."state" = 'decided') = ("attempts"."decided_at" IS NOT NULL AND "attempts"."outcome" IS NOT NULL))
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "audit_log_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"subject" text NOT NULL,
	"note" text,
	"effect" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "batches" (
	"id" text PRIMARY KEY NOT NULL,
	"application_id" text NOT NULL,
	"item_count" integer NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "billing_records" (
	"message_id" text PRIMARY KEY NOT NULL,
	"account_id" text NOT NULL,
	"attempt_id" text NOT NULL,
	"unit_price_units" bigint NOT NULL,
	"unit_count" integer NOT NULL,
	"amount_units" bigint NOT NULL,
	"charged_at" timestamp with time zone DEFAULT now() NOT NULL,
	"refunded_at" timestamp with time zone,
	CONSTRAINT "billing_records_amount" CHECK ("billing_records"."amount_units" = "billing_records"."unit_price_units" * "billing_records"."unit_count")
);
--> statement-breakpoint
CREATE TABLE "blacklist" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "blacklist_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"number" text NOT NULL,
	"application_id" text,
	"source" text DEFAULT 'platform' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "blacklist_number" CHECK ("blacklist"."number" ~ '^1[0-9]{10}$'),
	CONSTRAINT "blacklist_source" CHECK (source IN ('platform', 'opt_out'))
);
--> statement-breakpoint
CREATE TABLE "channel_group_members" (
	"group_id" text NOT NULL,
	"channel_id" text NOT NULL,
	"priority" integer NOT NULL,
	"weight" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "channel_group_members_group_id_channel_id_pk" PRIMARY KEY("group_id","channel_id"),
	CONSTRAINT "channel_group_members_weight" CHECK ("channel_group_members"."weight" > 0)
);
--> statement-breakpoint
CREATE TABLE "channel_groups" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"retry_window_seconds" integer DEFAULT 3600 NOT NULL,
	"max_attempts" integer DEFAULT 3 NOT NULL,
	CONSTRAINT "channel_groups_attempts_positive" CHECK ("channel_groups"."max_attempts" >= 1)
);
--> statement-breakpoint
CREATE TABLE "channels" (
	"id" text PRIMARY KEY NOT NULL,
	"supplier_id" text NOT NULL,
	"name" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"operators" text[] NOT NULL,
	"src_id" text NOT NULL,
	"receipt_mode" text DEFAULT 'per_segment' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "channels_receipt_mode" CHECK (receipt_mode IN ('per_segment', 'message_level'))
);
--> statement-breakpoint
CREATE TABLE "concat_references" (
	"src_id" text NOT NULL,
	"number" text NOT NULL,
	"last" smallint NOT NULL,
	CONSTRAINT "concat_references_src_id_number_pk" PRIMARY KEY("src_id","number")
);
--> statement-breakpoint
CREATE TABLE "connections" (
	"supplier_id" text NOT NULL,
	"slot" smallint NOT NULL,
	"owner" text NOT NULL,
	"epoch" bigint NOT NULL,
	"connected" boolean NOT NULL,
	"heartbeat_at" timestamp with time zone NOT NULL,
	"window_in_use" integer DEFAULT 0 NOT NULL,
	"last_error" text,
	CONSTRAINT "connections_supplier_id_slot_pk" PRIMARY KEY("supplier_id","slot")
);
--> statement-breakpoint
CREATE TABLE "deployment_facts" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "enterprises" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "filings" (
	"id" text PRIMARY KEY NOT NULL,
	"signature_id" text NOT NULL,
	"channel_id" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	CONSTRAINT "filings_once" UNIQUE("signature_id","channel_id")
);
--> statement-breakpoint
CREATE TABLE "frequency_limits" (
	"application_id" text NOT NULL,
	"window_seconds" integer NOT NULL,
	"max_messages" integer NOT NULL,
	CONSTRAINT "frequency_limits_application_id_window_seconds_pk" PRIMARY KEY("application_id","window_seconds"),
	CONSTRAINT "frequency_limits_window" CHECK ("frequency_limits"."window_seconds" BETWEEN 1 AND 86400),
	CONSTRAINT "frequency_limits_positive" CHECK ("frequency_limits"."max_messages" > 0)
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"application_id" text NOT NULL,
	"key" text NOT NULL,
	"body_hash" "bytea" NOT NULL,
	"answer" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_keys_application_id_key_pk" PRIMARY KEY("application_id","key")
);
--> statement-breakpoint
CREATE TABLE "inbox" (
	"attempt_id" text PRIMARY KEY NOT NULL,
	"message_id" text NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"start_count" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "ledger_transfers" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "ledger_transfers_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"key" text NOT NULL,
	"kind" text NOT NULL,
	"account_id" text NOT NULL,
	"message_id" text,
	"debit_pot" text NOT NULL,
	"credit_pot" text NOT NULL,
	"units" bigint NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "ledger_transfers_key_unique" UNIQUE("key"),
	CONSTRAINT "ledger_transfers_positive" CHECK ("ledger_transfers"."units" > 0),
	CONSTRAINT "ledger_transfers_legs" CHECK (("ledger_transfers"."kind", "ledger_transfers"."debit_pot", "ledger_transfers"."credit_pot") IN (('top_up', 'outside', 'balance'),
          ('reserve', 'balance', 'held'), ('charge', 'held', 'earned'),
          ('release', 'held', 'balance'), ('refund', 'earned', 'balance'))),
	CONSTRAINT "ledger_transfers_of_a_message" CHECK (("ledger_transfers"."kind" = 'top_up') = ("ledger_transfers"."message_id" IS NULL))
);
--> statement-breakpoint
CREATE TABLE "messages" (
	"id" text PRIMARY KEY NOT NULL,
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
);
--> statement-breakpoint
CREATE TABLE "notification_tries" (
	"notification_id" text NOT NULL,
	"try_number" integer NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"http_status" integer,
	"error" text,
	"duration_ms" integer NOT NULL,
	CONSTRAINT "notification_tries_notification_id_try_number_pk" PRIMARY KEY("notification_id","try_number")
);
--> statement-breakpoint
CREATE TABLE "notifications" (
	"id" text PRIMARY KEY NOT NULL,
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
	CONSTRAINT "notifications_once" UNIQUE("message_id","url"),
	CONSTRAINT "notifications_status" CHECK (status IN ('pending', 'delivered', 'parked', 'disabled'))
);
--> statement-breakpoint
CREATE TABLE "number_prefixes" (
	"prefix" text PRIMARY KEY NOT NULL,
	"operator" text NOT NULL,
	CONSTRAINT "number_prefixes_operator" CHECK (operator IN ('china_mobile', 'china_unicom', 'china_telecom')),
	CONSTRAINT "number_prefixes_digits" CHECK ("number_prefixes"."prefix" ~ '^1[0-9]{2,10}$')
);
--> statement-breakpoint
CREATE TABLE "ops_tokens" (
	"id" text PRIMARY KEY NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"role" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "ops_tokens_secret_hash_unique" UNIQUE("secret_hash"),
	CONSTRAINT "ops_tokens_role" CHECK (role IN ('viewer', 'operator'))
);
--> statement-breakpoint
CREATE TABLE "publication" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"mode" text DEFAULT 'live' NOT NULL,
	"changed_by" text,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "publication_singleton" CHECK ("publication"."singleton"),
	CONSTRAINT "publication_mode" CHECK (mode IN ('live', 'paused', 'shadow'))
);
--> statement-breakpoint
CREATE TABLE "reviews" (
	"attempt_id" text PRIMARY KEY NOT NULL,
	"message_id" text NOT NULL,
	"reason" text NOT NULL,
	"since" timestamp with time zone DEFAULT now() NOT NULL,
	"waiting_since" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "segments" (
	"attempt_id" text NOT NULL,
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
);
--> statement-breakpoint
CREATE TABLE "signatures" (
	"id" text PRIMARY KEY NOT NULL,
	"enterprise_id" text NOT NULL,
	"text" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	CONSTRAINT "signatures_text_per_enterprise" UNIQUE("enterprise_id","text"),
	CONSTRAINT "signatures_status" CHECK (status IN ('pending', 'approved', 'rejected'))
);
--> statement-breakpoint
CREATE TABLE "submit_outbox" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "submit_outbox_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"submit_id" text NOT NULL,
	"message_id" text NOT NULL,
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
	CONSTRAINT "submit_outbox_submit_id_unique" UNIQUE("submit_id"),
	CONSTRAINT "submit_outbox_status" CHECK (status IN ('pending', 'publishing', 'published', 'dead')),
	CONSTRAINT "submit_outbox_lease" CHECK (("submit_outbox"."status" = 'publishing') = ("submit_outbox"."lease_owner" IS NOT NULL AND "submit_outbox"."lease_expires_at" IS NOT NULL)),
	CONSTRAINT "submit_outbox_published" CHECK ("submit_outbox"."status" <> 'published' OR "submit_outbox"."published_at" IS NOT NULL)
);
--> statement-breakpoint
CREATE TABLE "supplier_events" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "supplier_events_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
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
	"copy_count" integer DEFAULT 0 NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"try_count" integer DEFAULT 0 NOT NULL,
	"folded_at" timestamp with time zone,
	"fate" text,
	CONSTRAINT "supplier_events_event_key_unique" UNIQUE("event_key"),
	CONSTRAINT "supplier_events_kind" CHECK (kind IN ('response', 'no_response', 'receipt', 'inbound')),
	CONSTRAINT "supplier_events_answer" CHECK (answer IN ('accepted', 'rejected', 'throttled', 'unknown')),
	CONSTRAINT "supplier_events_meaning" CHECK (meaning IN ('delivered', 'failed', 'undecided')),
	CONSTRAINT "supplier_events_fate" CHECK (fate IN ('applied', 'late', 'foreign'))
);
--> statement-breakpoint
CREATE TABLE "suppliers" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"active" boolean DEFAULT true NOT NULL,
	"secret" text NOT NULL,
	"profile" jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "takes" (
	"submit_id" text NOT NULL,
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
	CONSTRAINT "takes_kind" CHECK (kind IN ('write', 'withdrawn')),
	CONSTRAINT "takes_answer" CHECK (answer IN ('accepted', 'rejected', 'throttled', 'unknown')),
	CONSTRAINT "takes_write_has_connection" CHECK ("takes"."kind" = 'withdrawn' OR "takes"."epoch" IS NOT NULL)
);
--> statement-breakpoint
CREATE TABLE "templates" (
	"id" text PRIMARY KEY NOT NULL,
	"application_id" text NOT NULL,
	"body" text NOT NULL,
	"status" text DEFAULT 'pending' NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "templates_status" CHECK (status IN ('pending', 'approved', 'rejected'))
);
--> statement-breakpoint
CREATE TABLE "untold" (
	"attempt_id" text PRIMARY KEY NOT NULL,
	"since" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "webhook_gone" (
	"application_id" text NOT NULL,
	"url" text NOT NULL,
	"gone_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "webhook_gone_application_id_url_pk" PRIMARY KEY("application_id","url")
);
--> statement-breakpoint
CREATE TABLE "webhook_hosts" (
	"application_id" text NOT NULL,
	"host" text NOT NULL,
	"failure_count" integer NOT NULL,
	"failing_since" timestamp with time zone NOT NULL,
	"paused_until" timestamp with time zone NOT NULL,
	CONSTRAINT "webhook_hosts_application_id_host_pk" PRIMARY KEY("application_id","host")
);
--> statement-breakpoint
ALTER TABLE "accounts" ADD CONSTRAINT "accounts_enterprise_id_enterprises_id_fk" FOREIGN KEY ("enterprise_id") REFERENCES "public"."enterprises"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "admissions" ADD CONSTRAINT "admissions_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "applications" ADD CONSTRAINT "applications_enterprise_id_enterprises_id_fk" FOREIGN KEY ("enterprise_id") REFERENCES "public"."enterprises"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "applications" ADD CONSTRAINT "applications_account_id_accounts_id_fk" FOREIGN KEY ("account_id") REFERENCES "public"."accounts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "applications" ADD CONSTRAINT "applications_channel_group_id_channel_groups_id_fk" FOREIGN KEY ("channel_group_id") REFERENCES "public"."channel_groups"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_channel_id_channels_id_fk" FOREIGN KEY ("channel_id") REFERENCES "public"."channels"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_supplier_id_suppliers_id_fk" FOREIGN KEY ("supplier_id") REFERENCES "public"."suppliers"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_retry_of" FOREIGN KEY ("retry_of") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "batches" ADD CONSTRAINT "batches_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "billing_records" ADD CONSTRAINT "billing_records_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "blacklist" ADD CONSTRAINT "blacklist_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "channel_group_members" ADD CONSTRAINT "channel_group_members_group_id_channel_groups_id_fk" FOREIGN KEY ("group_id") REFERENCES "public"."channel_groups"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "channel_group_members" ADD CONSTRAINT "channel_group_members_channel_id_channels_id_fk" FOREIGN KEY ("channel_id") REFERENCES "public"."channels"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "channels" ADD CONSTRAINT "channels_supplier_id_suppliers_id_fk" FOREIGN KEY ("supplier_id") REFERENCES "public"."suppliers"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "connections" ADD CONSTRAINT "connections_supplier_id_suppliers_id_fk" FOREIGN KEY ("supplier_id") REFERENCES "public"."suppliers"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "filings" ADD CONSTRAINT "filings_signature_id_signatures_id_fk" FOREIGN KEY ("signature_id") REFERENCES "public"."signatures"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "filings" ADD CONSTRAINT "filings_channel_id_channels_id_fk" FOREIGN KEY ("channel_id") REFERENCES "public"."channels"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "frequency_limits" ADD CONSTRAINT "frequency_limits_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "inbox" ADD CONSTRAINT "inbox_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ledger_transfers" ADD CONSTRAINT "ledger_transfers_account_id_accounts_id_fk" FOREIGN KEY ("account_id") REFERENCES "public"."accounts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ledger_transfers" ADD CONSTRAINT "ledger_transfers_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_batch_id_batches_id_fk" FOREIGN KEY ("batch_id") REFERENCES "public"."batches"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notification_tries" ADD CONSTRAINT "notification_tries_notification_id_notifications_id_fk" FOREIGN KEY ("notification_id") REFERENCES "public"."notifications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "reviews" ADD CONSTRAINT "reviews_message_id_messages_id_fk" FOREIGN KEY ("message_id") REFERENCES "public"."messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "segments" ADD CONSTRAINT "segments_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "signatures" ADD CONSTRAINT "signatures_enterprise_id_enterprises_id_fk" FOREIGN KEY ("enterprise_id") REFERENCES "public"."enterprises"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "submit_outbox" ADD CONSTRAINT "submit_outbox_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "takes" ADD CONSTRAINT "takes_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "templates" ADD CONSTRAINT "templates_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_gone" ADD CONSTRAINT "webhook_gone_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_hosts" ADD CONSTRAINT "webhook_hosts_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "admissions_of_recipient" ON "admissions" USING btree ("application_id","number","counted_at");--> statement-breakpoint
CREATE UNIQUE INDEX "alerts_open_once" ON "alerts" USING btree ("kind","subject") WHERE "alerts"."cleared_at" IS NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "attempts_one_live_per_message" ON "attempts" USING btree ("message_id") WHERE "attempts"."decided_at" IS NULL;--> statement-breakpoint
CREATE INDEX "attempts_decision_due" ON "attempts" USING btree ("due_at","id") WHERE "attempts"."decided_at" IS NULL AND "attempts"."due_at" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "audit_log_of_subject" ON "audit_log" USING btree ("subject","id");--> statement-breakpoint
CREATE UNIQUE INDEX "blacklist_once" ON "blacklist" USING btree ("number",coalesce("application_id", ''));--> statement-breakpoint
CREATE INDEX "inbox_due" ON "inbox" USING btree ("due_at");--> statement-breakpoint
CREATE INDEX "ledger_transfers_of_message" ON "ledger_transfers" USING btree ("message_id") WHERE "ledger_transfers"."message_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "ledger_transfers_of_account" ON "ledger_transfers" USING btree ("account_id","id");--> statement-breakpoint
CREATE INDEX "messages_newest" ON "messages" USING btree ("application_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "messages_by_reference" ON "messages" USING btree ("application_id","reference","created_at" DESC NULLS LAST,"id" DESC NULLS LAST) WHERE "messages"."reference" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "messages_by_number" ON "messages" USING btree ("application_id","number","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "messages_of_batch" ON "messages" USING btree ("batch_id") WHERE "messages"."batch_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "messages_uncertain" ON "messages" USING btree ("current_attempt_id") WHERE "messages"."uncertain" AND "messages"."final_at" IS NULL;--> statement-breakpoint
CREATE INDEX "messages_past_limit" ON "messages" USING btree ("expires_at") WHERE "messages"."final_at" IS NULL;--> statement-breakpoint
CREATE INDEX "notifications_of_host" ON "notifications" USING btree ("application_id","host","next_try_at") WHERE "notifications"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "notifications_newest" ON "notifications" USING btree ("application_id","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "reviews_open" ON "reviews" USING btree ("since") WHERE "reviews"."waiting_since" IS NULL;--> statement-breakpoint
CREATE INDEX "segments_by_msg_id" ON "segments" USING btree ("supplier_id","msg_id") WHERE "segments"."msg_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "segments_without_msg_id" ON "segments" USING btree ("supplier_id","number") WHERE "segments"."msg_id" IS NULL AND ("segments"."result" IS NULL OR "segments"."result" IN ('accepted', 'unknown'));--> statement-breakpoint
CREATE INDEX "segments_unanswered" ON "segments" USING btree ("attempt_id") WHERE "segments"."result" IS NULL;--> statement-breakpoint
CREATE INDEX "submit_outbox_unpublished" ON "submit_outbox" USING btree ("next_attempt_at") WHERE "submit_outbox"."status" IN ('pending', 'publishing');--> statement-breakpoint
CREATE INDEX "submit_outbox_dead" ON "submit_outbox" USING btree ("updated_at") WHERE "submit_outbox"."status" = 'dead';--> statement-breakpoint
CREATE INDEX "supplier_events_unfolded" ON "supplier_events" USING btree ("due_at","id") WHERE "supplier_events"."folded_at" IS NULL;--> statement-breakpoint
CREATE INDEX "supplier_events_unmatched" ON "supplier_events" USING btree ("supplier_id","number") WHERE "supplier_events"."folded_at" IS NULL AND "supplier_events"."kind" = 'receipt';--> statement-breakpoint
CREATE INDEX "supplier_events_of_attempt" ON "supplier_events" USING btree ("attempt_id") WHERE "supplier_events"."attempt_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "takes_unanswered" ON "takes" USING btree ("taken_at") WHERE "takes"."kind" = 'write' AND "takes"."answered_at" IS NULL;--> statement-breakpoint
CREATE INDEX "templates_approved" ON "templates" USING btree ("application_id") WHERE "templates"."status" = 'approved';