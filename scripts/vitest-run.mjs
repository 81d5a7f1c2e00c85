/** One run of vitest, and how many tests passed, failed and were skipped in it. */
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { ROOT } from "./setup.mjs";

/**
 * @param {string[]} projects of vitest.config.ts
 * @param {string} folder where the report goes
 * @param {object} env beside our own environment
 * @returns {Promise<{passed: number, failed: number, skipped: number}>} a file that could not even be loaded
 *   counts as one failure
 */
export async function runVitest(projects, folder, env = {}) {
  const report = path.join(folder, "vitest.json");
  fs.rmSync(report, { force: true });
  const chosen = projects.flatMap((project) => ["--project", project]);
  const options = ["run", ...chosen, "--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const code = await shown([`${ROOT}/node_modules/vitest/vitest.mjs`, ...options], env);
  if (!fs.existsSync(report)) return { passed: 0, failed: 1, skipped: 0 };
  const counts = countsOf(JSON.parse(fs.readFileSync(report, "utf8")));
  // An unhandled error fails the run without failing any test.
  return code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
}

function countsOf({ numPassedTests, numFailedTests, numPendingTests, numTodoTests, testResults }) {
  const unloaded = testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  );
  return {
    passed: numPassedTests,
    failed: numFailedTests + unloaded.length,
    skipped: numPendingTests + numTodoTests,
  };
}

function shown(args, env) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, {
      cwd: ROOT,
      stdio: "inherit",
      env: { ...process.env, ...env },
    });
    child.once("exit", (code) => resolve(code));
  });
}
