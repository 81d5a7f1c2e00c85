/**
 * Many callers, one at a time each, become few short transactions: the caller stays simple, and
 * PostgreSQL and Redis see batches (design §3).
 */
export interface CoalesceOptions {
  /** At most so many items a batch. */
  items: number;
  /** How long the first item waits for company. */
  windowMs: number;
  /** Batches of this step under way at once; more wait and grow meanwhile. */
  batchesInFlight: number;
  /** Whether this error may lie in one item; where not, no smaller batch is tried. Any may, by default. */
  mayBeOneItem?: (error: unknown) => boolean;
  /** Realised batch sizes are a metric (K). */
  onBatch?: (size: number) => void;
}

interface Waiting<Item, Answer> {
  item: Item;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
}

/**
 * `run` answers in the order of its items. When a batch throws, it is split in two until the item that
 * cannot pass stands alone: a bad one never fails its mates. So `run` must be all or nothing. While a
 * dependency is away no item is to blame, and the whole batch fails at once.
 */
export function coalesce<Item, Answer>(
  run: (items: Item[]) => Promise<Answer[]>,
  options: CoalesceOptions,
): (item: Item) => Promise<Answer> {
  const waiting: Waiting<Item, Answer>[] = [];
  let inFlight = 0;
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    timer = undefined;
    while (waiting.length > 0 && inFlight < options.batchesInFlight) {
      const batch = waiting.splice(0, options.items);
      inFlight++;
      options.onBatch?.(batch.length);
      void runSplitting(batch, run, options.mayBeOneItem ?? (() => true)).finally(() => {
        inFlight--;
        if (waiting.length > 0) flush();
      });
    }
  }

  return (item) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (waiting.length >= options.items) flush();
      else timer ??= setTimeout(flush, options.windowMs);
    });
}

/** Never rejects: every waiting caller is answered, one way or the other. */
async function runSplitting<Item, Answer>(
  batch: Waiting<Item, Answer>[],
  run: (items: Item[]) => Promise<Answer[]>,
  mayBeOneItem: (error: unknown) => boolean,
): Promise<void> {
  try {
    const answers = await run(batch.map((it) => it.item));
    if (answers.length !== batch.length) throw new Error("a batch must answer every item");
    batch.forEach((it, index) => it.resolve(answers[index] as Answer));
  } catch (error) {
    if (batch.length === 1 || !mayBeOneItem(error)) {
      batch.forEach((it) => it.reject(error));
      return;
    }
    const half = Math.ceil(batch.length / 2);
    await runSplitting(batch.slice(0, half), run, mayBeOneItem);
    await runSplitting(batch.slice(half), run, mayBeOneItem);
  }
}
