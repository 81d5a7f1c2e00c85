/** Sets up, starts everything, and stays until it is told to stop. */
import path from "node:path";
import { parseArgs } from "node:util";
import { bringUp, explain } from "./bring-up.mjs";
import { HOME } from "./setup.mjs";
import { reportSteps } from "./steps.mjs";

const HELP = `Usage: npm start -- [options]      (or: npx waybill up [options])

Sets everything up, starts the whole system, sends three demo messages and serves until Ctrl-C.

  --once      end after the demo messages are final; the last line is JSON
  --fresh     begin with empty data
  --no-demo   send nothing
  --help      show this`;

/** @returns {Promise<number>} exit code: 0 done, 1 said no, 2 wrong usage */
export async function start(args) {
  const options = optionsOf(args);
  if (options === undefined) return 2;
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  const steps = reportSteps();
  let copy;
  try {
    copy = await bringUp({
      home: HOME,
      installedIn: path.join(HOME, "installed"),
      fresh: options.fresh,
      ports: "usual",
      throwaway: false,
      external: process.env,
      steps,
    });
    process.setSourceMapsEnabled(true);
    const { supervise } = await import("../dist/scripts/supervisor.js");
    return await supervise({ ...copy, once: options.once, demo: !options["no-demo"] });
  } catch (error) {
    console.error(explain(error, HOME));
    return 1;
  } finally {
    copy?.release();
  }
}

function optionsOf(args) {
  const flag = { type: "boolean", default: false };
  try {
    const { values } = parseArgs({ args, options: { once: flag, fresh: flag, "no-demo": flag, help: flag } });
    if (values.once && values["no-demo"])
      throw new Error("--once waits for the demo messages, which --no-demo leaves out");
    return values;
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`);
    return undefined;
  }
}
