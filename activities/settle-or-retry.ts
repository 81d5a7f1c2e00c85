/** Step 6: one decision from the facts there are, committed with money and notification (D5–D10). */
import type { Database } from "../db/client.ts";
import { settle } from "../db/settlement.ts";
import type { SettleAnswer } from "../domain/steps.ts";
import { atPoint } from "../fault-points/at-point.ts";

export const settleBatch =
  (database: Database) =>
  async (attemptIds: string[]): Promise<SettleAnswer[]> => {
    const answers = await atPoint("settle", () =>
      database.transaction((tx) => atPoint("settle_uncommitted", () => settle(tx, attemptIds))),
    );
    return attemptIds.map((id) => {
      const answer = answers.get(id);
      if (answer === undefined) throw new Error("an attempt that waits for its segments is not stored");
      return answer;
    });
  };
