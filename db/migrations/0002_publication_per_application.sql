CREATE TABLE "application_publication" (
	"application_id" text PRIMARY KEY NOT NULL,
	"mode" text NOT NULL,
	"changed_by" text,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "application_publication_mode" CHECK (mode IN ('live', 'paused', 'shadow'))
);
--> statement-breakpoint
DROP INDEX "submit_outbox_unpublished";--> statement-breakpoint
ALTER TABLE "submit_outbox" ADD COLUMN "application_id" text;--> statement-breakpoint
UPDATE "submit_outbox" o SET "application_id" = a."application_id" FROM "attempts" a WHERE a."id" = o."attempt_id";--> statement-breakpoint
ALTER TABLE "submit_outbox" ALTER COLUMN "application_id" SET NOT NULL;--> statement-breakpoint
ALTER TABLE "application_publication" ADD CONSTRAINT "application_publication_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "submit_outbox_unpublished" ON "submit_outbox" USING btree ("application_id","next_attempt_at") WHERE "submit_outbox"."status" IN ('pending', 'publishing');--> statement-breakpoint
COMMENT ON TABLE "application_publication" IS 'Applications with a publication mode of their own (H).';--> statement-breakpoint
COMMENT ON COLUMN "application_publication"."changed_by" IS 'Who stored it; null where the flags said so at a start.';
