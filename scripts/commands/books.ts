/** `waybill books`: whether every account equals the sums of its transfers. */
import type { Command } from "commander";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy, SaidNo } from "./place.ts";
import { table } from "./table.ts";

type Units = number | string;

interface Books {
  balanced: boolean;
  accounts: number;
  reserved: Units;
  charged: Units;
  released: Units;
  refunded: Units;
  differences: { accountId: string; what: string; stored: Units; summed: Units }[];
}

export function addBooks(program: Command, place: Place): void {
  program
    .command("books")
    .description("hold every account against its transfers; exit code 1 where they differ")
    .option("--json", "print one JSON document")
    .action(async ({ json }: { json?: boolean }) => {
      const books = await askOps<Books>(runningCopy(place), "GET", "books");
      answer(json, books, linesOf(books));
      if (!books.balanced) throw new SaidNo();
    });
}

const linesOf = (books: Books): string[] => [
  `The books of ${books.accounts} account${books.accounts === 1 ? "" : "s"} ${books.balanced ? "balance" : "DO NOT balance"}.`,
  ...(["reserved", "charged", "released", "refunded"] as const).map(
    (kind) => `  ${kind.padEnd(9)}${String(books[kind]).padStart(16)} units`,
  ),
  ...(books.balanced ? [] : ["", ...differencesOf(books)]),
];

const differencesOf = ({ differences }: Books): string[] =>
  table(
    ["account", "what", "stored", "summed"],
    differences.map(({ accountId, what, stored, summed }) => [
      accountId,
      what,
      String(stored),
      String(summed),
    ]),
    "",
  );
