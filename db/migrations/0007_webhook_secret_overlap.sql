ALTER TABLE "applications" ADD COLUMN "webhook_secret_previous_until" timestamp with time zone;--> statement-breakpoint
COMMENT ON COLUMN "applications"."webhook_secret_previous_until" IS 'Until then the secret before signs too; null: until it is taken out.';
