/** Step 1: may this message be sent, and is there money for it (A3–A5). */
import type { Database } from "../db/client.ts";
import { reserveForAttempts } from "../db/reservation.ts";
import type { ReserveAnswer } from "../domain/steps.ts";
import { atPoint } from "../fault-points/at-point.ts";

export const reserveBatch =
  (database: Database) =>
  async (attemptIds: string[]): Promise<ReserveAnswer[]> => {
    const answers = await atPoint("reserve", () =>
      database.transaction((tx) => atPoint("reserve_uncommitted", () => reserveForAttempts(tx, attemptIds))),
    );
    return attemptIds.map((id) => answers.get(id) ?? { kind: "superseded" });
  };
