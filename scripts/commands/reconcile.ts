/** `waybill reconcile`: what outbox, streams, pending entries and takes do not agree about (C6). */
import type { Command } from "commander";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy, SaidNo } from "./place.ts";
import { table } from "./table.ts";

interface Reconciliation {
  differences: {
    kind: string;
    what: string;
    submitId: string;
    channelId: string | null;
    entryId: string | null;
  }[];
  truncated: boolean;
}

export function addReconcile(program: Command, place: Place): void {
  program
    .command("reconcile")
    .description("compare outbox, streams and takes, and repair nothing; exit code 1 where they differ")
    .option("--json", "print one JSON document")
    .action(async ({ json }: { json?: boolean }) => {
      const document = await askOps<Reconciliation>(runningCopy(place), "GET", "reconcile");
      answer(json, document, linesOf(document));
      if (document.differences.length > 0) throw new SaidNo();
    });
}

const linesOf = ({ differences, truncated }: Reconciliation): string[] => [
  ...table(
    ["what differs", "submit id", "channel", "entry"],
    differences.map((each) => [each.kind, each.submitId, each.channelId ?? "", each.entryId ?? ""]),
    "Outbox, streams, pending entries and takes agree.",
  ),
  ...(truncated ? ["… and more than are listed"] : []),
  ...(differences.length === 0 ? [] : ["", ...explanationsOf(differences)]),
];

const explanationsOf = (differences: Reconciliation["differences"]): string[] =>
  [...new Map(differences.map(({ kind, what }) => [kind, what]))].map(([kind, what]) => `${kind}: ${what}.`);
