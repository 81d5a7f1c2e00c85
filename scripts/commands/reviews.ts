/** `waybill reviews`: attempts on which a person must decide, the longest waiting first (D12). */
import type { Command } from "commander";
import { askOps } from "./ops-api.ts";
import { type Place, answer, runningCopy } from "./place.ts";
import { table, timeOf } from "./table.ts";

interface Review {
  attemptId: string;
  reason: string;
  since: string;
  channelId: string | null;
  status: string;
  uncertain: boolean;
  expiresAt: string;
}

export function addReviews(program: Command, place: Place): void {
  program
    .command("reviews")
    .description("show the attempts on which a person must decide")
    .option("--json", "print one JSON document")
    .action(async ({ json }: { json?: boolean }) => {
      const document = await askOps<{ reviews: Review[] }>(runningCopy(place), "GET", "reviews?limit=200");
      answer(json, document, table(TITLES, document.reviews.map(rowOf), "Nothing waits for a person."));
    });
}

const TITLES = ["attempt", "reason", "since", "channel", "message", "ends by itself"];

const rowOf = (review: Review): string[] => [
  review.attemptId,
  review.reason,
  timeOf(review.since),
  review.channelId ?? "none yet",
  review.uncertain ? `${review.status}, uncertain` : review.status,
  timeOf(review.expiresAt),
];
