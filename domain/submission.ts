/**
 * What a customer may submit, as strict schemas: HTTP, CMPP and the OpenAPI document share them. The
 * one file of the domain with a library in it; workflows do not import it.
 *
 * A text is taken as it is: nothing is trimmed, joined or replaced.
 */
import { z } from "zod";
import type { FieldError, ProblemCode, Refusal } from "./errors.ts";
import { describeText, MAX_SEGMENTS, type TextShape } from "./segment.ts";
import { render } from "./template.ts";

const BATCH_LIMIT = 1_000;
/** 72 hours (D7). */
const LONGEST_VALIDITY_SECONDS = 259_200;

/** The form that Standard Webhooks gives a secret. */
export const webhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/, "must be whsec_ and 24 to 64 bytes in base64");

/** PostgreSQL stores neither NUL nor half of a surrogate pair, and no handset shows them. */
export const storable = z
  .string()
  .refine((text) => !text.includes("\0"), "must not contain the character NUL")
  .refine(
    (text) => !/\p{Surrogate}/u.test(text),
    "must be well-formed Unicode: it holds half of a surrogate pair",
  );

/** Eleven digits, with or without 86 or +86; kept as eleven (A5). */
export const recipient = z
  .string()
  .regex(/^(?:\+?86)?1\d{10}$/, "must be a mobile number of 11 digits, with or without 86 or +86")
  .transform((number) => number.slice(-11))
  .describe("11 digits, with or without 86 or +86");

export const reference = storable
  .min(1)
  .max(128)
  .describe("The customer's own name for the message; need not be unique");

export const webhookUrl = storable
  .max(2_048)
  .refine(isWebhookUrl, "must be an http or https address without user name and password")
  .describe("Told once the message is final, instead of the application's webhook");

const fields = {
  text: storable
    .min(1)
    .optional()
    .describe(
      "Sent exactly as it is; the signature is part of it. May be left out where templateId is given",
    ),
  reference: reference.optional(),
  validitySeconds: z
    .int()
    .min(5)
    .max(LONGEST_VALIDITY_SECONDS)
    .default(LONGEST_VALIDITY_SECONDS)
    .describe("After so many seconds the message ends as expired"),
  webhookUrl: webhookUrl.optional(),
  templateId: storable.min(1).max(64).optional().describe("An approved template of the application"),
  templateParams: z
    .record(storable.max(64), storable.max(1_000))
    .optional()
    .describe("A value for each {name} in the template"),
};

export const submission = z.strictObject({ to: recipient, ...fields });

const allowDuplicates = z
  .boolean()
  .default(false)
  .describe("Accept a number that stands in this request already");

const listed = z.strictObject({
  messages: z.array(z.unknown()).min(1).max(BATCH_LIMIT),
  allowDuplicates,
});
const shared = z.strictObject({
  to: z.array(z.unknown()).min(1).max(BATCH_LIMIT),
  ...fields,
  allowDuplicates,
});

/** For the document only: items are checked one by one, so that a bad one fails alone. */
export const batchSubmission = z.union([
  listed.extend({ messages: z.array(submission).min(1).max(BATCH_LIMIT) }),
  shared.extend({ to: z.array(recipient).min(1).max(BATCH_LIMIT) }),
]);

/** What the submission says, with every default filled in. */
type SubmissionContent = z.output<typeof submission>;

export interface Submission {
  content: SubmissionContent;
  /** What is sent: the text, or what its template makes of the parameters. */
  text: string;
  shape: TextShape;
}

export type Parsed<T> = { ok: true; value: T } | Refused;

/**
 * `content` is what the request says, where it could be read and a rule of today is against it: the same
 * request may have been accepted before, and its key then stands for that (A1).
 */
export type Refused = { ok: false; content?: unknown } & Refusal;

interface BatchSubmission {
  allowDuplicates: boolean;
  /** In the order in which they were submitted. */
  items: Parsed<Submission>[];
  /** What each item says, read where it can be and else as it came: the body that a key stands for. */
  contents: unknown[];
}

/** Bodies of the templates that the sender may use, by id; only those that a body names are needed. */
export type Templates = ReadonlyMap<string, string>;

const NO_TEMPLATES: Templates = new Map();

