CREATE TABLE "inbound_messages" (
	"id" text COLLATE "C" PRIMARY KEY NOT NULL,
	"supplier_id" text NOT NULL,
	"channel_id" text,
	"application_id" text,
	"enterprise_id" text,
	"number_hash" text NOT NULL,
	"number_sealed" "bytea" NOT NULL,
	"dest_id" text NOT NULL,
	"is_text" boolean NOT NULL,
	"content_sealed" "bytea" NOT NULL,
	"part_count" smallint NOT NULL,
	"complete" boolean NOT NULL,
	"matched_by" text,
	"wish" text,
	"received_at" timestamp with time zone NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "inbound_messages_matched_by" CHECK (matched_by IN ('extension', 'last_message', 'only_application', 'person')),
	CONSTRAINT "inbound_messages_matched" CHECK (("inbound_messages"."application_id" IS NULL) = ("inbound_messages"."matched_by" IS NULL)),
	CONSTRAINT "inbound_messages_wish" CHECK (wish IN ('opt_out', 'opt_in'))
);
--> statement-breakpoint
CREATE TABLE "inbound_parts" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "inbound_parts_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"event_key" text NOT NULL,
	"supplier_id" text NOT NULL,
	"number_hash" text NOT NULL,
	"number_sealed" "bytea" NOT NULL,
	"dest_id" text NOT NULL,
	"msg_fmt" smallint NOT NULL,
	"content_sealed" "bytea" NOT NULL,
	"reference" text,
	"total" smallint NOT NULL,
	"part" smallint NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone DEFAULT now() NOT NULL,
	"inbound_id" text COLLATE "C",
	CONSTRAINT "inbound_parts_event_key_unique" UNIQUE("event_key"),
	CONSTRAINT "inbound_parts_place" CHECK ("inbound_parts"."part" BETWEEN 1 AND "inbound_parts"."total")
);
--> statement-breakpoint
ALTER TABLE "notifications" ALTER COLUMN "message_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "applications" ADD COLUMN "extension" text;--> statement-breakpoint
ALTER TABLE "applications" ADD COLUMN "opt_out_words" text[];--> statement-breakpoint
ALTER TABLE "applications" ADD COLUMN "opt_in_words" text[];--> statement-breakpoint
ALTER TABLE "notifications" ADD COLUMN "inbound_id" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "inbound_messages" ADD CONSTRAINT "inbound_messages_supplier_id_suppliers_id_fk" FOREIGN KEY ("supplier_id") REFERENCES "public"."suppliers"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "inbound_messages" ADD CONSTRAINT "inbound_messages_channel_id_channels_id_fk" FOREIGN KEY ("channel_id") REFERENCES "public"."channels"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "inbound_messages" ADD CONSTRAINT "inbound_messages_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "inbound_parts" ADD CONSTRAINT "inbound_parts_inbound_id_inbound_messages_id_fk" FOREIGN KEY ("inbound_id") REFERENCES "public"."inbound_messages"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "inbound_messages_newest" ON "inbound_messages" USING btree ("application_id","id" DESC NULLS LAST) WHERE "inbound_messages"."application_id" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "inbound_messages_unmatched" ON "inbound_messages" USING btree ("id" DESC NULLS LAST) WHERE "inbound_messages"."application_id" IS NULL;--> statement-breakpoint
CREATE INDEX "inbound_parts_due" ON "inbound_parts" USING btree ("due_at","id") WHERE "inbound_parts"."inbound_id" IS NULL;--> statement-breakpoint
CREATE INDEX "inbound_parts_of_text" ON "inbound_parts" USING btree ("supplier_id","number_hash","dest_id","reference","id") WHERE "inbound_parts"."reference" IS NOT NULL;--> statement-breakpoint
ALTER TABLE "applications" ADD CONSTRAINT "applications_extension" CHECK ("applications"."extension" ~ '^[0-9]{1,20}$');--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_of_inbound" CHECK (id = 'evt_' || substr(inbound_id, 5));--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_subject" CHECK ((message_id IS NULL) <> (inbound_id IS NULL));
--> statement-breakpoint
COMMENT ON TABLE "inbound_messages" IS 'A text that a recipient sent, joined from its parts, and whose it is.';--> statement-breakpoint
COMMENT ON TABLE "inbound_parts" IS 'Each DELIVER that brought a text or a part of one, written with its raw event (D2).';--> statement-breakpoint
COMMENT ON COLUMN "inbound_messages"."application_id" IS 'Null: nobody knows whom it is for, and a person may say (D14).';--> statement-breakpoint
COMMENT ON COLUMN "inbound_parts"."inbound_id" IS 'The text that it was joined into; null while it waits for the other parts.';--> statement-breakpoint
COMMENT ON COLUMN "applications"."extension" IS 'Digits that follow a channel''s number where this application is the sender.';--> statement-breakpoint
COMMENT ON COLUMN "notifications"."inbound_id" IS 'The inbound text that it tells of, where it is of no message.';
