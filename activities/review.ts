/** What is written down when an attempt needs a person, and what a person's word does (D12). */
import type { Database } from "../db/client.ts";
import { closeReview, openReviews, resolveReview } from "../db/reviews.ts";
import type { Resolution, ResolveAnswer } from "../domain/steps.ts";

export interface ReviewActivities {
  openReview: (it: { attemptId: string; reason: string }) => Promise<void>;
  closeReview: (attemptId: string) => Promise<void>;
  resolveReview: (it: { attemptId: string; resolution: Resolution }) => Promise<ResolveAnswer>;
}

export function reviewActivities(database: Database): ReviewActivities {
  return {
    async openReview(it) {
      await openReviews(database, [it]);
    },
    closeReview: (attemptId) => closeReview(database, attemptId),
    resolveReview: ({ attemptId, resolution }) =>
      database.transaction((tx) => resolveReview(tx, attemptId, resolution)),
  };
}