/** The templates that a message or a batch names, read before anything of it is checked. */
export function templateIdsIn(body: unknown): string[] {
  const messages: unknown = fieldOf(body, "messages");
  const items: unknown[] = Array.isArray(messages) ? messages.slice(0, BATCH_LIMIT) : [];
  const ids = [body, ...items].flatMap((item) => storable.safeParse(fieldOf(item, "templateId")).data ?? []);
  return [...new Set(ids)];
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

/** One message as a customer posts it. Applies every rule that needs nothing but the submission. */
export function parseSubmission(body: unknown, templates = NO_TEMPLATES): Parsed<Submission> {
  const parsed = submission.safeParse(body);
  return parsed.success ? withShape(parsed.data, templates) : refused(parsed.error);
}

/**
 * A batch in either form. Refused as a whole where the request itself is wrong; what is wrong with
 * one item, also that its number stood there before, is that item's own refusal.
 */
export function parseBatch(body: unknown, templates = NO_TEMPLATES): Parsed<BatchSubmission> {
  return hasList(body) ? parseListed(body, templates) : parseShared(body, templates);
}

const hasList = (body: unknown): boolean => typeof body === "object" && body !== null && "messages" in body;

function parseListed(body: unknown, templates: Templates): Parsed<BatchSubmission> {
  const batch = listed.safeParse(body);
  if (!batch.success) return refused(batch.error);
  const { messages, allowDuplicates } = batch.data;
  const items = messages.map((message) => parseSubmission(message, templates));
  const contents = items.map((item, index) =>
    item.ok ? item.value.content : (item.content ?? messages[index]),
  );
  return { ok: true, value: asBatch(contents, items, allowDuplicates) };
}

function parseShared(body: unknown, templates: Templates): Parsed<BatchSubmission> {
  const batch = shared.safeParse(body);
  if (!batch.success) return refused(batch.error);
  const { to, allowDuplicates, ...rest } = batch.data;
  const numbers = to.map((value) => recipient.safeParse(value));
  const contents = numbers.map((number, index) => ({ to: number.data ?? to[index], ...rest }));
  const anyOfThem = withShape({ to: "", ...rest }, templates);
  if (!anyOfThem.ok) return { ...anyOfThem, content: { contents, allowDuplicates } };
  const { text, shape } = anyOfThem.value;
  const items = numbers.map((number): Parsed<Submission> =>
    number.success
      ? { ok: true, value: { content: { to: number.data, ...rest }, text, shape } }
      : refused(number.error, "to"),
  );
  return { ok: true, value: asBatch(contents, items, allowDuplicates) };
}

const asBatch = (
  contents: unknown[],
  items: Parsed<Submission>[],
  allowDuplicates: boolean,
): BatchSubmission => ({
  allowDuplicates,
  items: allowDuplicates ? items : withoutRepeats(items),
  contents,
});

function withShape(content: SubmissionContent, templates: Templates): Parsed<Submission> {
  const text = textOf(content, templates);
  if (!text.ok) return { ...text, content };
  const shape = describeText(text.value);
  if (shape.segmentCount > MAX_SEGMENTS) {
    const why = `needs ${shape.segmentCount} segments; ${MAX_SEGMENTS} is the most`;
    return { ...refusal("text_too_long", "text", why), content };
  }
  return { ok: true, value: { content, text: text.value, shape } };
}

function textOf(content: SubmissionContent, templates: Templates): Parsed<string> {
  const { text, templateId, templateParams } = content;
  if (templateId !== undefined) return rendered(content, templates.get(templateId));
  if (templateParams !== undefined) return refusal("invalid_field", "templateParams", "needs a templateId");
  if (text === undefined) return refusal("invalid_field", "text", "is missing, and so is a templateId");
  return { ok: true, value: text };
}

function rendered(
  { text, templateParams = {} }: SubmissionContent,
  template: string | undefined,
): Parsed<string> {
  if (template === undefined) {
    return refusal("template_unknown", "templateId", "names no approved template of this application");
  }
  const made = render(template, templateParams);
  if (!made.ok) {
    const wrong = (message: string) => (name: string) => ({ path: `templateParams.${name}`, message });
    const errors = [
      ...made.missing.map(wrong("is missing or empty")),
      ...made.unknown.map(wrong("stands nowhere in the template")),
    ];
    return { ok: false, code: "template_params_invalid", errors: errors.slice(0, ERRORS_SHOWN) };
  }
  if (text !== undefined && text !== made.text) {
    return refusal("invalid_field", "text", "differs from what the template makes: leave it out");
  }
  return { ok: true, value: made.text };
}

function withoutRepeats(items: Parsed<Submission>[]): Parsed<Submission>[] {
  const seen = new Set<string>();
  return items.map((item) => {
    if (!item.ok) return item;
    const { to } = item.value.content;
    if (seen.has(to)) {
      return refusal("duplicate_recipient", "to", "stands in this request already");
    }
    seen.add(to);
    return item;
  });
}

const refusal = (code: ProblemCode, path: string, message: string): { ok: false } & Refusal => ({
  ok: false,
  code,
  errors: [{ path, message }],
});

/** A body of 1 MB can be wrong in a hundred thousand places. */
const ERRORS_SHOWN = 50;

/** Names the fields at fault; `under` is put before a path that starts inside a larger body. */
export function refused(error: z.ZodError, under = ""): { ok: false } & Refusal {
  const errors = error.issues.flatMap((issue): FieldError[] =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({ path: pathTo([...issue.path, key], under), message: "does not exist" }))
      : [{ path: pathTo(issue.path, under), message: issue.message }],
  );
  return { ok: false, code: codeOf(error.issues), errors: errors.slice(0, ERRORS_SHOWN) };
}

function codeOf(issues: readonly z.core.$ZodIssue[]): ProblemCode {
  if (issues.some(isOverfullBatch)) return "batch_too_large";
  return issues.every((issue) => issue.code === "unrecognized_keys") ? "unknown_field" : "invalid_field";
}

const isOverfullBatch = (issue: z.core.$ZodIssue): boolean =>
  issue.code === "too_big" && issue.origin === "array";

function pathTo(steps: readonly PropertyKey[], under: string): string {
  let path = under;
  for (const step of steps) {
    if (typeof step === "number") path += `[${step}]`;
    else path += path === "" ? String(step) : `.${String(step)}`;
  }
  return path;
}

function isWebhookUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  return (
    (url.protocol === "http:" || url.protocol === "https:") && url.username === "" && url.password === ""
  );
}
