/**
 * Keeps webhooks from reaching anything but the public internet, in two places: when an address is
 * saved, by what it spells, and whenever a connection is opened, by what it really resolves to. Only
 * the second is a defence, for a name may point elsewhere by then.
 */
import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { buildConnector } from "undici";

export interface DialPolicy {
  /** Loopback, and nothing else that is inside, may be called: the demo's own receiver. */
  allowLoopback: boolean;
}

export type UrlRefusal =
  | "malformed_url"
  | "scheme_not_allowed"
  | "credentials_not_allowed"
  | "port_not_allowed"
  | "address_not_allowed";

export type CheckedUrl = { ok: true; url: string } | { ok: false; code: UrlRefusal };

const LONGEST_URL = 2_048;

/** Where databases, brokers and control planes listen; no webhook receiver does. */
const INNER_PORTS = new Set([
  1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5433, 5671, 5672, 5900, 5984, 5985,
  6000, 6379, 6380, 6443, 6432, 7000, 7001, 7233, 7379, 7432, 8086, 8472, 8500, 9042, 9092, 9200, 9300, 10250,
  10255, 11211, 15672, 16379, 26379, 27017, 27018, 50051,
]);

/** Names that mean something only inside a network, whatever a resolver says. */
const INNER_NAME = /(?:^|\.)(?:local|internal|intranet|lan|home|corp|localdomain|arpa)$/;

/**
 * Whether an address may be stored as a webhook, judged by its spelling alone and without a network.
 * Answers it in the one form in which it is then stored, signed for and called.
 */
export function checkWebhookUrl(text: string, policy: DialPolicy): CheckedUrl {
  const url = parseUrl(text);
  if (url === undefined) return refused("malformed_url");
  if (url.protocol !== "https:" && url.protocol !== "http:") return refused("scheme_not_allowed");
  if (url.username !== "" || url.password !== "") return refused("credentials_not_allowed");
  if (!isPortAllowed(url.port)) return refused("port_not_allowed");
  if (!isHostAllowed(url.hostname, policy)) return refused("address_not_allowed");
  url.hash = "";
  return { ok: true, url: url.href };
}

const refused = (code: UrlRefusal): CheckedUrl => ({ ok: false, code });

/** White space, control characters and backslashes are read differently by different parsers. */
function parseUrl(text: string): URL | undefined {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (text.length > LONGEST_URL || /[\s\\\u0000-\u001f\u007f]/.test(text)) return undefined;
  return URL.canParse(text) ? new URL(text) : undefined;
}

function isPortAllowed(port: string): boolean {
  if (port === "" || port === "80" || port === "443") return true;
  return Number(port) >= 1_024 && !INNER_PORTS.has(Number(port));
}

function isHostAllowed(hostname: string, policy: DialPolicy): boolean {
  const name = withoutTrailingDot(withoutBrackets(hostname));
  if (isIP(name) !== 0) return isAddressAllowed(name, policy);
  if (isLoopbackName(name)) return policy.allowLoopback;
  return name.includes(".") && !INNER_NAME.test(name);
}

const withoutBrackets = (hostname: string): string => hostname.replace(/^\[(.*)\]$/, "$1");
const withoutTrailingDot = (hostname: string): string => hostname.replace(/\.$/, "");
const isLoopbackName = (name: string): boolean => name === "localhost" || name.endsWith(".localhost");

/** Public, although it belongs to a cloud's inner services. */
const AZURE_WIRE_SERVER = "168.63.129.16";

/** Of IPv6 only this is handed out to the public; the rest is inner, mapped, translated or unused. */
const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");
const DOCUMENTATION_IPV6 = ipaddr.IPv6.parseCIDR("3fff::/20");

/** Whether a literal address is public unicast, or loopback where the policy allows that. */
export function isAddressAllowed(literal: string, policy: DialPolicy): boolean {
  if (isIP(literal) === 0) return false;
  const address = ipaddr.parse(literal);
  const range = address.range();
  if (range === "loopback") return policy.allowLoopback;
  if (range !== "unicast") return false;
  if (address instanceof ipaddr.IPv4) return address.toString() !== AZURE_WIRE_SERVER;
  return address.match(GLOBAL_IPV6) && !address.match(DOCUMENTATION_IPV6);
}

/** All addresses of a name. Rejects where there is none. */
export type Resolve = (name: string) => Promise<string[]>;

/** A dial that was not made: the host is, or resolves to, an address inside. */
export class AddressRefusedError extends Error {
  readonly code = "WEBHOOK_ADDRESS_REFUSED";
  constructor() {
    super("the webhook's host has an address that is not public");
  }
}

/** One address that swallows packets must leave time for the next one within a call. */
const CONNECT_TIMEOUT_MS = 4_000;
const DIALED_ADDRESSES = 3;

/**
 * A connector for undici that resolves the host itself, refuses when any of its addresses is not
 * public, and dials an address that it checked, so that the answer cannot change in between.
 */
export function guardedConnector(
  policy: DialPolicy,
  resolve: Resolve = resolvePublicly(),
): buildConnector.connector {
  const connect = buildConnector({ timeout: CONNECT_TIMEOUT_MS });

  async function dial(options: buildConnector.Options): Promise<buildConnector.CallbackArgs> {
    let failure: buildConnector.CallbackArgs = [new AddressRefusedError(), null];
    for (const address of await checkedAddresses(options.hostname, policy, resolve)) {
      failure = await new Promise((settle) => {
        connect({ ...options, hostname: address }, (...args) => settle(args));
      });
      if (failure[0] === null) return failure;
    }
    return failure;
  }

  return (options, callback) => {
    dial(options).then(
      (args) => callback(...args),
      (error: unknown) => callback(error instanceof Error ? error : new Error("not resolved"), null),
    );
  };
}

async function checkedAddresses(hostname: string, policy: DialPolicy, resolve: Resolve): Promise<string[]> {
  const name = withoutTrailingDot(withoutBrackets(hostname));
  const addresses = await addressesOf(name, resolve);
  if (addresses.length === 0 || !addresses.every((address) => isAddressAllowed(address, policy))) {
    throw new AddressRefusedError();
  }
  return addresses.slice(0, DIALED_ADDRESSES);
}

async function addressesOf(name: string, resolve: Resolve): Promise<string[]> {
  if (isIP(name) !== 0) return [name];
  return isLoopbackName(name) ? ["127.0.0.1", "::1"] : resolve(name);
}

/**
 * Asks name servers directly: the system's own look-up works in four threads for the whole process,
 * and a customer's name server that never answers would hold them.
 */
function resolvePublicly(): Resolve {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  return async (name) => {
    const [v4, v6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = [v4, v6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length === 0 && v4.status === "rejected") throw v4.reason;
    return found;
  };
}
