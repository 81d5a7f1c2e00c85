/** Credentials of a copy's demo: made once, kept in `.waybill/secrets.json`, given out in run.json. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { newToken, newWebhookSecret } from "../db/keys.ts";

export interface Secrets {
  apiKey: string;
  opsToken: string;
  viewerToken: string;
  webhookSecret: string;
  /** Shared secret of each supplier's CMPP account, in the suppliers' order. */
  suppliers: string[];
}

/** What is there stays; only a supplier that is new gets a secret. */
export function secretsOf(home: string, supplierCount: number): Secrets {
  const file = path.join(home, "secrets.json");
  const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Secrets) : undefined;
  if (kept !== undefined && kept.suppliers.length >= supplierCount) return kept;
  const made: Secrets = {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    ...kept,
    suppliers: Array.from(
      { length: supplierCount },
      (_, index) => kept?.suppliers[index] ?? randomBytes(9).toString("base64url"),
    ),
  };
  writeFileSync(`${file}.new`, JSON.stringify(made, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return made;
}
