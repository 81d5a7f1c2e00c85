/** Credentials: shown once when made, stored as a hash (128 random bits or more need no slow hash). */
import { createHash, randomBytes } from "node:crypto";

/** wbk: a customer's API key; wbo, wbv: an operator's or viewer's token. */
export type TokenKind = "wbk" | "wbo" | "wbv";

export const newToken = (kind: TokenKind): string => `${kind}_${randomBytes(24).toString("base64url")}`;

export const tokenHash = (token: string): Buffer => createHash("sha256").update(token).digest();

/** In the form Standard Webhooks gives it: 24 to 64 random bytes in base64 behind `whsec_`. */
export const newWebhookSecret = (): string => `whsec_${randomBytes(32).toString("base64")}`;
