/**
 * The life of everything that runs in the background: start returns when it runs, stop waits for the
 * work in hand, both may be called twice, and stop before start is fine.
 */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** The slice of a logger that services use; pino fits. No number and no text ever goes in. */
export interface Log {
  info(fields: object, what: string): void;
  warn(fields: object, what: string): void;
  error(fields: object, what: string): void;
}

export interface LoopOptions {
  name: string;
  /** One turn; answers how much it did. A full turn is followed by the next one at once. */
  turn: () => Promise<{ did: number; full: boolean }>;
  /** Waits until there may be work or the time has passed; wakes early when the signal aborts. */
  pause: (signal: AbortSignal) => Promise<void>;
  log: Log;
}

/** A loop's own story: when it last got round, so that liveness is progress and not a pulse. */
export interface Loop extends Service {
  lastTurnAt(): number;
}

const BACKOFF_MS = { first: 100, last: 2_000 };

/**
 * Polls by state. A turn that throws is logged and tried again with back-off: no error ends a loop,
 * and none is taken for "nothing to do".
 */
export function loop(options: LoopOptions): Loop {
  let stopping = new AbortController();
  let running: Promise<void> | undefined;
  let lastTurn = 0;

  async function run(): Promise<void> {
    let failures = 0;
    while (!stopping.signal.aborted) {
      try {
        const { full } = await options.turn();
        if (failures > 0) options.log.info({ loop: options.name, failures }, "loop recovered");
        failures = 0;
        lastTurn = Date.now();
        if (!full) await options.pause(stopping.signal);
      } catch (error) {
        failures++;
        options.log.warn({ loop: options.name, failures, error: errorName(error) }, "loop turn failed");
        await delay(Math.min(BACKOFF_MS.first * 2 ** (failures - 1), BACKOFF_MS.last), stopping.signal);
      }
    }
  }

  return {
    name: options.name,
    lastTurnAt: () => lastTurn,
    start() {
      if (running === undefined) {
        stopping = new AbortController();
        lastTurn = Date.now();
        running = run();
      }
      return Promise.resolve();
    },
    async stop() {
      stopping.abort();
      await running;
      running = undefined;
    },
  };
}

/** Resolves after `ms`, or at once when the signal aborts; never rejects. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** A loop's usual pause: a fixed interval. */
export const every = (ms: number) => (signal: AbortSignal) => delay(ms, signal);

/** What may be logged of an error: its code or class. Messages can quote what a row held. */
export function errorName(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const code: unknown = (error as { code?: unknown }).code;
  return typeof code === "string" ? code : error.name;
}
