/** Query strings and cursors. A cursor is the sort key of a page's last row, opaque to who holds it. */
import type { Request } from "express";
import { z } from "zod";
import { refused } from "../domain/submission.ts";
import { ProblemError, refuse } from "./problems.ts";

export const pageQuery = {
  cursor: z.string().max(200).optional().describe("`nextCursor` of the page before"),
  limit: z.coerce.number().int().min(1).max(200).default(50),
};

/** What PostgreSQL can read too: from 1970, to the nanosecond, and with an offset that exists. */
export const moment = z.iso
  .datetime({ offset: true })
  .refine((at) => Date.parse(at) >= 0, "must not lie before 1970")
  .refine(
    (at) => /:\d\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-4]):\d\d)$/.test(at),
    "must have at most 9 digits of a second, and an offset of at most 14 hours",
  );

/** Unknown, repeated and unreadable parameters are refused like fields of a body. */
export function readQuery<T extends z.ZodObject>(request: Request, schema: T): z.output<T> {
  const parsed = schema.safeParse(request.query);
  if (!parsed.success) throw refuse(refused(parsed.error));
  return parsed.data;
}

/** What to ask the database for: one row more tells whether there is a next page. */
export const rowsFor = (limit: number): number => limit + 1;

/** Splits what came back into this page and the cursor of the next. */
export function pageOf<Row, View>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => View,
  cursor: (row: Row) => string[],
): { views: View[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const more = rows.length > limit && last !== undefined;
  return { views: page.map(view), nextCursor: more ? encodeCursor(cursor(last)) : null };
}

export const encodeCursor = (fields: readonly string[]): string =>
  Buffer.from(JSON.stringify(fields)).toString("base64url");

/** Reads a cursor back; whatever does not match `fields` was not handed out here. */
export function readCursor<T extends z.ZodTuple>(
  cursor: string | undefined,
  fields: T,
): z.output<T> | undefined {
  if (cursor === undefined) return undefined;
  try {
    return fields.parse(JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) {
      throw new ProblemError("invalid_cursor", [{ path: "cursor", message: "was not handed out here" }]);
    }
    throw error;
  }
}

/** Microseconds since 1970 to 9999, as the database writes and reads them. */
const exactTime = z
  .string()
  .regex(/^(?:19[7-9]|[2-9]\d\d)\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  .pipe(z.iso.datetime());

export const positionFields = z.tuple([exactTime, z.string().regex(/^[a-z]{3}_[0-9A-Z_]{1,40}$/)]);

/** A cursor of what is numbered: the number of its last row. */
export const numberField = z.tuple([z.string().regex(/^\d{1,18}$/)]);
