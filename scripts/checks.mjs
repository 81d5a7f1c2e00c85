/** The static checks, in the order in which they find the most: each is one line and counts as one test. */
import { HOME, ROOT } from "./setup.mjs";
import { run } from "./programs.mjs";

const TOOL = (name, ...args) => ({ command: `${ROOT}/node_modules/.bin/${name}`, args });

/** What the compiler remembers between runs, so that only what changed is looked at again. */
const TYPES_SEEN = `${HOME}/types.tsbuildinfo`;

const SOURCES = [
  "activities",
  "api",
  "db",
  "domain",
  "fault-points",
  "fault-tests",
  "gateway-bridge",
  "load-tests",
  "scripts",
  "tests",
  "workers",
  "workflows",
];

export const STATIC_CHECKS = [
  { name: "format", ...TOOL("oxfmt", "--check") },
  { name: "lint", ...TOOL("oxlint", "--type-aware", "--deny-warnings") },
  { name: "types", ...TOOL("tsc", "--noEmit", "-p", ".", "--incremental", "--tsBuildInfoFile", TYPES_SEEN) },
  { name: "arrows", ...TOOL("depcruise", "--config", ".dependency-cruiser.json", ...SOURCES) },
  { name: "unused code", ...TOOL("knip") },
  { name: "unused in production", ...TOOL("knip", "--production") },
];

/** Two at a time: they use a core each, and a machine of ours has two. */
const AT_ONCE = 2;

/** @returns {Promise<{passed: number, failed: number}>} */
export async function runChecks(checks, steps) {
  const waiting = [...checks];
  const counts = { passed: 0, failed: 0 };
  const work = async () => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      counts[(await passes(check, steps)) ? "passed" : "failed"] += 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return counts;
}

async function passes({ name, command, args }, steps) {
  let said = "";
  try {
    await steps.step(name, async () => {
      const { code, output } = await run(command, args, { cwd: ROOT });
      said = output;
      if (code !== 0) throw new Error(name);
    });
    return true;
  } catch {
    steps.line(said.trimEnd()); // What the tool found is the whole of what there is to say.
    return false;
  }
}
