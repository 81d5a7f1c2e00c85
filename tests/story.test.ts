/** One message's story, as `GET /v1/messages/{id}` tells it from facts in PostgreSQL. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { listOf, startApi, textOf, type ApiClient, type Json } from "./api-client.ts";

let api: ApiClient;

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

interface Subject {
  id: string;
  attempt: (number: number) => string;
  submit: (number: number) => string;
}

/** An accepted message of two segments. */
async function accept(): Promise<Subject> {
  const { body } = await api.call("POST", "/v1/messages", {
    body: { to: "13800000000", text: "长".repeat(80) },
  });
  const id = textOf(body["id"]);
  return {
    id,
    attempt: (number) => `att_${id.slice(4)}_${number}`,
    submit: (number) => `sub_${id.slice(4)}_${number}`,
  };
}

/** A moment so many seconds after the message was accepted. */
const AFTER = "(SELECT created_at FROM messages WHERE id = $1) + interval '1 second' *";

const show = async (id: string): Promise<Json> => (await api.call("GET", `/v1/messages/${id}`)).body;

const told = async (id: string): Promise<string[]> =>
  listOf((await show(id))["timeline"]).map(({ what, why }) =>
    why === undefined ? textOf(what) : `${textOf(what)} [${textOf(why)}]`,
  );

const waits = async (id: string): Promise<unknown> => {
  const waiting = (await show(id))["waitingFor"];
  return waiting && [waiting["kind"], waiting["what"]];
};

async function plan(sms: Subject, number: number, at: number): Promise<void> {
  await api.sql(
    `INSERT INTO attempts (id, message_id, enterprise_id, application_id, number, retry_of, submit_id, state,
       segment_count, created_at)
     VALUES ($2, $1, 'ent_demo', 'app_demo', $3, $4, $5, 'planned', 2, ${AFTER} $6)`,
    [
      sms.id,
      sms.attempt(number),
      number,
      number === 1 ? null : sms.attempt(number - 1),
      sms.submit(number),
      at,
    ],
  );
}

async function queue(sms: Subject, number: number, channel: number, at: number): Promise<void> {
  const route = [1, 2, 3].map((each) => ({
    channelId: `chn_demo_${each}`,
    priority: each,
    verdict: each < channel ? "tried_before" : "eligible",
  }));
  await api.sql(
    `UPDATE attempts SET state = 'queued', channel_id = $3, supplier_id = 'sup_1', receipt_mode = 'per_segment',
       route = $4::jsonb, queued_at = ${AFTER} $5 WHERE id = $2 AND message_id = $1`,
    [sms.id, sms.attempt(number), `chn_demo_${channel}`, JSON.stringify(route), at],
  );
  await api.sql(
    `INSERT INTO submit_outbox (submit_id, message_id, application_id, attempt_id, channel_id, payload,
                                schema_version, created_at)
     VALUES ($3, $1, 'app_demo', $2, $4, '{}', 1, ${AFTER} $5)`,
    [sms.id, sms.attempt(number), sms.submit(number), `chn_demo_${channel}`, at],
  );
  await api.sql(
    "INSERT INTO segments (attempt_id, part, supplier_id, number_hash) SELECT $1, part, 'sup_1', '' FROM generate_series(1, 2) part",
    [sms.attempt(number)],
  );
}

const publish = (sms: Subject, number: number, at: number): Promise<unknown> =>
  api.sql(
    `UPDATE submit_outbox SET status = 'published', published_at = ${AFTER} $3 WHERE submit_id = $2 AND message_id = $1`,
    [sms.id, sms.submit(number), at],
  );

const write = (sms: Subject, number: number, part: number, at: number, writeNumber = 1): Promise<unknown> =>
  api.sql(
    `INSERT INTO takes (submit_id, part, write_number, kind, attempt_id, supplier_id, owner, slot, epoch, taken_at)
     VALUES ($2, $3, $6, 'write', $4, 'sup_1', 'g', 1, 1, ${AFTER} $5)`,
    [sms.id, sms.submit(number), part, sms.attempt(number), at, writeNumber],
  );

const answer = (
  sms: Subject,
  number: number,
  part: number,
  result: string,
  code: number,
  at: number,
): Promise<unknown> =>
  api.sql(
    `UPDATE segments SET result = $4, result_code = $5, result_at = ${AFTER} $6 WHERE attempt_id = $2 AND part = $3 AND $1 <> ''`,
    [sms.id, sms.attempt(number), part, result, code, at],
  );

