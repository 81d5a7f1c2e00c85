/** `waybill apply` and `waybill export` on a database of their own: what they change, say and refuse. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parse, stringify } from "yaml";
import type { Database } from "../db/client.ts";
import { tokenHash } from "../db/keys.ts";
import { topUp } from "../db/ledger.ts";
import { findCaller } from "../db/queries.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import { supplierProfile } from "../gateway-bridge/supplier.ts";
import { waybill } from "../scripts/waybill.ts";
import { acceptMessages } from "../db/inbox.ts";
import { attemptIdOf, messageIdFrom } from "../domain/ids.ts";
import { describeText } from "../domain/segment.ts";
import { ask, countOf, messageOf, only, openFacts } from "./facts.ts";
import { placeIn } from "./place.ts";
import { DATA_KEYS, freshDatabase, vault } from "./servers.ts";

let url: string;
let database: Database;
let folder: string;
let printed: string[];

beforeEach(async () => {
  url = await freshDatabase();
  database = await openFacts(url);
  folder = await mkdtemp(path.join(tmpdir(), "waybill-configuration-"));
  printed = [];
  vi.stubEnv("DATABASE_URL", url);
  vi.stubEnv("WAYBILL_DATA_KEYS", DATA_KEYS);
  vi.spyOn(console, "log").mockImplementation((line: string) => void printed.push(line));
  vi.spyOn(console, "error").mockImplementation((line: string) => void printed.push(line));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await database.close();
  await rm(folder, { recursive: true });
});

/** The exit code, and what was printed. */
async function run(...args: string[]): Promise<{ code: number; said: string }> {
  printed = [];
  const code = await waybill(args, placeIn(folder));
  return { code, said: printed.join("\n") };
}

async function apply(document: unknown, ...options: string[]): Promise<{ code: number; said: string }> {
  const file = path.join(folder, "waybill.yaml");
  await writeFile(file, typeof document === "string" ? document : stringify(document));
  return run("apply", file, ...options);
}

const page = (): Promise<string> =>
  readFile(fileURLToPath(new URL("../docs/configuration.md", import.meta.url)), "utf8");

const example = async (): Promise<string> => /```yaml\n([\s\S]*?)```/.exec(await page())?.[1] ?? "";

const NOTHING = { code: 0, said: "Nothing to change: all of it is so already." };

const version1 = (sections: object): object => ({ version: 1, ...sections });

const exported = async (): Promise<Record<string, Record<string, unknown>[]>> =>
  parse((await run("export")).said) as Record<string, Record<string, unknown>[]>;

/** All that could have changed, to hold against what it was. */
const everything = async (): Promise<string> =>
  `${(await run("export")).said}\n${await countOf(database, "audit_log")}`;

