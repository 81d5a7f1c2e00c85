/** A batch of stored events, folded: together where that goes, one by one where one of them is at fault (D2). */
import { type Database, isTemporary, type Session } from "../db/client.ts";
import { dueEvents, type FoldedBatch, foldEvents, foldOne, setAside } from "../db/folding.ts";
import { atPoint } from "../fault-points/at-point.ts";
import { errorName, type Log } from "./service.ts";

interface Deps {
  database: Database;
  log: Log;
}

/** One event that cannot be folded must not hold up those beside it and behind it. */
export async function foldBatch(deps: Deps, limit: number): Promise<FoldedBatch> {
  try {
    return await inOneTransaction(deps, (tx) => foldEvents(tx, limit));
  } catch (error) {
    if (isTemporary(error)) throw error;
    deps.log.warn({ error: errorName(error) }, "a batch of events could not be folded; one by one now");
    return foldOneByOne(deps, limit);
  }
}

const inOneTransaction = <T>(deps: Deps, work: (tx: Session) => Promise<T>): Promise<T> =>
  atPoint("fold", () => deps.database.transaction((tx) => atPoint("fold_uncommitted", () => work(tx))));

async function foldOneByOne(deps: Deps, limit: number): Promise<FoldedBatch> {
  const ids = await dueEvents(deps.database, limit);
  const sum: FoldedBatch = {
    eventCount: 0,
    full: ids.length >= limit,
    folded: 0,
    unmatched: 0,
    charged: 0,
    due: [],
  };
  for (const id of ids) {
    try {
      const one = await inOneTransaction(deps, (tx) => foldOne(tx, id));
      sum.eventCount += one.eventCount;
      sum.folded += one.folded;
      sum.unmatched += one.unmatched;
      sum.charged += one.charged;
      sum.due.push(...one.due);
    } catch (error) {
      if (isTemporary(error)) throw error;
      const name = errorName(error);
      await setAside(deps.database, id, name);
      deps.log.error({ event: String(id), error: name }, "an event could not be folded; set aside");
    }
  }
  return sum;
}
