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

const SUPPLIER_COUNT = 3;

export function secretsOf(home: string): Secrets {
  const file = path.join(home, "secrets.json");
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as Secrets;
  const made: Secrets = {
    apiKey: newToken("wbk"),
    opsToken: newToken("wbo"),
    viewerToken: newToken("wbv"),
    webhookSecret: newWebhookSecret(),
    suppliers: Array.from({ length: SUPPLIER_COUNT }, () => randomBytes(9).toString("base64url")),
  };
  writeFileSync(`${file}.new`, JSON.stringify(made, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return made;
}
