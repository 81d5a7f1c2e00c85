/**
 * `node dist/workers/main.js <role>`: one process image for the roles; pools and failure stay apart (D1).
 * Each process loads the code of its own role alone.
 */
import { readConfig } from "./config.ts";
import { runRole } from "./role.ts";

const ROLES = {
  api: () => import("./api-role.ts"),
  attempts,
  results: () => import("./results-role.ts"),
  notifier: () => import("./notifier-role.ts"),
  sweeper: () => import("./sweeper-role.ts"),
} as const;

const role = process.argv[2] ?? "";
if (!isRole(role)) {
  process.stderr.write(`usage: main.js <${Object.keys(ROLES).join("|")}>\n`);
  process.exit(2);
}
const { assemble } = await ROLES[role]();
await runRole(role, assemble);

/** What the profile changes must be changed before anything of Temporal is loaded. */
async function attempts() {
  if (readConfig(process.env).profile === "throughput") await import("./throughput.ts");
  return import("./attempts-role.ts");
}

function isRole(name: string): name is keyof typeof ROLES {
  return Object.hasOwn(ROLES, name);
}
