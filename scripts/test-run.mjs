/** Sets up, starts servers for this run alone on free ports, runs everything, and stops them. */
import path from "node:path";
import { parseArgs } from "node:util";
import { bringUp, explain } from "./bring-up.mjs";
import { STATIC_CHECKS, runChecks } from "./checks.mjs";
import { makeStateFolder } from "./identity.mjs";
import { HOME } from "./setup.mjs";
import { reportSteps } from "./steps.mjs";
import { runVitest } from "./vitest-run.mjs";

const ALL = ["unit", "replay", "integration"];
/** What is left when `npm run check` has just run: a CI run needs nothing twice. */
const BEYOND_CHECK = ["integration"];

const HELP = `Usage: npm test -- [options]

  --beyond-check   leave out what \`npm run check\` runs
  --help           show this`;

/** @returns {Promise<number>} exit code */
export async function test(args) {
  const options = optionsOf(args);
  if (options === undefined) return 2;
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  const steps = reportSteps();
  const results = [];
  try {
    const trouble = await withServers(steps, async (env, home) => {
      if (!options["beyond-check"]) results.push(await runChecks(STATIC_CHECKS, steps));
      results.push(await runVitest(options["beyond-check"] ? BEYOND_CHECK : ALL, home, env));
    });
    results.push(judgePostgresLog(trouble));
  } catch (error) {
    console.error(explain(error, HOME));
    results.push({ passed: 0, failed: 1 });
  }
  return lastLine(results);
}

/** Runs `work` while servers of its own answer, and stops them whatever happens. Answers PostgreSQL's trouble. */
async function withServers(steps, work) {
  const home = path.join(HOME, "test");
  makeStateFolder(HOME);
  const copy = await bringUp({
    home,
    installedIn: path.join(HOME, "installed"),
    fresh: true,
    ports: "free",
    throwaway: true,
    external: {},
    steps,
  });
  try {
    const { serveTests } = await import("../dist/scripts/test-servers.js");
    return await serveTests(copy, (env) => work(env, home));
  } finally {
    copy.release();
  }
}

/** One check more: whatever the tests did, nobody waited in a circle or ran into a unique key (D13, L). */
function judgePostgresLog(trouble) {
  if (trouble.length === 0) return { passed: 1, failed: 0 };
  const shown = trouble.slice(0, 20).join("\n");
  console.error(`PostgreSQL's log tells of deadlocks or violated unique keys:\n${shown}`);
  return { passed: 0, failed: 1 };
}

function lastLine(results) {
  const sum = (what) => results.reduce((total, counts) => total + (counts[what] ?? 0), 0);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`);
  return sum("failed") === 0 ? 0 : 1;
}

function optionsOf(args) {
  const flag = { type: "boolean", default: false };
  try {
    return parseArgs({ args, options: { "beyond-check": flag, help: flag } }).values;
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`);
    return undefined;
  }
}
