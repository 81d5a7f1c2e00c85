/**
 * Holds the slots' locks on one connection to PostgreSQL (design §6). When that connection breaks every
 * lock is gone with it; they are taken again at once, and a slot that somebody else got meanwhile is lost.
 */
import { SlotLocks } from "../db/connections.ts";
import { delay } from "../workers/service.ts";

export interface SlotKey {
  supplierId: string;
  slot: number;
}

interface Held {
  key: SlotKey;
  lost: () => void;
}

const CHECK_DEADLINE_MS = 3_000;
const CLOSE_DEADLINE_MS = 1_000;
/**
 * Without PostgreSQL's word for so long somebody else may own our slots. Until then connections stay: what
 * they have in flight is answered meanwhile.
 */
const SURE_FOR_MS = 15_000;

export class LockKeeper {
  readonly #open: () => Promise<SlotLocks>;
  readonly #held = new Map<string, Held>();
  #locks: SlotLocks | undefined;
  #opening: Promise<SlotLocks> | undefined;
  #sureAt = performance.now();
  #closed = false;

  constructor(databaseUrl: string) {
    this.#open = () => SlotLocks.open(databaseUrl);
  }

  /** True when the slot is ours, now or already. `lost` is called once when it no longer is. */
  async hold(key: SlotKey, lost: () => void): Promise<boolean> {
    const locks = await this.#current();
    if (this.#held.has(nameOf(key))) return true;
    if (!(await locks.tryLock(key.supplierId, key.slot))) return false;
    if (this.#locks !== locks || this.#closed) return false;
    this.#held.set(nameOf(key), { key, lost });
    return true;
  }

  /** Gives a slot to whoever wants it; `lost` is not called. */
  async release(key: SlotKey): Promise<void> {
    if (!this.#held.delete(nameOf(key))) return;
    await this.#locks?.unlock(key.supplierId, key.slot);
  }

  /** To be called every second or so: notices a broken connection and takes the locks again. */
  async check(): Promise<void> {
    let asked: SlotLocks | undefined;
    try {
      asked = await this.#current();
      await within(CHECK_DEADLINE_MS, asked.check());
      this.#sureAt = performance.now();
    } catch (error) {
      if (asked !== undefined) await this.#drop(asked);
      if (performance.now() - this.#sureAt > SURE_FOR_MS) this.#loseAll();
      throw error;
    }
  }

  /** Processes that share the suppliers' slots, this one included. */
  async processes(): Promise<number> {
    return within(CHECK_DEADLINE_MS, (await this.#current()).processes());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#held.clear();
    if (this.#locks !== undefined) await this.#drop(this.#locks);
  }

  async #current(): Promise<SlotLocks> {
    if (this.#closed) throw new Error("the slots' locks are closed");
    if (this.#locks?.lost === false) return this.#locks;
    this.#opening ??= this.#reopen().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #reopen(): Promise<SlotLocks> {
    const locks = await this.#open();
    try {
      for (const [name, { key, lost }] of this.#held) {
        if (await within(CHECK_DEADLINE_MS, locks.tryLock(key.supplierId, key.slot))) continue;
        this.#held.delete(name);
        lost();
      }
    } catch (error) {
      // Kept open it would hold locks that nobody knows of.
      await this.#drop(locks);
      throw error;
    }
    this.#locks = locks;
    this.#sureAt = performance.now();
    return locks;
  }

  async #drop(locks: SlotLocks): Promise<void> {
    if (this.#locks === locks) this.#locks = undefined;
    await Promise.race([locks.close().catch(() => undefined), delay(CLOSE_DEADLINE_MS)]);
  }

  #loseAll(): void {
    const held = [...this.#held.values()];
    this.#held.clear();
    for (const { lost } of held) lost();
  }
}

const nameOf = ({ supplierId, slot }: SlotKey): string => `${supplierId}/${slot}`;

/** A half-open connection never answers and never fails. */
async function within<T>(ms: number, asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("PostgreSQL did not answer about the slots' locks")), ms);
  });
  asked.catch(() => undefined);
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}
