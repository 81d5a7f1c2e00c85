/**
 * Where every error becomes an RFC 9457 answer. What a caller did wrong is told in full; what went
 * wrong here is logged and told by a code: no stack, no SQL, nothing that a row held.
 */
import { randomUUID } from "node:crypto";
import type { ErrorRequestHandler, RequestHandler, Response } from "express";
import { sqlState } from "../db/client.ts";
import { PROBLEMS, type FieldError, type ProblemCode, type Refusal } from "../domain/errors.ts";
import { errorName, type Log } from "../workers/service.ts";
import type { AnswerOf, problem } from "./answers.ts";

export const PROBLEM_TYPE = "application/problem+json";

/** Thrown by an endpoint to answer with a problem of the registry. */
export class ProblemError extends Error {
  readonly code: ProblemCode;
  readonly errors: FieldError[];
  readonly headers: Record<string, string>;

  constructor(code: ProblemCode, errors: FieldError[] = [], headers: Record<string, string> = {}) {
    super(code);
    this.name = "ProblemError";
    this.code = code;
    this.errors = errors;
    this.headers = headers;
  }
}

export const refuse = ({ code, errors }: Refusal): ProblemError => new ProblemError(code, errors);

/** The problem as it stands in an answer, alone or as the result of one item. */
export function problemOf(code: ProblemCode, errors: FieldError[] = []): AnswerOf<typeof problem> {
  const { status, title, retryable } = PROBLEMS[code];
  const shared = { type: `urn:waybill:problem:${code}`, title, status, code, retryable };
  return errors.length === 0 ? shared : { ...shared, errors };
}

export const notFound: RequestHandler = () => {
  throw new ProblemError("not_found");
};

/** The last handler of an address: whatever was not answered before it came with another method. */
export const onlyMethods =
  (...methods: string[]): RequestHandler =>
  () => {
    throw new ProblemError("method_not_allowed", [], { allow: methods.join(", ") });
  };

/** Express knows an error handler by its four parameters. */
export const problemEdge =
  (log: Log): ErrorRequestHandler =>
  (thrown: unknown, request, response, next) => {
    if (response.headersSent) return next(thrown);
    const known = asProblem(thrown);
    if (known !== undefined) return send(response, known.code, known.errors, known.headers);
    const error = saidByDatabase(thrown);
    const instance = `urn:uuid:${randomUUID()}`;
    const code = isOutage(error) ? "temporarily_unavailable" : "internal_error";
    log.error({ method: request.method, code, instance, error: errorName(error) }, "request failed");
    send(response, code, [], code === "temporarily_unavailable" ? { "retry-after": "1" } : {}, instance);
  };

function send(
  response: Response,
  code: ProblemCode,
  errors: FieldError[],
  headers: Record<string, string>,
  instance?: string,
): void {
  const body = problemOf(code, errors);
  response
    .status(body.status)
    .set(headers)
    .type(PROBLEM_TYPE)
    .send(JSON.stringify(instance === undefined ? body : { ...body, instance }));
}

/** By the `type` that the body parser gives its errors. */
const BODY_PROBLEMS: Record<string, ProblemCode> = {
  "entity.too.large": "body_too_large",
  "entity.parse.failed": "malformed_json",
  "entity.verify.failed": "malformed_json",
  "encoding.unsupported": "unsupported_media_type",
  "charset.unsupported": "unsupported_media_type",
};

/** What the caller did: thrown here, by the body parser, or by Express for a path or a file. */
function asProblem(error: unknown): ProblemError | undefined {
  if (error instanceof ProblemError) return error;
  if (!(error instanceof Error)) return undefined;
  const { type, status } = error as { type?: unknown; status?: unknown };
  const code = typeof type === "string" ? BODY_PROBLEMS[type] : undefined;
  if (code !== undefined) return new ProblemError(code);
  if (status === 404) return new ProblemError("not_found");
  const theirs = typeof status === "number" && status >= 400 && status < 500;
  return theirs ? new ProblemError("malformed_request") : undefined;
}

/** The query builder wraps what PostgreSQL said, and quotes the values in a message of its own. */
const saidByDatabase = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? error.cause : error;

/** Connection refused or lost, server starting or stopping, too many connections, a lock or time limit. */
const OUTAGE_STATES = /^(?:08|53|57)|^55P03$/;
const OUTAGE_CODES = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOTFOUND"]);

function isOutage(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) return OUTAGE_STATES.test(state);
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return (typeof code === "string" && OUTAGE_CODES.has(code)) || isLostConnection(error);
}

/** What pg throws without a code when a connection cannot be had or ends under a statement. */
const isLostConnection = (error: Error): boolean =>
  /^(?:timeout exceeded when trying to connect|Connection terminated)/.test(error.message);
