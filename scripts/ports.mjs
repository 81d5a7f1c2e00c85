/** Loopback ports: the usual one where it is free, else one that the system gives. */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

export const LOOPBACK = "127.0.0.1";

/** The servers' usual ports (interfaces §7). */
export const DEFAULT_PORTS = { temporal: 7233, temporalUi: 8233, postgres: 7432, redis: 7379 };

/** A chooser for copies beside a running one: always a free port, and nobody is told. */
export const freePorts = () => {
  const choose = choosePorts(() => undefined);
  return (what) => choose(what, 0);
};

/**
 * A chooser that never gives one port twice.
 *
 * @param {(what: string, usual: number, got: number) => void} onMoved told of each port that was taken
 */
export function choosePorts(onMoved) {
  const given = new Set();
  return async function choose(what, usual) {
    if (usual !== 0 && !given.has(usual) && (await isFree(usual))) {
      given.add(usual);
      return usual;
    }
    const port = await anyFree(given);
    given.add(port);
    if (usual !== 0) onMoved(what, usual, port);
    return port;
  };
}

/**
 * Below the range from which Linux (32768) and macOS (49152) serve outgoing connections: one of those could
 * take a port between now and the moment, or the restart, at which somebody listens on it.
 */
const OURS = { first: 10_000, end: 32_000 };
const DRAWS = 200;

async function anyFree(given) {
  for (let draw = 0; ; draw++) {
    const port = await listenOnce(draw < DRAWS ? randomInt(OURS.first, OURS.end) : 0);
    if (port !== undefined && !given.has(port)) return port;
  }
}

const isFree = async (port) => (await listenOnce(port)) !== undefined;

function listenOnce(port) {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error) =>
      ["EADDRINUSE", "EACCES"].includes(error.code) ? resolve(undefined) : reject(error),
    );
    probe.listen(port, LOOPBACK, () => {
      const { port: got } = probe.address();
      probe.close(() => resolve(got));
    });
  });
}
