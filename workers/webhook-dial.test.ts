import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  AddressRefusedError,
  checkWebhookUrl,
  guardedConnector,
  isAddressAllowed,
  type Resolve,
} from "./webhook-dial.ts";

const STRICT = { allowLoopback: false };
const DEMO = { allowLoopback: true };

/** Loopback in every spelling that a URL parser or a resolver understands. */
const LOOPBACK_HOSTS = [
  "127.0.0.1",
  "127.0.0.1.",
  "127.1",
  "127.0.1",
  "127.255.255.254",
  "2130706433",
  "0x7f000001",
  "0x7f.0.0.1",
  "0x7f.1",
  "017700000001",
  "0177.0.0.1",
  "0177.0x0.1",
  "127.0.0.0x1",
  "１２７.0.0.1",
  "127。0。0。1",
  "%31%32%37.0.0.1",
  "①②⑦.0.0.1",
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "[0000::0001]",
];
const LOOPBACK_NAMES = ["localhost", "LOCALHOST", "localhost.", "api.localhost", "ｌocalhost"];

/** Inside, and refused even where the demo may call loopback. */
const INNER_HOSTS = [
  "0",
  "0.0.0.0",
  "0x0",
  "0.1.2.3",
  "[::]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[0:0:0:0:0:ffff:127.0.0.1]",
  "[::ffff:10.0.0.1]",
  "[::ffff:169.254.169.254]",
  "[::ffff:8.8.8.8]",
  "[::127.0.0.1]",
  "[::ffff:0:127.0.0.1]",
  "[2002:7f00:1::]",
  "[2002:0a00:0001::1]",
  "[64:ff9b::7f00:1]",
  "[64:ff9b::10.0.0.1]",
  "[64:ff9b:1::a00:1]",
  "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
  "10.0.0.1",
  "10.255.255.255",
  "0xa000001",
  "167772161",
  "012.0.0.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.0.1",
  "192.168.1",
  "3232235521",
  "169.254.169.254",
  "169.254.0.1",
  "2852039166",
  "0xa9fea9fe",
  "100.64.0.1",
  "100.100.100.200",
  "100.127.255.255",
  "198.18.0.1",
  "198.19.255.255",
  "192.0.0.1",
  "192.0.0.192",
  "192.0.2.1",
  "192.88.99.1",
  "198.51.100.1",
  "203.0.113.1",
  "224.0.0.1",
  "239.255.255.250",
  "240.0.0.1",
  "255.255.255.255",
  "4294967295",
  "168.63.129.16",
  "[fd00:ec2::254]",
  "[fc00::1]",
  "[fd12:3456:789a::1]",
  "[fe80::1]",
  "[febf::1]",
  "[fec0::1]",
  "[ff02::1]",
  "[100::1]",
  "[2001:db8::1]",
  "[2001:2::1]",
  "[2001:10::1]",
  "[2001:20::1]",
  "[3fff::1]",
  "[5f00::1]",
  "[4000::1]",
];

const INNER_NAMES = [
  "intranet",
  "db",
  "metadata.google.internal",
  "vault.local",
  "nas.lan",
  "router.home",
  "git.corp",
  "host.docker.internal",
  "1.0.0.127.in-addr.arpa",
  "localhost.localdomain",
];

const PUBLIC_HOSTS = [
  "example.com",
  "hooks.example.co.uk",
  "8.8.8.8",
  "1.1.1.1",
  "172.15.0.1",
  "172.32.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "169.253.1.1",
  "198.17.0.1",
  "[2606:4700:4700::1111]",
  "[2a00:1450:4001::1]",
  "测试.example",
];

