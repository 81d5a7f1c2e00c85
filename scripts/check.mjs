#!/usr/bin/env node
/** `npm run check`: everything that needs no server. Last line: `N passed, N failed`. */
import { requireNode } from "./node-version.mjs";

requireNode();
const { check } = await import("./check-run.mjs");
process.exitCode = await check();
