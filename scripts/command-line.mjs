/** The two commands that need nothing but Node, and the way to all others. */
import path from "node:path";
import { bringUp, explain } from "./bring-up.mjs";
import { doctor } from "./doctor.mjs";
import { makeStateFolder } from "./identity.mjs";
import { HOME, ROOT, build, installPackages } from "./setup.mjs";
import { reportSteps } from "./steps.mjs";
import { start } from "./up.mjs";

/** @returns {Promise<number>} exit code: 0 done, 1 said no, 2 wrong usage */
export async function runCommand(args) {
  const [command, ...rest] = args;
  if (command === "up") return start(rest);
  if (command === "doctor") return doctor(rest);
  try {
    const steps = reportSteps(process.stderr); // What a command answers stands alone on standard output.
    await installPackages(steps);
    await build(steps);
    process.setSourceMapsEnabled(true);
    const { waybill } = await import("../dist/scripts/waybill.js");
    return await waybill(args, { root: ROOT, home: HOME, prepareOwn: (name) => prepareOwn(name, steps) });
  } catch (error) {
    console.error(explain(error, HOME));
    return 1;
  }
}

/** A copy beside the running one, for a command that measures: durable like it, and nobody else's. */
function prepareOwn(name, steps) {
  makeStateFolder(HOME);
  return bringUp({
    home: path.join(HOME, name),
    installedIn: path.join(HOME, "installed"),
    fresh: true,
    ports: "free",
    throwaway: false,
    external: {},
    steps,
  });
}
