/** Ctrl-C, `kill`, and a closed terminal: the first asks for an orderly stop, the second for an end at once. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export interface StopRequests {
  readonly signal: AbortSignal;
  /** Resolves at the first request. */
  readonly requested: Promise<void>;
  /** Called at the second request. */
  onSecond(act: () => void): void;
  /** Stops listening. */
  close(): void;
}

/** One Ctrl-C can arrive twice, from the terminal and from npm: what comes this close together is one request. */
const SAME_REQUEST_MS = 500;

export function listenForStop(): StopRequests {
  const controller = new AbortController();
  let act: () => void = () => undefined;
  let firstAt = 0;
  const request = (): void => {
    if (!controller.signal.aborted) {
      firstAt = Date.now();
      controller.abort();
    } else if (Date.now() - firstAt > SAME_REQUEST_MS) act();
  };
  for (const name of SIGNALS) process.on(name, request);
  return {
    signal: controller.signal,
    requested: new Promise((resolve) =>
      controller.signal.addEventListener("abort", () => resolve(), { once: true }),
    ),
    onSecond(what) {
      act = what;
    },
    close() {
      for (const name of SIGNALS) process.off(name, request);
    },
  };
}
