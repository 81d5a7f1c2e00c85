#!/usr/bin/env node
/** `npx waybill <command>`: from a bare clone too, so what is not built yet is built first. */
import { requireNode } from "./node-version.mjs";

requireNode();
const { runCommand } = await import("./command-line.mjs");
process.exitCode = await runCommand(process.argv.slice(2));
