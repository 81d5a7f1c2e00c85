/** Static checks, then the tests that need no server. */
import { explain } from "./bring-up.mjs";
import { STATIC_CHECKS, runChecks } from "./checks.mjs";
import { makeStateFolder } from "./identity.mjs";
import { HOME, installPackages } from "./setup.mjs";
import { reportSteps } from "./steps.mjs";
import { runVitest } from "./vitest-run.mjs";

/** @returns {Promise<number>} exit code */
export async function check() {
  const steps = reportSteps();
  try {
    makeStateFolder(HOME);
    await installPackages(steps);
    const checks = await runChecks(STATIC_CHECKS, steps);
    const tests = await runVitest(["unit", "replay"], HOME);
    steps.line(
      `unit and replay tests: ${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped`,
    );
    const failed = checks.failed + tests.failed;
    steps.line(`${checks.passed + tests.passed} passed, ${failed} failed`);
    return failed === 0 ? 0 : 1;
  } catch (error) {
    console.error(explain(error, HOME));
    console.log("0 passed, 1 failed");
    return 1;
  }
}
