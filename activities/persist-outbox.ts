/** Step 3: attempt, segments, message state and command commit together, re-checked (B2–B4). */
import { persistAttempts, type Planned } from "../db/attempts.ts";
import type { Database } from "../db/client.ts";
import type { PersistAnswer } from "../domain/steps.ts";
import { atPoint } from "../fault-points/at-point.ts";

export const persistBatch =
  (database: Database) =>
  async (planned: Planned[]): Promise<PersistAnswer[]> => {
    const answers = await atPoint("persist_outbox", () =>
      database.transaction((tx) => atPoint("persist_outbox_uncommitted", () => persistAttempts(tx, planned))),
    );
    return planned.map((it) => answers.get(it.attemptId) ?? { kind: "superseded" });
  };
