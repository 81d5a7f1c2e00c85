/**
 * The OpenAPI 3.1 document, generated from the schemas that requests are read with and that answers
 * are typed by.
 */
import { z } from "zod";
import { PROBLEMS, type ProblemCode } from "../domain/errors.ts";
import { batchSubmission, submission } from "../domain/submission.ts";
import { ledgerQuery } from "./account.ts";
import {
  acceptedBatch,
  acceptedMessage,
  account,
  batch,
  inbound,
  ledger,
  liveness,
  message,
  messageList,
  readiness,
  replayed,
  replayedMany,
  rotatedSecret,
  shapes,
  webhooks,
} from "./answers.ts";
import { READING_A_BODY, READING_A_QUERY, type Endpoint } from "./endpoint.ts";
import { inboundQuery } from "./inbound.ts";
import { messageQuery } from "./messages.ts";
import { OPS_ENDPOINTS } from "./ops/endpoints.ts";
import { PROBLEM_TYPE } from "./problems.ts";
import { secretBody } from "./webhook-secret.ts";
import { replayBody, webhookQuery } from "./webhooks.ts";

const SUBMITTING: ProblemCode[] = ["invalid_idempotency_key", "idempotency_key_reused", "rate_limited"];

const CUSTOMER_ENDPOINTS: Endpoint[] = [
  {
    method: "post",
    path: "/v1/messages",
    summary: "Submit a message. Answered once it is durable; a repeated Idempotency-Key creates nothing.",
    body: submission,
    keyed: true,
    answers: { 202: acceptedMessage },
    problems: [
      ...READING_A_BODY,
      ...SUBMITTING,
      "text_too_long",
      "template_unknown",
      "template_params_invalid",
      "webhook_address_refused",
    ],
  },
  {
    method: "get",
    path: "/v1/messages",
    summary: "Messages, newest first",
    query: messageQuery,
    answers: { 200: messageList },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/v1/messages/{id}",
    summary: "One message with its attempts, money, webhooks and timeline",
    answers: { 200: message },
    problems: ["not_found"],
  },
  {
    method: "post",
    path: "/v1/messages/{id}/cancel",
    summary: "Take a message back while nothing of it was written to a supplier; its price is released",
    answers: { 200: message },
    problems: ["not_found", "already_sent"],
  },
  {
    method: "post",
    path: "/v1/batches",
    summary: "Submit up to 1,000 messages; each is accepted or refused by itself",
    body: batchSubmission,
    keyed: true,
    answers: { 202: acceptedBatch },
    problems: [
      ...READING_A_BODY,
      ...SUBMITTING,
      "text_too_long",
      "template_unknown",
      "template_params_invalid",
      "batch_too_large",
    ],
  },
  {
    method: "get",
    path: "/v1/batches/{id}",
    summary: "Progress of a batch, counted at the moment of asking",
    answers: { 200: batch },
    problems: ["not_found"],
  },
  {
    method: "get",
    path: "/v1/account",
    summary: "What is on the account, and what is held for messages under way",
    answers: { 200: account },
  },
  {
    method: "get",
    path: "/v1/ledger",
    summary: "Every movement of the account, newest first",
    query: ledgerQuery,
    answers: { 200: ledger },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/v1/inbound",
    summary: "Texts that recipients sent, newest first",
    query: inboundQuery,
    answers: { 200: inbound },
    problems: READING_A_QUERY,
  },
  {
    method: "get",
    path: "/v1/webhooks",
    summary: "Webhook deliveries with the outcome of every try, newest first",
    query: webhookQuery,
    answers: { 200: webhooks },
    problems: READING_A_QUERY,
  },
  {
    method: "post",
    path: "/v1/webhooks/replay",
    summary: "Send the webhooks of a stretch of time again, each under its id, oldest first",
    body: replayBody,
    answers: { 202: replayedMany },
    problems: [...READING_A_BODY, "invalid_cursor"],
  },
  {
    method: "put",
    path: "/v1/webhooks/secret",
    summary: "Rotate the secret that signs webhooks; the one before signs too for a while",
    body: secretBody,
    answers: { 200: rotatedSecret },
    problems: [...READING_A_BODY, "rotation_under_way"],
  },
  {
    method: "post",
    path: "/v1/webhooks/{id}/replay",
    summary: "Send one webhook again, under its id",
    answers: { 202: replayed },
    problems: ["not_found"],
  },
  {
    method: "get",
    path: "/livez",
    summary: "This process runs",
    who: "anybody",
    answers: { 200: liveness },
  },
  {
    method: "get",
    path: "/readyz",
    summary: "Every role runs and every supplier is connected",
    who: "anybody",
    answers: { 200: readiness, 503: readiness },
  },
];

/** Whatever is asked, and of whom. */
const ALWAYS: ProblemCode[] = ["malformed_request", "internal_error", "temporarily_unavailable"];