describe("the example of docs/configuration.md", () => {
  it("applies, makes a key that works, and the second time changes nothing", async () => {
    const first = await apply(await example());
    expect(first.code).toBe(0);
    const key = /API key of key_acme, shown this once: (wbk_\S+)/.exec(first.said)?.[1] ?? "";
    expect(await findCaller(database, tokenHash(key))).toMatchObject({ applicationId: "app_acme_codes" });
    const before = await everything();
    expect(await apply(await example())).toEqual(NOTHING);
    expect(await everything()).toBe(before);
  });

  it("makes the rules hold that it states (A3)", async () => {
    await apply(await example());
    await database.transaction((tx) => topUp(tx, "acc_acme", "top_up:test", 1_000_000n));
    const verdict = async (to: string, text: string): Promise<string> => {
      const id = messageIdFrom(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
      await acceptMessages(database, {
        sender: {
          enterpriseId: "ent_acme",
          applicationId: "app_acme_codes",
          accountId: "acc_acme",
          currency: "CNY",
          unitPriceUnits: 325n,
        },
        messages: [
          {
            id,
            number: to,
            text,
            ...describeText(text),
            reference: undefined,
            webhookUrl: undefined,
            validitySeconds: 60,
          },
        ],
        answer: { id },
      });
      const attempt = attemptIdOf(id, 1);
      await database.transaction((tx) => reserveForAttempts(tx, [attempt]));
      const { status, reason } = await messageOf(database, attempt);
      return reason ?? status;
    };
    const good = "Your code is 1. It holds for 5 minutes.";
    expect(await verdict("13811111111", good)).toBe("accepted");
    expect(await verdict("13811111111", good)).toBe("frequency_limited");
    expect(await verdict("13822222222", "hello")).toBe("template_not_matched");
    expect(await verdict("13800000001", good)).toBe("recipient_blacklisted");
    expect(await verdict("13812345678", good)).toBe("accepted");
    expect(
      await only(database, `SELECT operator, signature_id FROM messages WHERE number_hash = $1`, [
        vault.hash("13812345678"),
      ]),
    ).toEqual({ operator: "china_telecom", signature_id: "sig_acme" });
  });

  it("shows in a dry run what it would do, and does nothing of it", async () => {
    const before = await everything();
    const dry = await apply(await example(), "--dry-run");
    expect(dry).toMatchObject({ code: 0 });
    expect(dry.said).toContain("+ applications app_acme_codes");
    expect(dry.said).toContain("+ blacklist (2)");
    expect(dry.said).toContain("nothing was changed");
    expect(dry.said).not.toMatch(/wbk_|whsec_/);
    expect(await everything()).toBe(before);
  });
});

it("docs/configuration.md names every key of a supplier's profile", async () => {
  const text = await page();
  expect(Object.keys(supplierProfile.shape).filter((key) => !text.includes(`\`${key}\``))).toEqual([]);
});

describe("what a file does not name", () => {
  it("stays as it is, entry and field", async () => {
    await apply(await example());
    const before = await exported();
    const { code, said } = await apply(version1({ applications: [{ id: "app_acme_codes", dailyLimit: 7 }] }));
    expect({ code, said }).toEqual({
      code: 0,
      said: "~ applications app_acme_codes\n    dailyLimit: 100000 -> 7\nDone.",
    });
    const after = await exported();
    for (const each of [before, after]) {
      for (const application of each["applications"] ?? []) delete application["dailyLimit"];
    }
    expect(after).toEqual(before);
  });

  it("stays so within a supplier's profile, whose other keys are changed one by one", async () => {
    const profile = { window: 32 };
    expect(await apply(version1({ suppliers: [{ id: "sup_1", profile }] }))).toMatchObject({
      said: expect.stringContaining("profile.window: none -> 32"),
    });
    const stored = await only<{ profile: object }>(
      database,
      `SELECT profile FROM suppliers WHERE id = 'sup_1'`,
    );
    expect(stored.profile).toMatchObject({ window: 32, spId: "900001", port: 7_891 });
  });

  it("is removed from a list inside an entry that the file names", async () => {
    const members = [
      { channel: "chn_demo_1", priority: 10 },
      { channel: "chn_demo_3", priority: 5 },
    ];
    const { said } = await apply(version1({ groups: [{ id: "grp_demo", members }] }));
    expect(said.split("\n")).toEqual([
      "~ groups.members grp_demo/chn_demo_3",
      "    priority: 30 -> 5",
      "- groups.members grp_demo/chn_demo_2",
      "Done.",
    ]);
    expect(await countOf(database, "channel_group_members")).toBe(2);
  });

  it("is cleared by null, and a number taken off by absent", async () => {
    await apply(await example());
    const blacklist = [{ number: "+8613800000001", application: "app_acme_codes", absent: true }];
    const prefixes = [{ prefix: 13_812_345_678, absent: true }];
    const applications = [{ id: "app_acme_codes", webhookUrl: null }];
    const { said } = await apply(version1({ applications, blacklist, prefixes }));
    expect(said.split("\n").slice(-3)).toEqual(["- blacklist (1)", "- prefixes (1)", "Done."]);
    expect(await ask(database, `SELECT number_hash, application_id FROM blacklist`)).toEqual([
      { number_hash: vault.hash("13800000000"), application_id: null },
    ]);
    expect(await countOf(database, "number_prefixes WHERE number_sealed IS NOT NULL")).toBe(0);
    expect((await exported())["applications"]?.[0]).not.toHaveProperty("webhookUrl");
    expect(await apply(version1({ blacklist, prefixes }))).toEqual(NOTHING);
  });
});

describe("a file that is wrong", () => {
  const application = {
    id: "app_new",
    enterprise: "ent_demo",
    account: "acc_demo",
    group: "grp_demo",
    name: "New",
    unitPriceUnits: 1,
  };

  it.each([
    ["an unknown field", { applications: [{ id: "a", dayly: 1 }] }, "applications[0].dayly: does not exist"],
    [
      "an entry that nobody knows",
      { applications: [application, { ...application, id: "app_2", group: "grp_none" }] },
      "applications[1].group: there is no grp_none in groups",
    ],
    [
      "a new entry without what it needs",
      { enterprises: [{ id: "ent_new" }] },
      "enterprises[0].name: is needed, for ent_new is new",
    ],
    [
      "a field that stays what it was",
      { accounts: [{ id: "acc_demo", currency: "EUR" }] },
      "accounts[0].currency: cannot be changed",
    ],
    [
      "an entry twice",
      { blacklist: [{ number: "13800000000" }, { number: "8613800000000" }] },
      "blacklist[1]: says again what blacklist[0] says",
    ],
    [
      "an account of another enterprise",
      {
        enterprises: [{ id: "ent_new", name: "New" }],
        applications: [{ ...application, enterprise: "ent_new", defaultSignature: "sig_demo" }],
      },
      "applications[0].account: belongs to another enterprise",
    ],
    [
      "a profile that no gateway can read",
      { suppliers: [{ id: "sup_1", profile: { window: 0, colour: "red" } }] },
      "suppliers[0].profile.window: ",
    ],
    [
      "an address inside",
      { applications: [{ ...application, webhookUrl: "http://169.254.169.254/" }] },
      "applications[0].webhookUrl: webhooks may not go to this address",
    ],
    [
      "an extension that no supplier has room for",
      { applications: [{ ...application, extension: "12345678901234" }] },
      "applications[0].extension: makes a number of 22 digits of that of chn_demo_1; 21 is the most",
    ],
    [
      "a channel's number that leaves no room for an extension there is",
      {
        applications: [{ ...application, extension: "77" }],
        channels: [{ id: "chn_demo_2", srcId: "1".repeat(20) }],
      },
      "applications[0].extension: makes a number of 22 digits of that of chn_demo_2",
    ],
    ["a text that is no signature", { signatures: [{ id: "s", text: "x" }] }, "signatures[0].text: must be"],
    ["a list that is none", { templates: { id: 1 } }, "templates: "],
  ])("with %s is refused, in words that lead there", async (_what, sections, words) => {
    const before = await everything();
    const { code, said } = await apply(version1(sections));
    expect(code).toBe(1);
    expect(said).toContain(words);
    expect(await everything()).toBe(before);
  });

  it("because it is not YAML, is answered with the line and without its content", async () => {
    const { code, said } = await apply("version: 1\nenterprises: [ {id: secret\n");
    expect(code).toBe(1);
    expect(said).toMatch(/is not YAML: line \d+, column \d+/);
    expect(said).not.toContain("secret");
  });

  it("by a rule of the tables alone is undone as a whole, and the rule is named", async () => {
    const before = await everything();
    const signatures = [{ id: "sig_again", enterprise: "ent_demo", text: "【测试】" }];
    const { code, said } = await apply(
      version1({ enterprises: [{ id: "ent_new", name: "New" }], signatures }),
    );
    expect(code).toBe(1);
    expect(said).toContain("signatures_text_per_enterprise");
    expect(await everything()).toBe(before);
  });

  it("is wrong usage where it is not named at all", async () => {
    vi.spyOn(process.stderr, "write").mockReturnValue(true);
    expect((await run("apply")).code).toBe(2);
  });
});

describe("the export", () => {
  it("holds no secret, and applied to where it came from changes nothing", async () => {
    await apply(await example());
    const { said } = await run("export");
    expect(said).not.toMatch(/whsec_|change-me|unused|balance/i);
    expect(await apply(said)).toEqual(NOTHING);
  });

  it("makes the same of another database, once the suppliers have their secrets", async () => {
    await apply(await example());
    const document = await exported();
    for (const supplier of document["suppliers"] ?? []) supplier["secret"] = "added";
    const before = await exported();
    const other = await freshDatabase();
    vi.stubEnv("DATABASE_URL", other);
    expect((await apply(document)).code).toBe(0);
    expect(await exported()).toEqual(before);
  });

  it("is one JSON document with --json, and so is what apply says", async () => {
    expect(JSON.parse((await run("export", "--json")).said)).toMatchObject({ version: 1 });
    const good = await apply(version1({ enterprises: [{ id: "ent_demo", name: "Other" }] }), "--json");
    expect(JSON.parse(good.said)).toEqual({
      ok: true,
      dryRun: false,
      changes: [
        {
          kind: "change",
          section: "enterprises",
          id: "ent_demo",
          count: 1,
          fields: [{ field: "name", from: "Demo", to: "Other" }],
        },
      ],
      made: [],
    });
  });
});

describe("the audit trail", () => {
  it("says who changed what and why, and holds neither secret nor recipient", async () => {
    await apply(await example(), "--note", "first customer");
    const { said } = await apply(version1({ suppliers: [{ id: "sup_north", secret: "changed-now" }] }));
    expect(said).toBe("~ suppliers sup_north\n    secret: (secret) -> (secret)\nDone.");
    const rows = await ask<{ actor: string; subject: string; effect: string; note: string | null }>(
      database,
      `SELECT actor, subject, effect, note FROM audit_log ORDER BY id`,
    );
    expect(rows[0]).toMatchObject({ actor: expect.stringMatching(/^cli:/), note: "first customer" });
    expect(rows.find((row) => row.subject === "blacklist")).toMatchObject({ effect: "2 created" });
    expect(rows.at(-1)).toMatchObject({ subject: "sup_north", effect: "changed in suppliers: secret" });
    expect(JSON.stringify(rows)).not.toMatch(/1380000000|changed-now|change-me|whsec_|wbk_/);
  });
});

it("two files at once are applied one after the other", async () => {
  const files = [1, 2].map((limit) => path.join(folder, `${limit}.yaml`));
  for (const [index, file] of files.entries()) {
    await writeFile(
      file,
      stringify(version1({ applications: [{ id: "app_demo", dailyLimit: index + 1, frequency: [] }] })),
    );
  }
  const place = placeIn(folder);
  expect(await Promise.all(files.map((file) => waybill(["apply", file], place)))).toEqual([0, 0]);
  expect(printed.filter((line) => line.includes("dailyLimit"))).toHaveLength(2);
  expect(printed.join("\n")).toMatch(/dailyLimit: (?:none -> 1[\s\S]*1 -> 2|none -> 2[\s\S]*2 -> 1)/);
});
