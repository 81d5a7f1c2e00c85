-- SQL cannot seal. What numbers and texts there are moves to a table of its own, from which db/seal-stored.ts
-- takes it back, sealed, before anything else runs: batch by batch, so that it can be stopped and run again.
CREATE TABLE "unsealed" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	"place" text NOT NULL,
	"key" text NOT NULL,
	"value" jsonb NOT NULL
);
--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'messages', id, jsonb_build_object('number', number, 'text', text) FROM "messages";--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'idempotency_keys', key, jsonb_build_object('application_id', application_id, 'answer', answer,
       'body_hash', encode(body_hash, 'hex')) FROM "idempotency_keys";--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'submit_outbox', submit_id, jsonb_build_object('payload', payload) FROM "submit_outbox";--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'supplier_events', event_key, jsonb_build_object('id', id::text, 'kind', kind, 'number', number,
       'raw', encode(raw, 'hex')) FROM "supplier_events" WHERE number IS NOT NULL OR raw IS NOT NULL;--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'notifications', id, jsonb_build_object('body', body) FROM "notifications";--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'blacklist', id::text, to_jsonb(b) FROM "blacklist" b;--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'number_prefixes', prefix, to_jsonb(n) FROM "number_prefixes" n WHERE length(prefix) = 11;--> statement-breakpoint
