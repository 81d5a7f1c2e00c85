/** Each tier sends as applications of its own: one carries the load, one is stopped in the middle (L). */
import { applyConfiguration } from "../db/configuration.ts";
import { configurationDocument } from "../db/configuration-document.ts";
import type { Database } from "../db/client.ts";
import { newToken, tokenHash } from "../db/keys.ts";
import { OPERATORS } from "../domain/message.ts";
import { askOps } from "../scripts/commands/ops-api.ts";
import type { RunFile } from "../scripts/run-file.ts";

/** Of a segment, in 1/10000: the reference figures were measured at it. */
export const PRICE_UNITS = 325;
const BALANCE_UNITS = 1_000_000_000;

export interface Sender {
  applicationId: string;
  apiKey: string;
}

export interface Senders {
  accountId: string;
  main: Sender;
  stopped: Sender;
  channelIds: readonly string[];
  /** Of the main application's signature, by channel. */
  filingIds: ReadonlyMap<string, string>;
}

/** The seed's suppliers share the load evenly; their channels are used as they are. */
export async function makeSenders(
  run: RunFile,
  database: Database,
  tier: string,
  webhookUrl: string,
): Promise<Senders> {
  const channelIds = run.suppliers.map((_, index) => `chn_demo_${index + 1}`);
  const main = { applicationId: `app_${tier}`, apiKey: newToken("wbk") };
  const stopped = { applicationId: `app_${tier}_stopped`, apiKey: newToken("wbk") };
  const filings = channelIds.map((channel) => ({
    id: `fil_${tier}_${channel}`,
    signature: `sig_${tier}`,
    channel,
  }));
  const accountId = `acc_${tier}`;
  const application = ({ applicationId, apiKey }: Sender) => ({
    application: {
      id: applicationId,
      name: applicationId,
      enterprise: `ent_${tier}`,
      account: accountId,
      group: `grp_${tier}`,
      unitPriceUnits: PRICE_UNITS,
      defaultSignature: `sig_${tier}`,
      webhookUrl,
      webhookSecret: run.webhookSecret,
    },
    apiKey: {
      id: `key_${applicationId}`,
      application: applicationId,
      sha256: tokenHash(apiKey).toString("hex"),
    },
  });
  const applications = [application(main), application(stopped)];
  const document = configurationDocument((url) => url).parse({
    version: 1,
    enterprises: [{ id: `ent_${tier}`, name: `Load ${tier}` }],
    accounts: [{ id: accountId, enterprise: `ent_${tier}`, currency: "CNY" }],
    channels: channelIds.map((id) => ({ id, operators: [...OPERATORS], active: true })),
    groups: [
      {
        id: `grp_${tier}`,
        name: `Load ${tier}`,
        members: channelIds.map((channel) => ({ channel, priority: 10 })),
      },
    ],
    signatures: [{ id: `sig_${tier}`, enterprise: `ent_${tier}`, text: `【${tier}】`, status: "approved" }],
    filings,
    applications: applications.map((it) => it.application),
    apiKeys: applications.map((it) => it.apiKey),
  });
  const applied = await applyConfiguration(database, document, {
    author: { actor: "load", note: `tier ${tier}` },
    dryRun: false,
    checkProfile: () => [],
  });
  if (!applied.ok)
    throw new Error(`the applications of a tier were refused: ${JSON.stringify(applied.errors)}`);
  await askOps(run, "POST", `accounts/${accountId}/top-up`, { key: `load:${tier}`, units: BALANCE_UNITS });
  return {
    accountId,
    main,
    stopped,
    channelIds,
    filingIds: new Map(filings.map(({ id, channel }) => [channel, id])),
  };
}
