-- Rows of these tables change state: room on the page keeps updates within it (HOT), and small fixed
-- thresholds keep dead rows few however large the table grows.
ALTER TABLE "inbox" SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "submit_outbox" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "attempts" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "messages" SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "segments" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "takes" SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "supplier_events" SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "notifications" SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "accounts" SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
ALTER TABLE "connections" SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);--> statement-breakpoint
COMMENT ON TABLE "enterprises" IS 'A company that signs contracts with us; owns applications, accounts and signatures.';--> statement-breakpoint
COMMENT ON TABLE "accounts" IS 'Prepaid money of an enterprise: balance and held, in 1/10000 of the currency unit. Locked last (D11).';--> statement-breakpoint
COMMENT ON TABLE "channel_groups" IS 'The channels that an application may be sent over, with limits for retries.';--> statement-breakpoint
COMMENT ON TABLE "applications" IS 'What a customer sends with: price, account, channels, webhook.';--> statement-breakpoint
COMMENT ON TABLE "api_keys" IS 'SHA-256 of each API key; the key itself is never stored.';--> statement-breakpoint
COMMENT ON TABLE "ops_tokens" IS 'SHA-256 of each operator or viewer token.';--> statement-breakpoint
COMMENT ON TABLE "suppliers" IS 'One CMPP account with a supplier; its quirks are data in profile.';--> statement-breakpoint
COMMENT ON TABLE "channels" IS 'A sellable path of a supplier: operators, sender number, receipt mode.';--> statement-breakpoint
COMMENT ON TABLE "channel_group_members" IS 'Priority (smaller first) and weight of a channel within a group.';--> statement-breakpoint
COMMENT ON TABLE "signatures" IS 'The 【…】 at the head of a text, and whether it is approved.';--> statement-breakpoint
COMMENT ON TABLE "filings" IS 'A signature filed with a channel; without it the channel is not eligible.';--> statement-breakpoint
COMMENT ON TABLE "number_prefixes" IS 'Operator by the first digits of a number, or by all eleven where it was ported; the longest wins (A6).';--> statement-breakpoint
COMMENT ON TABLE "templates" IS 'Texts that were approved for an application, with {name} where they may differ (A3).';--> statement-breakpoint
COMMENT ON TABLE "blacklist" IS 'Numbers that get nothing, from one application or from all (A3).';--> statement-breakpoint
COMMENT ON TABLE "frequency_limits" IS 'How many messages one number may get from an application within a stretch of seconds (A3).';--> statement-breakpoint
COMMENT ON TABLE "admissions" IS 'Messages that count towards the limits of their application, once each (A4).';--> statement-breakpoint
COMMENT ON TABLE "connections" IS 'One row a connection slot: owner, epoch and heartbeat by the database clock (B4).';--> statement-breakpoint
COMMENT ON TABLE "batches" IS 'A customer''s list of messages, posted at once.';--> statement-breakpoint
COMMENT ON TABLE "messages" IS 'One text to one number, with a status that never goes back.';--> statement-breakpoint
COMMENT ON TABLE "idempotency_keys" IS 'The first answer to a client key and a hash of what was asked (A1).';--> statement-breakpoint
COMMENT ON TABLE "inbox" IS 'Attempts that a workflow has to take up; due again until persisted or ended (A2).';--> statement-breakpoint
COMMENT ON TABLE "attempts" IS 'One try to hand one message to one channel; one Temporal workflow.';--> statement-breakpoint
COMMENT ON TABLE "reviews" IS 'Attempts on which a person must decide (D12).';--> statement-breakpoint
COMMENT ON TABLE "untold" IS 'Workflows whose attempt was decided without them, to be told by the sweeper.';--> statement-breakpoint
COMMENT ON TABLE "segments" IS 'One part of an attempt: the supplier''s result and its receipt.';--> statement-breakpoint
COMMENT ON TABLE "concat_references" IS 'Last concatenation reference per sender and recipient.';--> statement-breakpoint
COMMENT ON TABLE "submit_outbox" IS 'Committed commands on their way to the stream (C1).';--> statement-breakpoint
COMMENT ON TABLE "publication" IS 'Whether commands go live, wait, or go to a shadow stream (C5).';--> statement-breakpoint
COMMENT ON TABLE "takes" IS 'Proof of at most one write: committed before its first byte; or withdrawn by a decision (C3).';--> statement-breakpoint
COMMENT ON TABLE "supplier_events" IS 'What suppliers said, raw, once per event key (D2).';--> statement-breakpoint
COMMENT ON TABLE "anomalies" IS 'Facts that contradict a decision or each other (D8).';--> statement-breakpoint
COMMENT ON TABLE "ledger_transfers" IS 'Append-only money: units leave debit_pot and enter credit_pot, once per key.';--> statement-breakpoint
COMMENT ON TABLE "billing_records" IS 'What a charged message cost, and whether it was refunded.';--> statement-breakpoint
COMMENT ON TABLE "notifications" IS 'One webhook a message and target, written with the final state (D10, E1).';--> statement-breakpoint
COMMENT ON TABLE "webhook_hosts" IS 'Hosts that failed last time, paused per application (E3).';--> statement-breakpoint
COMMENT ON TABLE "webhook_gone" IS 'Addresses that answered 410.';--> statement-breakpoint
COMMENT ON TABLE "notification_tries" IS 'Each try of a webhook and its outcome.';--> statement-breakpoint
COMMENT ON TABLE "alerts" IS 'Stored alerts that stay until a person clears them (K).';--> statement-breakpoint
COMMENT ON TABLE "audit_log" IS 'Who changed what, when and why, and what it did.';--> statement-breakpoint
COMMENT ON TABLE "deployment_facts" IS 'Small facts that one deployment remembers about itself.';--> statement-breakpoint
COMMENT ON COLUMN "messages"."uncertain" IS 'Some part was written and nobody knows whether it was taken.';--> statement-breakpoint
COMMENT ON COLUMN "messages"."current_attempt_id" IS 'The only attempt that may still change this message.';--> statement-breakpoint
COMMENT ON COLUMN "attempts"."facts_revision" IS 'Raised by every fold that changed something (D10).';--> statement-breakpoint
COMMENT ON COLUMN "attempts"."due_at" IS 'A decision is due since then; the workflow has to be told.';--> statement-breakpoint
COMMENT ON COLUMN "takes"."answer" IS 'accepted, rejected, throttled or unknown; null while nothing is known.';--> statement-breakpoint
COMMENT ON COLUMN "submit_outbox"."lease_owner" IS 'Token of the claim; only its holder may write back.';--> statement-breakpoint
COMMENT ON COLUMN "supplier_events"."fate" IS 'applied, late or foreign: what folding made of it.';--> statement-breakpoint
COMMENT ON COLUMN "ledger_transfers"."key" IS 'reserve:, close: (charged or released) and refund: are once per message.';