export function openApiDocument(version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const endpoint of [...CUSTOMER_ENDPOINTS, ...OPS_ENDPOINTS]) {
    const operations = (paths[endpoint.path] ??= {});
    operations[endpoint.method] = operationOf(endpoint);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Waybill",
      version,
      description:
        "Sends SMS and tells what became of every one. Money is an integer of 1/10000 of the currency unit; times are RFC 3339; errors are RFC 9457 problems with a stable `code`.",
    },
    paths,
    components: {
      securitySchemes: {
        key: { type: "http", scheme: "bearer", description: "An application's API key" },
        token: { type: "http", scheme: "bearer", description: "A token with role viewer or operator" },
      },
      schemas: componentSchemas(),
    },
  };
}

function operationOf(endpoint: Endpoint): object {
  const { method, path, summary, who = "customer", body, query, keyed = false, answers, problems } = endpoint;
  const codes = [...(problems ?? []), ...ALWAYS, ...refusals(endpoint)];
  return {
    operationId: operationName(method, path),
    summary,
    security: SECURITY[who],
    tags: [TAGS[who]],
    parameters: [
      ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) =>
        parameter("path", name, { type: "string" }, true),
      ),
      ...(query === undefined ? [] : queryParameters(query)),
      ...(keyed ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(body === undefined ? {} : { requestBody: requestBody(body, who) }),
    responses: { ...successes(answers, keyed), ...problemAnswers(codes, answers) },
  };
}

const SECURITY = { customer: [{ key: [] }], person: [{ token: [] }], anybody: [] };
const TAGS = { customer: "For customers", person: "For operators", anybody: "Health" };

/** Why somebody may not be let in. */
function refusals({ who, method }: Endpoint): ProblemCode[] {
  if (who === "anybody") return [];
  if (who === undefined || who === "customer") return ["invalid_api_key"];
  return method === "get" ? ["invalid_token"] : ["invalid_token", "forbidden"];
}

/** A person's change may come without a word; what it then lacks is told by field. */
const requestBody = (body: z.ZodType, who: Endpoint["who"]) => ({
  required: who !== "person",
  content: json(inputSchema(body)),
});

const operationName = (method: string, path: string): string =>
  method +
  path
    .split(/[^a-z]+/)
    .filter((word) => word !== "" && word !== "v")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");

const parameter = (place: "path" | "query" | "header", name: string, schema: object, required = false) => ({
  name,
  in: place,
  required,
  schema,
});

const IDEMPOTENCY_KEY = {
  ...parameter("header", "Idempotency-Key", { type: "string", minLength: 1, maxLength: 255 }),
  description: "The same key and body give the first answer again and create nothing",
};

function queryParameters(query: z.ZodObject): object[] {
  return Object.entries(query.shape).map(([name, schema]) =>
    parameter("query", name, inputSchema(schema as z.ZodType)),
  );
}

const json = (schema: object) => ({ "application/json": { schema } });

const inputSchema = (schema: z.ZodType): object => embedded(z.toJSONSchema(schema, { io: "input" }));

function successes(answers: Endpoint["answers"], keyed: boolean): Record<string, object> {
  return Object.fromEntries(
    Object.entries(answers).map(([status, schema]) => [
      status,
      {
        description: Number(status) < 300 ? "Done" : "Not now",
        ...(keyed ? { headers: REPLAYED } : {}),
        content: json({ $ref: reference(shapes.get(schema)?.id ?? "") }),
      },
    ]),
  );
}

const REPLAYED = {
  "Idempotency-Replayed": {
    description: "`true` where this is the first answer given again",
    schema: { type: "string", const: "true" },
  },
};

const reference = (name: string): string => `#/components/schemas/${name}`;

/** One answer a status, with the codes that it can carry. */
function problemAnswers(codes: ProblemCode[], taken: Endpoint["answers"]): Record<string, object> {
  const statuses = new Set(codes.map((code) => PROBLEMS[code].status));
  return Object.fromEntries(
    [...statuses]
      .filter((status) => !(status in taken))
      .map((status) => [
        status,
        {
          description: codes
            .filter((code) => PROBLEMS[code].status === status)
            .map((code) => `\`${code}\`: ${PROBLEMS[code].title}`)
            .join("; "),
          content: { [PROBLEM_TYPE]: { schema: { $ref: reference("Problem") } } },
        },
      ]),
  );
}

function componentSchemas(): Record<string, object> {
  const { schemas } = z.toJSONSchema(shapes, { uri: reference, io: "output" });
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, embedded(schema)]));
}

/** As a part of the document: the dialect is the document's and the place is the name. */
function embedded(schema: object): object {
  const { $schema: _dialect, $id: _place, ...rest } = schema as Record<string, unknown>;
  return rest;
}
