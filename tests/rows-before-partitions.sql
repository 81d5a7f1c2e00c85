-- One message of September 2026 with everything that hangs on it, as migration 0001 stored it.
WITH t AS (
  SELECT '01M3GDZT800000000000000000' AS id, '2026-09-15T12:00:00Z'::timestamptz AS at),
enterprise AS (INSERT INTO enterprises (id, name) VALUES ('ent', 'e')),
account AS (INSERT INTO accounts (id, enterprise_id, currency) VALUES ('acc', 'ent', 'CNY')),
grp AS (INSERT INTO channel_groups (id, name) VALUES ('grp', 'g')),
application AS (
  INSERT INTO applications (id, enterprise_id, account_id, channel_group_id, name, unit_price_units, webhook_secret)
  VALUES ('app', 'ent', 'acc', 'grp', 'a', 325, 's')),
batch AS (
  INSERT INTO batches (id, application_id, item_count, created_at) SELECT 'bat_' || id, 'app', 1, at FROM t),
message AS (
  INSERT INTO messages (id, enterprise_id, application_id, account_id, batch_id, number, text, encoding,
    segment_count, unit_price_units, price_units, currency, status, current_attempt_id, created_at, expires_at,
    final_at)
  SELECT 'msg_' || id, 'ent', 'app', 'acc', 'bat_' || id, '13800000000', 'x', 'ascii', 1, 325, 325, 'CNY',
    'delivered', 'att_' || id || '_2', at, at, at FROM t),
attempt AS (
  INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
    segment_count, route, outcome, created_at, decided_at)
  SELECT 'att_' || id || '_' || n, 'msg_' || id, 'ent', 'app', n, CASE WHEN n = 2 THEN 'att_' || id || '_1' END,
    'sub_' || id || '_' || n, 'decided', 1, '[]', 'delivered', at, at FROM t, generate_series(1, 2) n),
segment AS (
  INSERT INTO segments (attempt_id, part, supplier_id, number, result, msg_id)
  SELECT 'att_' || id || '_1', 1, 'sup_1', '13800000000', 'accepted', '00000000000000aa' FROM t),
command AS (
  INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload, schema_version, status,
    published_at, shadow_payload_hash, next_attempt_at, created_at, updated_at)
  SELECT 'sub_' || id || '_1', 'msg_' || id, 'app', 'att_' || id || '_1', 'chn', '{}', 1, 'published', at, '\x00', at, at,
    at FROM t),
taken AS (
  INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner, slot, epoch, taken_at)
  SELECT 'sub_' || id || '_1', 1, 1, 'write', 'att_' || id || '_1', 'sup_1', 'gateway', 1, 1, at FROM t),
event AS (
  INSERT INTO supplier_events (event_key, kind, supplier_id, attempt_id, part, stat, msg_id, copy_count, raw, epoch,
    received_at, due_at, folded_at, fate)
  SELECT 'receipt:1', 'receipt', 'sup_1', 'att_' || id || '_1', 1, 'DELIVRD', '00000000000000aa', 3, '\x01', 1, at, at,
    at, 'late' FROM t
  RETURNING id),
anomaly AS (
  INSERT INTO anomalies (kind, event_id) SELECT 'late_receipt_contradicts', id FROM event),
notification AS (
  INSERT INTO notifications (id, message_id, application_id, url, body, next_try_at, created_at)
  SELECT 'evt_' || id, 'msg_' || id, 'app', 'https://a.example/hook', '{}', at, at FROM t)
INSERT INTO notification_tries (notification_id, try_number, at, duration_ms) SELECT 'evt_' || id, 1, at, 7 FROM t;
