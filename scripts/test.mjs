#!/usr/bin/env node
/** `npm test`: every check and every test, on servers of its own. Last line: `N passed, N failed, N skipped`. */
import { requireNode } from "./node-version.mjs";

requireNode();
const { test } = await import("./test-run.mjs");
process.exitCode = await test(process.argv.slice(2));
