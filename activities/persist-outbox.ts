/** Step 3: attempt, segments, message state and command commit together, re-checked (B2–B4). */
import { persistAttempts, type Planned } from "../db/attempts.ts";
import type { Database } from "../db/client.ts";
import type { PersistAnswer } from "../domain/steps.ts";

export const persistBatch =
  (database: Database) =>
  async (planned: Planned[]): Promise<PersistAnswer[]> => {
    const answers = await database.transaction((tx) => persistAttempts(tx, planned));
    return planned.map((it) => answers.get(it.attemptId) ?? { kind: "superseded" });
  };
