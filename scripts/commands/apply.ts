/** `waybill apply`: brings what is stored in line with one declarative file. */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { LineCounter, parseDocument } from "yaml";
import { applyConfiguration, type Applied } from "../../db/configuration.ts";
import type { Change } from "../../db/configuration-diff.ts";
import { configurationDocument, type ConfigurationDocument } from "../../db/configuration-document.ts";
import type { FieldError } from "../../domain/errors.ts";
import { refused } from "../../domain/submission.ts";
import { supplierProfile } from "../../gateway-bridge/supplier.ts";
import { errorName } from "../../workers/service.ts";
import { checkWebhookUrl } from "../../workers/webhook-dial.ts";
import { Trouble } from "../trouble.ts";
import { actor } from "./actor.ts";
import { inDatabase } from "./database.ts";
import { type Place, answer, SaidNo } from "./place.ts";

interface Options {
  dryRun?: boolean;
  note?: string;
  json?: boolean;
}

const ABOUT = `
FILE is YAML; docs/configuration.md describes it. Everything is done in one transaction, or nothing.
What the file does not name stays as it is: an entry that is missing is not removed, a field that is
missing is not changed. A list inside an entry (members of a group, frequency of an application) is
whole: what is not in it is removed. Entries of blacklist and prefixes are removed with absent: true.
A new API key without sha256 is made and printed once, and so is the webhook secret of a new application.
It works on the database of DATABASE_URL, or of the running copy. Webhook addresses on loopback are taken
for the running copy only, or with WAYBILL_WEBHOOK_ALLOW_LOOPBACK=1.`;

export function addApply(program: Command, place: Place): void {
  program
    .command("apply")
    .description("bring applications, keys, templates, limits, suppliers … in line with a declarative file")
    .argument("<file>", "YAML, as waybill export writes it")
    .option("--dry-run", "show what would change, and change nothing")
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .addHelpText("after", ABOUT)
    .action(async (file: string, { dryRun = false, note, json }: Options) => {
      const document = read(file);
      const applied = await inDatabase(place, (database) =>
        applyConfiguration(database, document, {
          author: { actor: actor(), note },
          dryRun,
          checkProfile,
        }),
      );
      answer(json, { dryRun, ...applied }, linesOf(applied, dryRun));
      if (!applied.ok) throw new SaidNo();
    });
}

function read(file: string): ConfigurationDocument {
  const content = parseYaml(file);
  const parsed = configurationDocument(webhookAddress).safeParse(content);
  if (parsed.success) return parsed.data;
  throw new Trouble([`${file} cannot be applied:`, ...errorLines(refused(parsed.error).errors)].join("\n"));
}

/** Its errors are the file's own places, never what stands there. */
function parseYaml(file: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(readFile(file), { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error === undefined) return document.toJS();
  const { line, col } = lines.linePos(error.pos[0]);
  throw new Trouble(`${file} is not YAML: line ${line}, column ${col} (${error.code})`);
}

function readFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Trouble(`${file} cannot be read (${errorName(error)}).`);
  }
}

function webhookAddress(text: string): string | undefined {
  const allowed = process.env["WAYBILL_WEBHOOK_ALLOW_LOOPBACK"];
  const allowLoopback = allowed === "1" || allowed === "true" || process.env["DATABASE_URL"] === undefined;
  const checked = checkWebhookUrl(text, { allowLoopback });
  return checked.ok ? checked.url : undefined;
}

function checkProfile(profile: unknown): FieldError[] {
  const parsed = supplierProfile.safeParse(profile);
  return parsed.success ? [] : refused(parsed.error).errors;
}

function linesOf(applied: Applied, dryRun: boolean): string[] {
  if (!applied.ok) return ["Nothing was changed:", ...errorLines(applied.errors)];
  if (applied.changes.length === 0) return ["Nothing to change: all of it is so already."];
  return [
    ...applied.changes.flatMap(changeLines),
    ...applied.made.map((it) => `${it.what} of ${it.id}, shown this once: ${it.value}`),
    dryRun ? "This was a dry run: nothing was changed." : "Done.",
  ];
}

const errorLines = (errors: readonly FieldError[]): string[] =>
  errors.map(({ path, message }) => `  ${path === "" ? "the document" : path}: ${message}`);

const SIGNS = { create: "+", change: "~", remove: "-" } as const;

const changeLines = ({ kind, section, id, count, fields }: Change): string[] => [
  `${SIGNS[kind]} ${section} ${id ?? `(${count})`}`,
  ...fields.map(({ field, from, to }) => `    ${field}: ${valueOf(from)} -> ${valueOf(to)}`),
];

const valueOf = (value: unknown): string =>
  value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
