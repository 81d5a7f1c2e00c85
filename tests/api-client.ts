/**
 * The API on a database of its own, with the demo seed and a second tenant, and a client that holds
 * every answer against the OpenAPI document.
 */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { expect } from "vitest";
import type { AppDependencies } from "../api/app.ts";
import { createApiService, type ApiService } from "../api/service.ts";
import { openDatabase, statement, type Database } from "../db/client.ts";
import { newToken, newWebhookSecret, tokenHash } from "../db/keys.ts";
import { seedDemo, type DemoSeed } from "../db/seed.ts";
import { PROBLEMS } from "../domain/errors.ts";
import { freshDatabase, vault } from "./servers.ts";

/** Parsed JSON, to be looked into: what is not there is undefined, and so is what is in it. */
export interface Json {
  readonly [name: string]: Json | null | undefined;
}

export const textOf = (json: unknown): string => String(json);

export const listOf = (json: Json | null | undefined): Json[] =>
  Array.isArray(json) ? (json as Json[]) : [];

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: Json;
}

export interface Call {
  /** The demo application's where none is given; null for none at all. */
  key?: string | null;
  headers?: Record<string, string>;
  body?: unknown;
  raw?: string | Uint8Array;
}

export interface ApiClient {
  readonly url: string;
  readonly demoKey: string;
  /** Of an application that belongs to another enterprise. */
  readonly otherKey: string;
  readonly opsToken: string;
  readonly viewerToken: string;
  readonly database: Database;
  readonly document: Record<string, Json>;
  /** What was logged as an error, as JSON lines. */
  readonly errorsLogged: string[];
  call(method: string, path: string, what?: Call): Promise<Answer>;
  sql<Row>(text: string, values?: unknown[]): Promise<Row[]>;
  /** Of a table, with a condition behind its name where one is wanted. */
  countOf(table: string): Promise<number>;
  /** Another application of the other enterprise; answers its key. */
  addApplication(id: string, ratePerSecond?: number): Promise<string>;
  /** Throws where the document has no such schema or it does not compile. */
  validator(reference: string): ValidateFunction;
  close(): Promise<void>;
}

/** What the API of a test has beside its database. */
type Surroundings = Partial<Pick<AppDependencies, "runFile" | "openSurvey" | "resolveReview">>;

/** `runFile`: what the supervisor would write; without it only the API's own surroundings count. */
export async function startApi(surroundings: Surroundings = {}): Promise<ApiClient> {
  const database = openDatabase(await freshDatabase(), "api", 8, vault);
  const demoKey = newToken("wbk");
  const opsToken = newToken("wbo");
  const viewerToken = newToken("wbv");
  await seed(database, { apiKey: demoKey, opsToken, viewerToken });
  const errorsLogged: string[] = [];
  const api = await startService(database, surroundings, errorsLogged);
  const answer = await fetch(`${api.url()}/openapi.json`);
  const document = (await answer.json()) as Record<string, Json>;
  const validator = validatorsOf(document);

  let statements = 0;
  const sql = <Row>(text: string, values: unknown[] = []): Promise<Row[]> =>
    database.run(statement<Row>(`test.${statements++}`, text), values);

  async function addApplication(id: string, ratePerSecond?: number): Promise<string> {
    const key = newToken("wbk");
    await sql(
      `INSERT INTO applications (id, enterprise_id, account_id, channel_group_id, name, unit_price_units,
         webhook_secret, rate_per_second)
       VALUES ($1, 'ent_other', 'acc_other', 'grp_demo', $1, 500, 'whsec_x', $2)`,
      [id, ratePerSecond],
    );
    await sql("INSERT INTO api_keys (id, application_id, secret_hash) VALUES ($1, $2, $3)", [
      `key_${id}`,
      id,
      tokenHash(key),
    ]);
    return key;
  }

  await sql("INSERT INTO enterprises (id, name) VALUES ('ent_other', 'Other')");
  await sql("INSERT INTO accounts (id, enterprise_id, currency) VALUES ('acc_other', 'ent_other', 'CNY')");
  const otherKey = await addApplication("app_other");

  return {
    url: api.url(),
    demoKey,
    otherKey,
    opsToken,
    viewerToken,
    database,
    document,
    errorsLogged,
    sql,
    addApplication,
    validator,
    async call(method, path, { key = demoKey, headers = {}, body, raw } = {}) {
      const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
      const response = await fetch(api.url() + path, {
        method,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(sent === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(sent === undefined ? {} : { body: sent }),
      });
      const text = await response.text();
      const parsed = {
        status: response.status,
        headers: response.headers,
        text,
        body: JSON.parse(text) as Json,
      };
      holdAgainstDocument(document, validator, method, path, parsed);
      return parsed;
    },
    async countOf(table) {
      const [row] = await sql<{ count: number }>(`SELECT count(*)::int AS count FROM ${table}`);
      return row?.count ?? -1;
    },
    async close() {
      await api.stop();
      await database.close();
    },
  };
}

const seed = (
  database: Database,
  tokens: Pick<DemoSeed, "apiKey" | "opsToken" | "viewerToken">,
): Promise<void> =>
  seedDemo(database, {
    ...tokens,
    webhookSecret: newWebhookSecret(),
    suppliers: (["3.0", "3.0", "2.0"] as const).map((version, index) => ({
      id: `sup_${index + 1}`,
      name: `supplier-${index + 1}`,
      version,
      host: "127.0.0.1",
      port: 7890 + index,
      spId: `90000${index}`,
      secret: "secret",
    })),
  });

async function startService(
  database: Database,
  surroundings: Surroundings,
  errorsLogged: string[],
): Promise<ApiService> {
  const api = createApiService({
    database,
    host: "127.0.0.1",
    port: 0,
    version: "0.0.0",
    runFile: undefined,
    ...surroundings,
    mayCallWebhook: (webhook) => !webhook.includes("169.254."),
    log: {
      info: () => undefined,
      warn: () => undefined,
      error: (fields) => errorsLogged.push(JSON.stringify(fields)),
    },
  });
  await api.start();
  return api;
}

function validatorsOf(document: object): (reference: string) => ValidateFunction {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(document, "openapi");
  const compiled = new Map<string, ValidateFunction>();
  return (reference) => {
    const known = compiled.get(reference) ?? ajv.compile({ $ref: `openapi${reference}` });
    compiled.set(reference, known);
    return known;
  };
}

function holdAgainstDocument(
  document: Record<string, Json>,
  validator: (reference: string) => ValidateFunction,
  method: string,
  path: string,
  { status, headers, body }: Answer,
): void {
  const plain = path.split("?")[0] ?? "";
  const template = Object.keys(document["paths"] ?? {}).find((known) =>
    new RegExp(`^${known.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(plain),
  );
  const described = document["paths"]?.[template ?? ""]?.[method.toLowerCase()]?.["responses"]?.[status];
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  if (described === undefined) {
    expect([404, 405], `${method} ${path} → ${status} is not in the document`).toContain(status);
    expect(validator("#/components/schemas/Problem")(body)).toBe(true);
  } else {
    const reference = described?.["content"]?.[type]?.["schema"]?.["$ref"];
    expect(reference, `${method} ${path} → ${status} ${type}`).toBeTypeOf("string");
    const validate = validator(textOf(reference));
    validate(body);
    expect(validate.errors ?? []).toEqual([]);
  }
  if (status >= 400 && plain !== "/readyz") {
    expect(type).toBe("application/problem+json");
    expect(body).toMatchObject({ status, code: expect.any(String), retryable: expect.any(Boolean) });
    expect(Object.keys(PROBLEMS)).toContain(body["code"]);
  }
}
