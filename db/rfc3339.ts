/** SQL that writes a time as RFC 3339 in UTC with microseconds: as exact as it is stored, so it can be a cursor. */
export const rfc3339 = (expression: string): string =>
  `to_char((${expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
