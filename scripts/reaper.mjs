/**
 * Ends the children of a supervisor that was killed. It reads `watch <pid> <signal>` and `forget <pid>`
 * lines from its parent; when that pipe closes, whoever is still watched is told to stop, and killed when
 * it does not. It stands in a process group of its own, so a Ctrl-C does not reach it.
 */
import { createInterface } from "node:readline";

const GRACE_MS = 8_000;
const POLL_MS = 50;

const watched = new Map();
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => undefined);
process.on("SIGHUP", () => undefined);

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [what, pid, signal] = line.split(" ");
  if (what === "watch") watched.set(Number(pid), signal);
  else watched.delete(Number(pid));
});
lines.once("close", endAll);

function endAll() {
  for (const [pid, signal] of watched) send(pid, signal);
  const deadline = Date.now() + GRACE_MS;
  const timer = setInterval(() => {
    const alive = [...watched.keys()].filter((pid) => send(pid, 0));
    if (alive.length > 0 && Date.now() <= deadline) return;
    for (const pid of alive) send(-pid, "SIGKILL");
    clearInterval(timer);
  }, POLL_MS);
}

function send(pid, signal) {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false; // Gone already, which is what is wanted.
  }
}
