#!/usr/bin/env node
/** `npm start`: from a bare clone to a running system that has shown what it does. */
import { requireNode } from "./node-version.mjs";

requireNode();
const { start } = await import("./up.mjs");
process.exitCode = await start(process.argv.slice(2));
