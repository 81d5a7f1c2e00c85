import { describe, expect, it } from "vitest";
import { troubleIn } from "./postgres-log.ts";

const line = (application: string, state: string, says: string): string =>
  `2026-11-30 23:15:29.977 UTC [21082] ${application} ${state} ${says}`;
const DEADLOCK = line("waybill-results", "40P01", "ERROR:  deadlock detected");
const DUPLICATE = line(
  "waybill-settlement",
  "23505",
  'ERROR:  duplicate key value violates unique constraint "ledger_transfers_key_unique"',
);

describe("PostgreSQL's log of a test run", () => {
  it("tells of trouble where two waited for each other or a key was violated (D13, L)", () => {
    expect(troubleIn(["", DEADLOCK, "DETAIL: x", DUPLICATE].join("\n"))).toEqual([DEADLOCK, DUPLICATE]);
  });

  it.each([
    ["what a test did on purpose", DUPLICATE.replace("waybill-settlement", "waybill-test-violation")],
    [
      "what a person is answered",
      DUPLICATE.replace("ledger_transfers_key_unique", "signatures_text_per_enterprise"),
    ],
    ["another error", line("waybill-api", "23514", "ERROR:  new row violates check constraint")],
    ["the statement behind one", line("waybill-api", "23505", "STATEMENT:  INSERT INTO x")],
  ])("tells of none in %s", (_what, it) => {
    expect(troubleIn(it)).toEqual([]);
  });
});
