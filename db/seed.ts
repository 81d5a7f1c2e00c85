/**
 * The demo seed (interfaces §1): one enterprise with money, an application, three suppliers. What a person
 * changed afterwards stays; only what the surroundings decide (credentials, ports) is brought up to date.
 */
import { type Database, type Session, statement } from "./client.ts";
import { tokenHash } from "./keys.ts";
import { topUp } from "./ledger.ts";
import type { Operator } from "../domain/message.ts";

export interface DemoSupplier {
  id: string;
  name: string;
  version: "2.0" | "3.0";
  host: string;
  port: number;
  /** Source_Addr: six characters. */
  spId: string;
  secret: string;
}

export interface DemoSeed {
  apiKey: string;
  opsToken: string;
  viewerToken: string;
  webhookSecret: string;
  /** In the order of their priority, the preferred one first. */
  suppliers: readonly DemoSupplier[];
}

const PRICE_UNITS = 325n;
const SEGMENTS_PAID_FOR = 10_000_000n;
const SIGNATURE = "【测试】";

/** Connections to each supplier. */
export const CONNECTIONS = 2;
const RESPONSE_TIMEOUT_MS = 10_000;

const ENTERPRISE = "ent_demo";
const ACCOUNT = "acc_demo";
const APPLICATION = "app_demo";
const GROUP = "grp_demo";
const SIGNATURE_ID = "sig_demo";

/**
 * Operators by the first three digits. 170 belongs to virtual operators of all three, told apart by the
 * fourth digit; it stands with the one that has most of them. Left out are 192 (China Broadnet, which no
 * channel of the demo sells) and the thirteen-digit numbers of devices.
 */
export const PREFIXES: Readonly<Record<Operator, readonly number[]>> = {
  china_mobile: [
    134, 135, 136, 137, 138, 139, 147, 148, 150, 151, 152, 157, 158, 159, 165, 172, 178, 182, 183, 184, 187,
    188, 195, 197, 198,
  ],
  china_unicom: [130, 131, 132, 145, 146, 155, 156, 166, 167, 170, 171, 175, 176, 185, 186, 196],
  china_telecom: [133, 149, 153, 162, 173, 174, 177, 180, 181, 189, 190, 191, 193, 199],
};

/** Writes what is missing, in one transaction; a second run changes nothing. */
export async function seedDemo(database: Database, seed: DemoSeed): Promise<void> {
  await database.transaction(async (tx) => {
    await seedSender(tx, seed);
    await seedPrefixes(tx);
    for (const [index, supplier] of seed.suppliers.entries()) await seedSupplier(tx, supplier, index + 1);
    await tx.run(PUBLICATION);
  });
}

async function seedSender(tx: Session, seed: DemoSeed): Promise<void> {
  await tx.run(INSERT_ENTERPRISE, [ENTERPRISE]);
  await tx.run(INSERT_ACCOUNT, [ACCOUNT, ENTERPRISE]);
  await topUp(tx, ACCOUNT, `top_up:${ACCOUNT}:demo`, PRICE_UNITS * SEGMENTS_PAID_FOR);
  await tx.run(INSERT_GROUP, [GROUP]);
  await tx.run(INSERT_SIGNATURE, [SIGNATURE_ID, ENTERPRISE, SIGNATURE]);
  await tx.run(KEEP_APPLICATION, [
    APPLICATION,
    ENTERPRISE,
    ACCOUNT,
    GROUP,
    PRICE_UNITS,
    SIGNATURE_ID,
    seed.webhookSecret,
  ]);
  await tx.run(KEEP_API_KEY, ["key_demo", APPLICATION, tokenHash(seed.apiKey)]);
  await tx.run(KEEP_OPS_TOKEN, ["tok_operator", tokenHash(seed.opsToken), "operator"]);
  await tx.run(KEEP_OPS_TOKEN, ["tok_viewer", tokenHash(seed.viewerToken), "viewer"]);
}

async function seedPrefixes(tx: Session): Promise<void> {
  const rows = Object.entries(PREFIXES).flatMap(([operator, prefixes]) =>
    prefixes.map((prefix) => [String(prefix), operator] as const),
  );
  await tx.run(INSERT_PREFIXES, [rows.map(([prefix]) => prefix), rows.map(([, operator]) => operator)]);
}

