#!/usr/bin/env node
/** `npx waybill-simulator`: simulated suppliers alone, for whoever builds or tests something that speaks CMPP. */
import { requireNode } from "./node-version.mjs";

requireNode();
const { optionsOf, SIMULATOR_HELP } = await import("./simulator-options.mjs");
await main(process.argv.slice(2));

async function main(args) {
  const asked = optionsOf(args);
  if (asked.help) return console.log(SIMULATOR_HELP);
  if (asked.wrong !== undefined) {
    console.error(`${asked.wrong}\n\n${SIMULATOR_HELP}`);
    process.exitCode = 2;
    return;
  }
  const { build, installPackages } = await import("./setup.mjs");
  const { reportSteps } = await import("./steps.mjs");
  const steps = reportSteps(process.stderr); // What the simulator logs stands alone on standard output.
  await installPackages(steps);
  await build(steps);
  process.env.WAYBILL_SIMULATOR = JSON.stringify(asked.options);
  await import("../dist/gateway-bridge/simulator-main.js");
}
