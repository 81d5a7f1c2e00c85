import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { newDataKeys, parseDataKeys, withNewDataKey } from "./data-keys.ts";
import { lockedVault, openVault, VaultError } from "./vault.ts";

const written = newDataKeys();
const keys = parseDataKeys(written);
const vault = openVault(keys);
const NUMBER = "13800001234";

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof VaultError) return error.code;
    throw error;
  }
  return "none";
};

describe("the vault", () => {
  it("opens what it sealed, whatever the text is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), fc.string(), (text, row) => {
        const clear = Buffer.from(text, "utf8");
        const sealed = vault.seal("messages.text", row, text);
        expect(sealed.length).toBe(43 + clear.length);
        expect(vault.openText("messages.text", row, sealed)).toBe(clear.toString("utf8"));
        expect(vault.open("messages.text", row, sealed)).toEqual(clear);
      }),
    );
  });

  it("opens a value at its own column and row alone", () => {
    const sealed = vault.seal("messages.number", "msg_1", NUMBER);
    expect(codeOf(() => vault.open("messages.number", "msg_2", sealed))).toBe("broken_seal");
    expect(codeOf(() => vault.open("messages.text", "msg_1", sealed))).toBe("broken_seal");
  });

  it("opens nothing of which a single bit was changed, or a byte is missing", () => {
    const sealed = vault.seal("messages.number", "msg_1", NUMBER);
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = Buffer.from(sealed);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(codeOf(() => vault.open("messages.number", "msg_1", changed))).toMatch(
        /^(broken_seal|unknown_key)$/,
      );
    }
    for (let length = 0; length < sealed.length; length++) {
      const cut = sealed.subarray(0, length);
      expect(codeOf(() => vault.open("messages.number", "msg_1", cut))).toBe("broken_seal");
    }
  });

  it("never seals the same twice alike, in one process or in two", () => {
    const vaults = [vault, openVault(keys), openVault(keys)];
    const sealed = vaults.flatMap((it) =>
      Array.from({ length: 200 }, () => it.seal("messages.number", "msg_1", NUMBER).toString("hex")),
    );
    // What stands before the ciphertext decides key and nonce together.
    expect(new Set(sealed.map((it) => it.slice(0, 54))).size).toBe(600);
    expect(new Set(sealed.map((it) => it.slice(54, 76))).size).toBe(600);
  });

  it("opens what another process sealed, also under an older key, and seals under the newest", () => {
    const later = openVault(parseDataKeys(withNewDataKey(keys)));
    const old = vault.seal("messages.number", "msg_1", NUMBER);
    expect(later.openText("messages.number", "msg_1", old)).toBe(NUMBER);
    expect(later.isCurrent(old)).toBe(false);
    const fresh = later.seal("messages.number", "msg_1", NUMBER);
    expect(later.isCurrent(fresh)).toBe(true);
    expect(codeOf(() => vault.open("messages.number", "msg_1", fresh))).toBe("unknown_key");
  });

  it("hashes a number alike under every data key, and otherwise under another search key", () => {
    const later = openVault(parseDataKeys(withNewDataKey(keys)));
    const elsewhere = openVault(parseDataKeys(newDataKeys()));
    expect(vault.hash(NUMBER)).toMatch(/^[\w-]{22}$/);
    expect(later.hash(NUMBER)).toBe(vault.hash(NUMBER));
    expect(elsewhere.hash(NUMBER)).not.toBe(vault.hash(NUMBER));
    expect(vault.hash("13800001235")).not.toBe(vault.hash(NUMBER));
  });

  it("does nothing without keys", () => {
    expect(codeOf(() => lockedVault.seal("messages.number", "msg_1", NUMBER))).toBe("no_data_keys");
    expect(codeOf(() => lockedVault.hash(NUMBER))).toBe("no_data_keys");
  });
});

describe("data keys as they are written down", () => {
  const search = /search:\S+/.exec(written)?.[0] ?? "";
  const data = /data:\S+/.exec(written)?.[0] ?? "";

  it("may stand in lines or behind each other, with remarks", () => {
    const read = parseDataKeys(`# of 2026\n ${data},${search} # keep\n\n`);
    expect(read).toEqual(keys);
  });

  it.each([
    ["no search key", data, /one search: key/],
    ["two search keys", `${search} ${search} ${data}`, /one search: key/],
    ["no data key", search, /a data: key/],
    ["a key twice", `${search} ${data} ${data}`, /twice/],
    ["a key that is too short", `${search} data:c2hvcnQ=`, /data key 2 is not/],
    ["a word that is no key", `${search} ${data} secret`, /data key 3 is not/],
  ])("are refused with %s, and never quoted", (_, text, said) => {
    expect(() => parseDataKeys(text)).toThrow(said);
    for (const key of [search, data]) {
      expect(() => parseDataKeys(text)).not.toThrow(key.slice(key.indexOf(":") + 1));
    }
  });
});