INSERT INTO "unsealed" ("place", "key", "value")
SELECT 'concat_references', src_id, to_jsonb(c) FROM "concat_references" c;--> statement-breakpoint
DELETE FROM "blacklist";--> statement-breakpoint
DELETE FROM "number_prefixes" WHERE length(prefix) = 11;--> statement-breakpoint
DELETE FROM "concat_references";--> statement-breakpoint
UPDATE "submit_outbox" SET payload = '', shadow_entry_id = NULL, shadow_payload_hash = NULL;--> statement-breakpoint
ALTER TABLE "blacklist" DROP CONSTRAINT "blacklist_number";--> statement-breakpoint
ALTER TABLE "messages" DROP CONSTRAINT "messages_number";--> statement-breakpoint
ALTER TABLE "number_prefixes" DROP CONSTRAINT "number_prefixes_digits";--> statement-breakpoint
DROP INDEX "admissions_of_recipient";--> statement-breakpoint
DROP INDEX "blacklist_once";--> statement-breakpoint
DROP INDEX "messages_by_number";--> statement-breakpoint
DROP INDEX "segments_without_msg_id";--> statement-breakpoint
DROP INDEX "supplier_events_unmatched";--> statement-breakpoint
ALTER TABLE "concat_references" DROP CONSTRAINT "concat_references_src_id_number_pk";--> statement-breakpoint
ALTER TABLE "admissions" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "blacklist" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "concat_references" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "idempotency_keys" DROP COLUMN "answer";--> statement-breakpoint
ALTER TABLE "messages" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "messages" DROP COLUMN "text";--> statement-breakpoint
ALTER TABLE "notifications" DROP COLUMN "body";--> statement-breakpoint
ALTER TABLE "segments" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "supplier_events" DROP COLUMN "number";--> statement-breakpoint
ALTER TABLE "supplier_events" DROP COLUMN "raw";--> statement-breakpoint
ALTER TABLE "idempotency_keys" ALTER COLUMN "body_hash" SET DATA TYPE text USING encode("body_hash", 'hex');--> statement-breakpoint
-- The defaults stand for "not sealed yet" in rows that are there, and go at once.
ALTER TABLE "admissions" ADD COLUMN "number_hash" text NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "blacklist" ADD COLUMN "number_hash" text NOT NULL;--> statement-breakpoint
ALTER TABLE "blacklist" ADD COLUMN "number_sealed" "bytea" NOT NULL;--> statement-breakpoint
ALTER TABLE "concat_references" ADD COLUMN "number_hash" text NOT NULL;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "answer_sealed" "bytea" NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "messages" ADD COLUMN "number_hash" text NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "messages" ADD COLUMN "number_sealed" "bytea" NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "messages" ADD COLUMN "text_sealed" "bytea" NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "notifications" ADD COLUMN "body_sealed" "bytea" NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "number_prefixes" ADD COLUMN "number_sealed" "bytea";--> statement-breakpoint
ALTER TABLE "segments" ADD COLUMN "number_hash" text NOT NULL DEFAULT '';--> statement-breakpoint
ALTER TABLE "supplier_events" ADD COLUMN "number_hash" text;--> statement-breakpoint
ALTER TABLE "supplier_events" ADD COLUMN "number_sealed" "bytea";--> statement-breakpoint
ALTER TABLE "supplier_events" ADD COLUMN "raw_sealed" "bytea";--> statement-breakpoint
ALTER TABLE "admissions" ALTER COLUMN "number_hash" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ALTER COLUMN "answer_sealed" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "messages" ALTER COLUMN "number_hash" DROP DEFAULT, ALTER COLUMN "number_sealed" DROP DEFAULT, ALTER COLUMN "text_sealed" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "notifications" ALTER COLUMN "body_sealed" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "segments" ALTER COLUMN "number_hash" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "concat_references" ADD CONSTRAINT "concat_references_src_id_number_hash_pk" PRIMARY KEY("src_id","number_hash");--> statement-breakpoint
CREATE INDEX "admissions_of_recipient" ON "admissions" USING btree ("application_id","number_hash","counted_at");--> statement-breakpoint
CREATE UNIQUE INDEX "blacklist_once" ON "blacklist" USING btree ("number_hash",coalesce("application_id", ''));--> statement-breakpoint
CREATE INDEX "messages_by_number" ON "messages" USING btree ("application_id","number_hash","created_at" DESC NULLS LAST,"id" DESC NULLS LAST);--> statement-breakpoint
CREATE INDEX "segments_without_msg_id" ON "segments" USING btree ("supplier_id","number_hash") WHERE "segments"."msg_id" IS NULL AND ("segments"."result" IS NULL OR "segments"."result" IN ('accepted', 'unknown'));--> statement-breakpoint
CREATE INDEX "supplier_events_unmatched" ON "supplier_events" USING btree ("supplier_id","number_hash") WHERE "supplier_events"."folded_at" IS NULL AND "supplier_events"."kind" = 'receipt';--> statement-breakpoint
ALTER TABLE "number_prefixes" ADD CONSTRAINT "number_prefixes_digits" CHECK (CASE WHEN "number_prefixes"."number_sealed" IS NULL THEN "number_prefixes"."prefix" ~ '^1[0-9]{2,9}$' ELSE "number_prefixes"."prefix" ~ '^#.{22}$' END);--> statement-breakpoint
COMMENT ON COLUMN "messages"."number_hash" IS 'Keyed hash of the number: equal in every table, for search and matching (docs/data-life.md).';--> statement-breakpoint
COMMENT ON COLUMN "messages"."number_sealed" IS 'The number, encrypted for this row.';--> statement-breakpoint
COMMENT ON COLUMN "messages"."text_sealed" IS 'The text, encrypted for this row.';--> statement-breakpoint
COMMENT ON COLUMN "idempotency_keys"."body_hash" IS 'Keyed hash of the body.';--> statement-breakpoint
COMMENT ON COLUMN "idempotency_keys"."answer_sealed" IS 'The answer but for its time, encrypted.';--> statement-breakpoint
COMMENT ON COLUMN "submit_outbox"."payload" IS 'The command, encrypted for its submit id, in base64url.';--> statement-breakpoint
COMMENT ON COLUMN "supplier_events"."raw_sealed" IS 'The frame as it came, encrypted.';--> statement-breakpoint
COMMENT ON COLUMN "supplier_events"."event_key" IS 'What makes two copies one event; of a delivery a keyed hash.';--> statement-breakpoint
COMMENT ON COLUMN "notifications"."body_sealed" IS 'The exact bytes that are signed and sent, encrypted.';--> statement-breakpoint
COMMENT ON COLUMN "blacklist"."number_hash" IS 'Keyed hash of the number.';--> statement-breakpoint
COMMENT ON COLUMN "number_prefixes"."prefix" IS 'First digits, or # and the keyed hash of a single ported number.';
