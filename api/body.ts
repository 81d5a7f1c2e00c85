/** Bodies: JSON in UTF-8, at most 1 MB, read only for who is let in. */
import { isUtf8 } from "node:buffer";
import express, { type Request, type RequestHandler } from "express";
import type { z } from "zod";
import { refused } from "../domain/submission.ts";
import { ProblemError, refuse } from "./problems.ts";

const LIMIT_BYTES = 1_048_576;

/**
 * A byte sequence that is no UTF-8 is refused: a decoder would put other characters in its place, and
 * a text is never changed.
 */
export const jsonBody: RequestHandler[] = [
  (request, _response, next) => {
    if (isEmpty(request)) {
      throw new ProblemError("malformed_json");
    }
    const charset = /charset\s*=\s*"?([^\s";]+)/i.exec(request.headers["content-type"] ?? "")?.[1];
    if (request.is("application/json") === false || (charset ?? "utf-8").toLowerCase() !== "utf-8") {
      throw new ProblemError("unsupported_media_type");
    }
    next();
  },
  express.json({
    limit: LIMIT_BYTES,
    verify: (_request, _response, bytes) => {
      if (bytes.length === 0 || !isUtf8(bytes)) throw new Error("empty, or not UTF-8");
    },
  }),
  (request, _response, next) => {
    if (isDeeperThan(request.body, DEEPEST)) throw new ProblemError("malformed_json");
    next();
  },
];

/** The parameters of a template in a batch are four deep. What walks through a body later may recurse. */
const DEEPEST = 16;

const isDeeperThan = (value: unknown, levels: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1)));

/** As jsonBody where there is a body; where there is none, `request.body` stays undefined. */
export const optionalJsonBody: RequestHandler[] = jsonBody.map(
  (handler): RequestHandler =>
    (request, response, next) =>
      isEmpty(request) ? next() : handler(request, response, next),
);

const isEmpty = (request: Request): boolean =>
  request.is("*/*") === null || request.headers["content-length"] === "0";

/** No body stands for an empty object; what it lacks is told by field. */
export function readBody<T extends z.ZodType>(request: Request, schema: T): z.output<T> {
  const parsed = schema.safeParse(request.body ?? {});
  if (!parsed.success) throw refuse(refused(parsed.error));
  return parsed.data;
}