async function report(
  sms: Subject,
  number: number,
  part: number,
  stat: string,
  at: number,
  fate = "applied",
): Promise<void> {
  await api.sql(
    `INSERT INTO supplier_events (event_key, kind, supplier_id, attempt_id, part, stat, received_at, fate, folded_at)
     VALUES ($7, 'receipt', 'sup_1', $2, $3, $4, ${AFTER} $5, $6, now())`,
    [sms.id, sms.attempt(number), part, stat, at, fate, `${sms.attempt(number)}${part}${stat}`],
  );
  if (fate === "applied") {
    await api.sql(
      `UPDATE segments SET receipt = $4, receipt_stat = $5, receipt_at = ${AFTER} $6 WHERE attempt_id = $2 AND part = $3 AND $1 <> ''`,
      [sms.id, sms.attempt(number), part, stat === "DELIVRD" ? "delivered" : "failed", stat, at],
    );
  }
}

const move = (sms: Subject, kind: string, from: string, to: string, at: number): Promise<unknown> =>
  api.sql(
    `INSERT INTO ledger_transfers (key, kind, account_id, message_id, debit_pot, credit_pot, units, created_at)
     VALUES ($2, $3, 'acc_demo', $1, $4, $5, 650, ${AFTER} $6)`,
    [sms.id, `${kind}:${sms.id}`, kind, from, to, at],
  );

const decide = (
  sms: Subject,
  number: number,
  outcome: string,
  reason: string | null,
  at: number,
): Promise<unknown> =>
  api.sql(
    `UPDATE attempts SET state = 'decided', decided_at = ${AFTER} $5, outcome = $3, reason = $4 WHERE id = $2 AND message_id = $1`,
    [sms.id, sms.attempt(number), outcome, reason, at],
  );

