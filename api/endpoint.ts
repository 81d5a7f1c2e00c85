/** What the document says of one address and method. */
import type { z } from "zod";
import type { ProblemCode } from "../domain/errors.ts";

export interface Endpoint {
  method: "get" | "post" | "put" | "patch";
  path: string;
  summary: string;
  /** Whose credential it takes; a customer's where nothing is said. */
  who?: "customer" | "person" | "anybody";
  body?: z.ZodType;
  query?: z.ZodObject;
  /** Takes an Idempotency-Key (A1). */
  keyed?: true;
  answers: Record<number, z.ZodType>;
  /** Beside those that every endpoint can answer. */
  problems?: ProblemCode[];
}

export const READING_A_BODY: ProblemCode[] = [
  "malformed_json",
  "invalid_field",
  "unknown_field",
  "body_too_large",
  "unsupported_media_type",
];

export const READING_A_QUERY: ProblemCode[] = ["invalid_field", "unknown_field", "invalid_cursor"];