describe("an address at save (interfaces §3)", () => {
  it.each([...LOOPBACK_HOSTS, ...LOOPBACK_NAMES])("refuses loopback spelled %s", (host) => {
    const refusal = { ok: false, code: "address_not_allowed" };
    expect(checkWebhookUrl(`http://${host}/hook`, STRICT)).toEqual(refusal);
    expect(checkWebhookUrl(`https://${host}:8443/`, STRICT)).toEqual(refusal);
    expect(checkWebhookUrl(`http://${host}/hook`, DEMO)).toMatchObject({ ok: true });
  });

  it.each([...INNER_HOSTS, ...INNER_NAMES])("refuses %s, also where loopback is allowed", (host) => {
    for (const policy of [STRICT, DEMO]) {
      expect(checkWebhookUrl(`http://${host}/`, policy)).toEqual({ ok: false, code: "address_not_allowed" });
    }
  });

  it.each(PUBLIC_HOSTS)("takes %s", (host) => {
    expect(checkWebhookUrl(`https://${host}/hook?a=1`, STRICT)).toMatchObject({ ok: true });
  });

  it.each([
    ["", "malformed_url"],
    ["example.com", "malformed_url"],
    ["//example.com/", "malformed_url"],
    ["http://", "malformed_url"],
    ["http://999.1.1.1/", "malformed_url"],
    ["http://[::1", "malformed_url"],
    ["http://example.com\\@127.0.0.1/", "malformed_url"],
    ["http://127.0.0.1\\.example.com/", "malformed_url"],
    ["http://exa\tmple.com/", "malformed_url"],
    ["http://exa\nmple.com/", "malformed_url"],
    [" http://example.com/", "malformed_url"],
    ["http://example.com/\u0000", "malformed_url"],
    ["http://[fe80::1%25eth0]/", "malformed_url"],
    [`http://example.com/${"a".repeat(2048)}`, "malformed_url"],
    ["file:///etc/passwd", "scheme_not_allowed"],
    ["ftp://example.com/", "scheme_not_allowed"],
    ["gopher://example.com/", "scheme_not_allowed"],
    ["redis://example.com/", "scheme_not_allowed"],
    ["ws://example.com/", "scheme_not_allowed"],
    ["javascript:alert(1)", "scheme_not_allowed"],
    ["data:text/plain,a", "scheme_not_allowed"],
    ["http://user:secret@example.com/", "credentials_not_allowed"],
    ["http://example.com@127.0.0.1/", "credentials_not_allowed"],
    ["http://example.com%40x@example.org/", "credentials_not_allowed"],
    ["http://:secret@example.com/", "credentials_not_allowed"],
    ["http://example.com:22/", "port_not_allowed"],
    ["http://example.com:25/", "port_not_allowed"],
    ["http://example.com:6379/", "port_not_allowed"],
    ["http://example.com:5432/", "port_not_allowed"],
    ["http://example.com:0/", "port_not_allowed"],
    ["http://example.com:445/", "port_not_allowed"],
    ["http://example.com:2375/", "port_not_allowed"],
    ["http://example.com:11211/", "port_not_allowed"],
    ["http://127.0.0.1#@example.com/", "address_not_allowed"],
    ["http://127.0.0.1?@example.com/", "address_not_allowed"],
    ["http://127.0.0.1/@example.com/", "address_not_allowed"],
  ])("refuses %j with %s", (url, code) => {
    expect(checkWebhookUrl(url, STRICT)).toEqual({ ok: false, code });
  });

  it("answers the form that is stored: what a parser would call, without a fragment", () => {
    expect(checkWebhookUrl("HTTPS://Example.COM:443/a/../b?c#@127.0.0.1", STRICT)).toEqual({
      ok: true,
      url: "https://example.com/b?c",
    });
  });
});