it("tells a retry on a second supplier step by step, and what it waited for in between", async () => {
  const sms = await accept();
  expect(await waits(sms.id)).toEqual(["intake", "its attempt to be taken up"]);
  await plan(sms, 1, 1);
  await move(sms, "reserve", "balance", "held", 1);
  expect(await waits(sms.id)).toEqual(["route", "the choice of a channel"]);
  await queue(sms, 1, 1, 2);
  expect(await waits(sms.id)).toEqual(["publication", "its command to be published"]);
  await api.sql("INSERT INTO application_publication (application_id, mode) VALUES ('app_demo', 'paused')");
  expect(await waits(sms.id)).toEqual(["publication", "an operator to resume publication, which is paused"]);
  await api.sql("DELETE FROM application_publication");
  await publish(sms, 1, 3);
  expect(await waits(sms.id)).toEqual(["gateway", "the gateway to write parts 1, 2"]);
  await write(sms, 1, 1, 4);
  await write(sms, 1, 2, 4);
  await answer(sms, 1, 1, "accepted", 0, 5);
  expect(await waits(sms.id)).toEqual(["supplier_answer", "the supplier's answer to part 2"]);
  await answer(sms, 1, 2, "accepted", 0, 5);
  await move(sms, "charge", "held", "earned", 6);
  await report(sms, 1, 2, "DELIVRD", 7);
  expect(await waits(sms.id)).toEqual(["receipt", "the supplier's receipt for part 1"]);
  await report(sms, 1, 1, "UNDELIV", 8);
  expect(await waits(sms.id)).toEqual(["settlement", "its settlement"]);
  await decide(sms, 1, "undelivered", "receipt:UNDELIV", 9);
  await plan(sms, 2, 9);
  await api.sql("UPDATE messages SET current_attempt_id = $2 WHERE id = $1", [sms.id, sms.attempt(2)]);
  await queue(sms, 2, 2, 10);
  await publish(sms, 2, 11);
  await write(sms, 2, 1, 12);
  await api.sql(
    `UPDATE takes SET answer = 'throttled', answered_at = ${AFTER} 12.5 WHERE attempt_id = $2 AND $1 <> ''`,
    [sms.id, sms.attempt(2)],
  );
  expect(await waits(sms.id)).toEqual(["gateway", "the gateway to write parts 1, 2"]);
  await write(sms, 2, 1, 13, 2);
  await write(sms, 2, 2, 13);
  await answer(sms, 2, 1, "accepted", 0, 14);
  await answer(sms, 2, 2, "rejected", 9, 15);
  await decide(sms, 2, "failed", "submit:9", 16);
  await move(sms, "refund", "earned", "balance", 16);
  await api.sql(
    `UPDATE messages SET status = 'failed', reason = 'submit:9', final_at = ${AFTER} 16 WHERE id = $1`,
    [sms.id],
  );
  await api.sql(
    `INSERT INTO notifications (id, message_id, application_id, url, body_sealed, status, created_at)
     VALUES ($2, $1, 'app_demo', 'https://a.example/', '', 'pending', ${AFTER} 16)`,
    [sms.id, `evt_${sms.id.slice(4)}`],
  );
  await api.sql(
    `INSERT INTO notification_tries (notification_id, try_number, at, http_status, error, duration_ms)
     VALUES ($2, 1, ${AFTER} 17, 503, 'http_503', 12), ($2, 2, ${AFTER} 18, 200, NULL, 7)`,
    [sms.id, `evt_${sms.id.slice(4)}`],
  );
  await report(sms, 1, 1, "DELIVRD", 19, "late");

  expect(await told(sms.id)).toEqual([
    "accepted [2 segments of ucs2]",
    "reserved 650 units",
    "attempt 1 begun",
    "queued for channel supplier-1 [chn_demo_1 chosen, chn_demo_2 eligible, chn_demo_3 eligible]",
    "handed to the gateway over the stream",
    "part 1 of 2 taken to be written to the supplier",
    "part 2 of 2 taken to be written to the supplier",
    "part 1 of 2 accepted by the supplier",
    "part 2 of 2 accepted by the supplier",
    "charged 650 units",
    "receipt part 2 of 2 DELIVRD",
    "receipt part 1 of 2 UNDELIV",
    "attempt 1 decided: undelivered [receipt:UNDELIV]",
    "attempt 2 begun [replaces attempt 1]",
    "queued for channel supplier-2 [chn_demo_1 tried before, chn_demo_2 chosen, chn_demo_3 eligible]",
    "handed to the gateway over the stream",
    "part 1 of 2 taken to be written to the supplier",
    "part 1 of 2 throttled by the supplier",
    "part 1 of 2 taken to be written to the supplier [write 2, after throttling]",
    "part 2 of 2 taken to be written to the supplier",
    "part 1 of 2 accepted by the supplier",
    "part 2 of 2 rejected by the supplier [result 9]",
    "attempt 2 decided: failed [submit:9]",
    "refunded 650 units",
    "failed [submit:9]",
    `notification written [evt_${sms.id.slice(4)}]`,
    "webhook try 1 failed [http_503]",
    "webhook taken [HTTP 200]",
    "receipt part 1 of 2 DELIVRD [came after the decision: kept, and changes nothing]",
  ]);
  const story = await show(sms.id);
  expect(story["waitingFor"]).toBeUndefined();
  expect(story["attempts"]).toMatchObject([
    {
      id: sms.attempt(1),
      retryOf: null,
      channel: { id: "chn_demo_1" },
      segments: [{ part: 1, writes: 1, receiptStat: "UNDELIV" }, { part: 2 }],
    },
    {
      id: sms.attempt(2),
      retryOf: sms.attempt(1),
      segments: [
        { part: 1, writes: 2 },
        { part: 2, result: "rejected", resultCode: 9 },
      ],
    },
  ]);
  expect(story["ledger"]).toMatchObject([
    { kind: "reserve", units: 650, currency: "CNY" },
    { kind: "charge" },
    { kind: "refund" },
  ]);
  expect(story["notifications"]).toMatchObject([
    { status: "pending", tries: [{ number: 1, error: "http_503" }, { number: 2 }] },
  ]);
});

it("says that a person must decide, since when and why (D12)", async () => {
  const sms = await accept();
  await plan(sms, 1, 1);
  await api.sql(
    `INSERT INTO reviews (attempt_id, message_id, reason, since) SELECT $2, $1, 'outcome_unknown', ${AFTER} 5
       FROM messages m WHERE m.id = $1`,
    [sms.id, sms.attempt(1)],
  );
  expect(await waits(sms.id)).toEqual(["person", "a person to decide: outcome_unknown"]);
  expect((await show(sms.id))["needsReview"]).toMatchObject({ reason: "outcome_unknown" });
});

it("waits for a connection while every fitting channel is disconnected (B4)", async () => {
  const sms = await accept();
  await plan(sms, 1, 1);
  await api.sql("UPDATE attempts SET route = $2::jsonb WHERE id = $1", [
    sms.attempt(1),
    JSON.stringify([{ channelId: "chn_demo_1", priority: 1, verdict: "disconnected" }]),
  ]);
  expect(await waits(sms.id)).toEqual(["connection", "a supplier's connection to come back"]);
});

it("shows money beyond 2^53 in digits", async () => {
  const sms = await accept();
  await api.sql(
    "UPDATE messages SET unit_price_units = 5000000000000000, price_units = 10000000000000000 WHERE id = $1",
    [sms.id],
  );
  expect((await show(sms.id))["price"]).toEqual({ units: "10000000000000000", currency: "CNY" });
});
