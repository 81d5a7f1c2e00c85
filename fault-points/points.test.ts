import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { POINTS } from "./points.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Where a role's own code may pass a point. */
const FOLDERS = ["activities", "api", "db", "gateway-bridge", "workers"];

/** A rewrite of a step can drop the point around it, and a fault run would pass it by in silence. */
it("stands in the code for each name, so that every order can be carried out (I)", () => {
  const sources = FOLDERS.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true })
      .map((name) => path.join(ROOT, folder, String(name)))
      .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts")),
  )
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
  expect(Object.keys(POINTS).filter((name) => !sources.includes(`"${name}"`))).toEqual([]);
});
