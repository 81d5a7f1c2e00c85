/**
 * The digests of a CMPP login (cmpp §4.1, §4.2). MD5 is what the protocol prescribes.
 */
import { createHash, timingSafeEqual } from "node:crypto";

const SOURCE_ADDR_BYTES = 6;

/**
 * How a login shorter than six characters enters the digest. Both occur, so a client is told by the
 * supplier's profile and a server tries both.
 */
export type ShortLogin = "padded" | "bare";

/** AuthenticatorSource. `timestamp` has ten digits, the leading zero included. */
export function sourceAuthenticator(
  sourceAddr: string,
  secret: string,
  timestamp: string,
  shortLogin: ShortLogin = "padded",
): Buffer {
  const login = shortLogin === "padded" ? sourceAddr.padEnd(SOURCE_ADDR_BYTES, "\0") : sourceAddr;
  return md5([Buffer.from(login, "latin1"), Buffer.alloc(9), Buffer.from(secret), Buffer.from(timestamp)]);
}

/** AuthenticatorISMG: the status enters as it stands on the wire, one byte in 2.0 and four in 3.0. */
export function serverAuthenticator(
  status: number,
  source: Buffer,
  secret: string,
  statusBytes: 1 | 4,
): Buffer {
  const field = Buffer.alloc(statusBytes);
  field.writeUIntBE(status, 0, statusBytes);
  return md5([field, source, Buffer.from(secret)]);
}

/** What a server asks of a CONNECT: either digest of the login will do, where it does not insist on one. */
export function loginMatches(
  login: { sourceAddr: string; timestamp: string; authenticator: Buffer },
  secret: string,
  only?: ShortLogin,
): boolean {
  const accepted: readonly ShortLogin[] = only === undefined ? ["padded", "bare"] : [only];
  return accepted.some((shortLogin) =>
    sameDigest(
      login.authenticator,
      sourceAuthenticator(login.sourceAddr, secret, login.timestamp, shortLogin),
    ),
  );
}

/** What a client asks of a CONNECT_RESP: servers differ in the size of the status they hash (cmpp §4.2). */
export function serverMatches(
  answer: { status: number; authenticator: Buffer },
  source: Buffer,
  secret: string,
): boolean {
  return ([1, 4] as const).some(
    (size) =>
      answer.status < 256 ** size &&
      sameDigest(answer.authenticator, serverAuthenticator(answer.status, source, secret, size)),
  );
}

function md5(parts: Buffer[]): Buffer {
  return createHash("md5").update(Buffer.concat(parts)).digest();
}

const sameDigest = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
