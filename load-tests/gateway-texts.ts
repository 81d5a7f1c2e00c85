/** Texts as the chain leaves them for the gateway: attempts queued in PostgreSQL, commands on the stream. */
import { randomBytes } from "node:crypto";
import { persistAttempts } from "../db/attempts.ts";
import { type Database, statement } from "../db/client.ts";
import { acceptMessages, type NewMessage } from "../db/inbox.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { type AttemptId, attemptIdOf, messageIdFrom } from "../domain/ids.ts";
import { describeText } from "../domain/segment.ts";
import { type OutgoingCommand, type Streams } from "../gateway-bridge/streams.ts";
import { CHANNEL, SUPPLIER } from "./gateway-servers.ts";

const BATCH = 250;
const TEXT = "【测试】您的验证码是 271828，五分钟内有效。";
const SENDER = {
  enterpriseId: "ent_demo",
  applicationId: "app_demo",
  accountId: "acc_demo",
  currency: "CNY",
  unitPriceUnits: 325n,
};

/** So that attempts may be queued although no gateway runs yet (B3): a connection that is none. */
export const pretendConnected = async (database: Database): Promise<void> => {
  await database.run(PRETEND, [SUPPLIER.id]);
};

/** Every number once: what the supplier read twice was doubled. */
const MEASURED = "138";
const numberAt = (position: number): string => MEASURED + String(position).padStart(8, "0");

export const isMeasured = (number: string): boolean => number.startsWith(MEASURED);

/** Answers the attempts of so many texts to numbers from `first` on, all committed. */
export async function queueTexts(database: Database, first: number, count: number): Promise<AttemptId[]> {
  const attempts: AttemptId[] = [];
  for (let at = 0; at < count; at += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, count - at) }, (_, index) =>
      newMessage(first + at + index),
    );
    await acceptMessages(database, { sender: SENDER, messages: some, answer: {} });
    const ids = some.map(({ id }) => attemptIdOf(id, 1));
    await database.transaction((tx) => reserveForAttempts(tx, ids));
    const planned = ids.map((attemptId) => ({ attemptId, channelId: CHANNEL, considered: [] }));
    const answers = await database.transaction((tx) => persistAttempts(tx, planned));
    const failed = [...answers.values()].find((it) => it.kind !== "queued");
    if (failed !== undefined) throw new Error(`a text was not queued: ${failed.kind}`);
    attempts.push(...ids);
  }
  return attempts;
}

function newMessage(position: number): NewMessage {
  return {
    id: messageIdFrom(Date.now(), randomBytes(10)),
    number: numberAt(position),
    text: TEXT,
    ...describeText(TEXT),
    reference: undefined,
    webhookUrl: undefined,
    validitySeconds: 86_400,
  };
}

/** Puts their commands on the channel's stream, in pipelines. */
export async function publishTexts(
  database: Database,
  streams: Streams,
  attempts: readonly AttemptId[],
): Promise<void> {
  for (let at = 0; at < attempts.length; at += BATCH) {
    const rows = await database.run(COMMANDS, [attempts.slice(at, at + BATCH)]);
    const added = await streams.add(
      rows.map((row): OutgoingCommand => ({
        submitId: row.submit_id,
        channelId: CHANNEL,
        schemaVersion: row.schema_version,
        payload: row.payload,
      })),
    );
    if (added.some((it) => "error" in it)) throw new Error("Redis did not take a command");
  }
}

export const editProfile = async (database: Database, changes: object): Promise<void> => {
  await database.run(EDIT, [SUPPLIER.id, JSON.stringify(changes)]);
};

/** From the first take to the last answer that was stored. */
export async function takesPerSecond(database: Database, attempts: readonly AttemptId[]): Promise<number> {
  const [row] = await database.run(SPAN, [attempts]);
  return Math.round(attempts.length / (row?.seconds ?? Number.NaN));
}

/** How all writes stand: by their answers, and those that wait for one. */
export async function countTakes(
  database: Database,
): Promise<{ accepted: number; unknown: number; open: number }> {
  const [row] = await database.run(COUNTS);
  return row ?? { accepted: 0, unknown: 0, open: 0 };
}

const EDIT = statement<Record<string, never>>(
  "",
  `UPDATE suppliers SET profile = profile || $2::jsonb WHERE id = $1`,
);

const SPAN = statement<{ seconds: number }>(
  "",
  `SELECT extract(epoch FROM max(answered_at) - min(taken_at))::float AS seconds
     FROM takes WHERE attempt_id = ANY($1::text[]) AND kind = 'write'`,
);

const COUNTS = statement<{ accepted: number; unknown: number; open: number }>(
  "",
  `SELECT count(*) FILTER (WHERE answer = 'accepted')::int AS accepted,
          count(*) FILTER (WHERE answer = 'unknown')::int AS unknown,
          count(*) FILTER (WHERE answer IS NULL)::int AS open
     FROM takes WHERE kind = 'write'`,
);

const PRETEND = statement<Record<string, never>>(
  "",
  `INSERT INTO connections (supplier_id, slot, owner, epoch, connected, heartbeat_at)
   VALUES ($1, 99, 'nobody', 1, true, now() + interval '1 day') ON CONFLICT DO NOTHING`,
);

const COMMANDS = statement<{ submit_id: string; schema_version: number; payload: string }>(
  "",
  `SELECT submit_id, schema_version, payload FROM submit_outbox WHERE attempt_id = ANY($1::text[]) ORDER BY id`,
);
