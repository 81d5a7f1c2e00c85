/** Tokens of the people and programs that operate Waybill. */
import { statement, type Session } from "./client.ts";

export interface OpsToken {
  id: string;
  /** A viewer may look at everything and change nothing. */
  role: "viewer" | "operator";
}

/** Undefined where no active token has this hash. */
export async function findOpsToken(session: Session, hash: Buffer): Promise<OpsToken | undefined> {
  const [row] = await session.run(FIND, [hash]);
  return row;
}

const FIND = statement<OpsToken>(
  "ops_tokens.find",
  "SELECT id, role FROM ops_tokens WHERE secret_hash = $1 AND active",
);