async function seedSupplier(tx: Session, supplier: DemoSupplier, position: number): Promise<void> {
  const channelId = `chn_demo_${position}`;
  const { host, port, version, spId } = supplier;
  const profile = {
    host,
    port,
    version,
    spId,
    connections: CONNECTIONS,
    responseTimeoutMs: RESPONSE_TIMEOUT_MS,
  };
  await tx.run(KEEP_SUPPLIER, [supplier.id, supplier.name, supplier.secret, JSON.stringify(profile)]);
  await tx.run(INSERT_CHANNEL, [
    channelId,
    supplier.id,
    supplier.name,
    Object.keys(PREFIXES),
    `1069000${position}`,
  ]);
  await tx.run(INSERT_MEMBER, [GROUP, channelId, position * 10]);
  await tx.run(INSERT_FILING, [`fil_demo_${position}`, SIGNATURE_ID, channelId]);
}

const INSERT_ENTERPRISE = statement(
  "seed.enterprise",
  "INSERT INTO enterprises (id, name) VALUES ($1, 'Demo') ON CONFLICT DO NOTHING",
);

const INSERT_ACCOUNT = statement(
  "seed.account",
  "INSERT INTO accounts (id, enterprise_id, currency) VALUES ($1, $2, 'CNY') ON CONFLICT DO NOTHING",
);

const INSERT_GROUP = statement(
  "seed.group",
  "INSERT INTO channel_groups (id, name) VALUES ($1, 'Demo') ON CONFLICT DO NOTHING",
);

const INSERT_SIGNATURE = statement(
  "seed.signature",
  "INSERT INTO signatures (id, enterprise_id, text, status) VALUES ($1, $2, $3, 'approved') ON CONFLICT DO NOTHING",
);

const KEEP_APPLICATION = statement(
  "seed.application",
  `INSERT INTO applications (id, enterprise_id, account_id, channel_group_id, name, unit_price_units,
     default_signature_id, webhook_secret)
   VALUES ($1, $2, $3, $4, 'Demo', $5, $6, $7)
   ON CONFLICT (id) DO UPDATE SET webhook_secret = excluded.webhook_secret
     WHERE applications.webhook_secret <> excluded.webhook_secret`,
);

const KEEP_API_KEY = statement(
  "seed.api_key",
  `INSERT INTO api_keys (id, application_id, secret_hash) VALUES ($1, $2, $3)
   ON CONFLICT (id) DO UPDATE SET secret_hash = excluded.secret_hash
     WHERE api_keys.secret_hash <> excluded.secret_hash`,
);

const KEEP_OPS_TOKEN = statement(
  "seed.ops_token",
  `INSERT INTO ops_tokens (id, secret_hash, role) VALUES ($1, $2, $3)
   ON CONFLICT (id) DO UPDATE SET secret_hash = excluded.secret_hash
     WHERE ops_tokens.secret_hash <> excluded.secret_hash`,
);

const INSERT_PREFIXES = statement(
  "seed.prefixes",
  `INSERT INTO number_prefixes (prefix, operator) SELECT * FROM unnest($1::text[], $2::text[])
   ON CONFLICT DO NOTHING`,
);

/** Ports move when they are taken; the rest of a profile is a person's to tune. */
const KEEP_SUPPLIER = statement(
  "seed.supplier",
  `INSERT INTO suppliers (id, name, secret, profile) VALUES ($1, $2, $3, $4::jsonb)
   ON CONFLICT (id) DO UPDATE SET secret = excluded.secret,
       profile = suppliers.profile || jsonb_build_object('host', excluded.profile->'host', 'port', excluded.profile->'port')
     WHERE suppliers.secret <> excluded.secret
        OR suppliers.profile->'host' <> excluded.profile->'host'
        OR suppliers.profile->'port' <> excluded.profile->'port'`,
);

const INSERT_CHANNEL = statement(
  "seed.channel",
  `INSERT INTO channels (id, supplier_id, name, operators, src_id) VALUES ($1, $2, $3, $4, $5)
   ON CONFLICT DO NOTHING`,
);

const INSERT_MEMBER = statement(
  "seed.member",
  `INSERT INTO channel_group_members (group_id, channel_id, priority) VALUES ($1, $2, $3)
   ON CONFLICT DO NOTHING`,
);

const INSERT_FILING = statement(
  "seed.filing",
  "INSERT INTO filings (id, signature_id, channel_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
);

const PUBLICATION = statement(
  "seed.publication",
  "INSERT INTO publication DEFAULT VALUES ON CONFLICT DO NOTHING",
);