describe("dialling", () => {
  const listeners: Server[] = [];
  let port = 0;
  let callers = 0;

  beforeAll(async () => {
    const onCall = (socket: Socket): void => {
      callers++;
      socket.destroy();
    };
    const first = await listen(onCall, "127.0.0.1", 0);
    port = (first.address() as AddressInfo).port;
    listeners.push(first, await listen(onCall, "::1", port));
  });
  afterAll(() => {
    for (const server of listeners) server.close();
  });

  const connect = (host: string, resolve: Resolve, policy = STRICT): Promise<Error | null> =>
    new Promise((settle) => {
      const target = { hostname: host, host: `${host}:${port}`, protocol: "http:", port: String(port) };
      guardedConnector(policy, resolve)(target, (error, socket) => {
        socket?.destroy();
        settle(error);
      });
    });
  const unasked: Resolve = (name) => Promise.reject(new Error(`nobody had to ask for ${name}`));

  it.each([...LOOPBACK_HOSTS, ...LOOPBACK_NAMES, ...INNER_HOSTS])(
    "refuses %s, and no packet leaves",
    async (host) => {
      const before = callers;
      const { hostname } = new URL(`http://${host}/`);
      expect(await connect(hostname, unasked)).toBeInstanceOf(AddressRefusedError);
      expect(callers).toBe(before);
    },
  );

  it.each([
    ["127.0.0.1.nip.example", ["127.0.0.1"]],
    ["one-public-one-private.example", ["8.8.8.8", "10.0.0.1"]],
    ["one-private-one-public.example", ["10.0.0.1", "8.8.8.8"]],
    ["v4-public-v6-loopback.example", ["8.8.8.8", "::1"]],
    ["mapped.example", ["::ffff:127.0.0.1"]],
    ["mapped-hex.example", ["::ffff:7f00:1"]],
    ["nat64.example", ["64:ff9b::7f00:1"]],
    ["metadata.example", ["169.254.169.254"]],
    ["link-local.example", ["fe80::1%lo"]],
    ["not-an-address.example", ["127.0.0.1.nip.example"]],
    ["nothing.example", []],
  ])("refuses %s, which resolves inward", async (name, addresses) => {
    const before = callers;
    expect(await connect(name, () => Promise.resolve(addresses))).toBeInstanceOf(AddressRefusedError);
    expect(callers).toBe(before);
  });

  it("dials the address that it checked, so that a second answer cannot move it (rebinding)", async () => {
    let answers = 0;
    const rebinding: Resolve = () => Promise.resolve(answers++ === 0 ? ["127.0.0.1"] : ["10.0.0.1"]);
    expect(await connect("rebinding.example", rebinding, DEMO)).toBeNull();
    expect(answers).toBe(1);
    expect(await connect("rebinding.example", rebinding, DEMO)).toBeInstanceOf(AddressRefusedError);
  });

  it("goes to the next checked address where one does not answer", async () => {
    expect(await connect("two.example", () => Promise.resolve(["127.0.0.2", "127.0.0.1"]), DEMO)).toBeNull();
  });

  it("says what the resolver said where a name has no address", async () => {
    const gone = Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    expect(await connect("none.example", () => Promise.reject(gone))).toBe(gone);
  });

  it.each(["127.0.0.1", "[::1]", "localhost", "api.localhost"])(
    "reaches %s where loopback is allowed",
    async (host) => {
      expect(await connect(host, unasked, DEMO)).toBeNull();
    },
  );
});

describe("which addresses are public", () => {
  it("are none of the private blocks, whatever follows the prefix", () => {
    const octet = fc.integer({ min: 0, max: 255 });
    const prefix = fc.constantFrom(
      "0",
      "10",
      "127",
      "172.16",
      "172.31",
      "192.168",
      "169.254",
      "100.64",
      "198.18",
    );
    fc.assert(
      fc.property(prefix, fc.array(octet, { minLength: 3, maxLength: 3 }), (head, tail) => {
        const address = [...head.split("."), ...tail].slice(0, 4).join(".");
        expect(isAddressAllowed(address, STRICT)).toBe(false);
      }),
    );
  });

  it("are none that carry an IPv4 address inside, public or not", () => {
    const group = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16));
    const wrap = fc.constantFrom("::ffff:A:B", "::A:B", "2002:A:B::", "64:ff9b::A:B", "::ffff:0:A:B");
    fc.assert(
      fc.property(wrap, group, group, (form, a, b) => {
        expect(isAddressAllowed(form.replace("A", a).replace("B", b), STRICT)).toBe(false);
      }),
    );
  });
});

function listen(onCall: (socket: Socket) => void, host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(onCall);
    server.once("error", reject);
    server.listen(port, host, () => resolve(server));
  });
}
