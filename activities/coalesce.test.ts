import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { coalesce, type CoalesceOptions } from "./coalesce.ts";

const options: CoalesceOptions = { items: 4, windowMs: 3, batchesInFlight: 2 };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Answers each item with its own square, after a moment. */
const squares = async (items: number[]): Promise<number[]> => {
  await new Promise((resolve) => setTimeout(resolve, 5));
  return items.map((it) => it * it);
};

describe("many callers", () => {
  it("each get their own answer, in whatever pattern they come", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ item: fc.integer({ min: 0, max: 99 }), gapMs: fc.integer({ min: 0, max: 6 }) }),
          {
            maxLength: 40,
          },
        ),
        fc.record({
          items: fc.integer({ min: 1, max: 8 }),
          windowMs: fc.integer({ min: 0, max: 5 }),
          batchesInFlight: fc.integer({ min: 1, max: 3 }),
        }),
        async (calls, chosen) => {
          const sizes: number[] = [];
          const one = coalesce(squares, { ...chosen, onBatch: (size) => sizes.push(size) });
          const answers: Promise<number>[] = [];
          for (const { item, gapMs } of calls) {
            answers.push(one(item));
            await vi.advanceTimersByTimeAsync(gapMs);
          }
          await vi.runAllTimersAsync();

          expect(await Promise.all(answers)).toEqual(calls.map(({ item }) => item * item));
          expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(calls.length);
          expect(Math.max(0, ...sizes)).toBeLessThanOrEqual(chosen.items);
        },
      ),
      { numRuns: 50 },
    );
  });

  it("never have more batches under way than are allowed", async () => {
    let underWay = 0;
    let most = 0;
    const one = coalesce(async (items: number[]) => {
      most = Math.max(most, ++underWay);
      const answers = await squares(items);
      underWay--;
      return answers;
    }, options);

    const answers = Array.from({ length: 40 }, (_, index) => one(index));
    await vi.runAllTimersAsync();
    await Promise.all(answers);

    expect(most).toBe(options.batchesInFlight);
  });

  it("wait no longer than the window for company, and not at all once a batch is full", async () => {
    const batches: number[][] = [];
    const one = coalesce((items: number[]) => {
      batches.push(items);
      return Promise.resolve(items);
    }, options);

    const lonely = one(1);
    await vi.advanceTimersByTimeAsync(options.windowMs - 1);
    expect(batches).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(batches).toEqual([[1]]);

    const full = [2, 3, 4, 5].map(one);
    expect(batches).toEqual([[1], [2, 3, 4, 5]]);
    await Promise.all([lonely, ...full]);
  });

  it("grow into full batches while all that are allowed are under way", async () => {
    const sizes: number[] = [];
    const one = coalesce(squares, { ...options, onBatch: (size) => sizes.push(size) });

    const first = [1, 2].map(one);
    await vi.advanceTimersByTimeAsync(options.windowMs);
    const second = [3].map(one);
    await vi.advanceTimersByTimeAsync(1);
    const third = [4, 5, 6].map(one);
    await vi.runAllTimersAsync();
    await Promise.all([...first, ...second, ...third]);

    expect(sizes).toEqual([2, 4]);
  });
});

describe("a batch that fails", () => {
  it("fails its poison items alone, each with its own error", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }), async (poisoned) => {
        const one = coalesce(
          async (items: { index: number; poison: boolean }[]) => {
            const bad = items.find((it) => it.poison);
            if (bad !== undefined) throw new Error(`item ${bad.index}`);
            return (await squares(items.map((it) => it.index))).map((it) => it);
          },
          { ...options, items: 8 },
        );

        const calls = poisoned.map((poison, index) =>
          one({ index, poison }).catch((error: unknown) => (error as Error).message),
        );
        await vi.runAllTimersAsync();

        expect(await Promise.all(calls)).toEqual(
          poisoned.map((poison, index) => (poison ? `item ${index}` : index * index)),
        );
      }),
      { numRuns: 50 },
    );
  });

  it("is not split where no item is to blame: a dependency that is away is asked once (D12)", async () => {
    const away = new Error("away");
    let calls = 0;
    const one = coalesce(
      (): Promise<number[]> => {
        calls++;
        return Promise.reject(away);
      },
      { ...options, mayBeOneItem: (error) => error !== away },
    );

    const answers = Promise.allSettled([1, 2, 3, 4].map(one));
    await vi.runAllTimersAsync();

    expect((await answers).map((it) => it.status)).toEqual(Array.from({ length: 4 }, () => "rejected"));
    expect(calls).toBe(1);
  });

  it("does not hold up the batches after it", async () => {
    const one = coalesce(
      (items: number[]) => (items.includes(0) ? Promise.reject(new Error("poison")) : squares(items)),
      { ...options, batchesInFlight: 1 },
    );

    const poison = expect(one(0)).rejects.toThrow("poison");
    await vi.runAllTimersAsync();
    const after = one(7);
    await vi.runAllTimersAsync();

    await poison;
    expect(await after).toBe(49);
  });

  it("is one that does not answer every item, too", async () => {
    const one = coalesce(
      (items: number[]) => Promise.resolve(items.length === 1 ? items : items.slice(1)),
      options,
    );

    const answers = [1, 2, 3].map(one);
    await vi.runAllTimersAsync();

    expect(await Promise.all(answers)).toEqual([1, 2, 3]);
  });

  it("is one whose step throws before it returns a promise, too", async () => {
    const one = coalesce((items: number[]): Promise<number[]> => {
      if (items.includes(0)) throw new Error("at once");
      return Promise.resolve(items);
    }, options);

    const answers = [0, 1].map((it) => one(it).catch((error: unknown) => (error as Error).message));
    await vi.runAllTimersAsync();

    expect(await Promise.all(answers)).toEqual(["at once", 1]);
  });
});
