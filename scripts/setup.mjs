/** From a bare clone to code that runs: packages, compiled files, the workflow bundle; each only when it changed. */
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Trouble, run } from "./programs.mjs";
import { lastLines } from "./steps.mjs";

export const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** Where this copy keeps its state; set apart for tests and for several copies on one machine. */
export const HOME = path.resolve(process.env.WAYBILL_HOME || path.join(ROOT, ".waybill"));

const DIST = path.join(ROOT, "dist");
const SOURCE_FOLDERS = [
  "domain",
  "db",
  "workflows",
  "activities",
  "workers",
  "gateway-bridge",
  "fault-points",
  "fault-tests",
  "api",
  "load-tests",
  "scripts",
];
const BUNDLED_FOLDERS = ["workflows", "domain"];
const SETTINGS = ["package-lock.json", "tsconfig.json", "tsconfig.build.json"];
const MIB = 2 ** 20;
const ROOM_NEEDED_MIB = 512;

/** Refuses a disk on which the first writes would fail half-way. */
export function requireRoom(folder) {
  const { bavail, bsize } = fs.statfsSync(folder);
  const freeMib = Math.floor((bavail * bsize) / MIB);
  if (freeMib < ROOM_NEEDED_MIB) {
    throw new Trouble(
      `The disk that holds ${folder} has ${freeMib} MiB left and Waybill needs ${ROOM_NEEDED_MIB}: make room, or point WAYBILL_HOME at a folder on another disk.`,
    );
  }
}

export async function installPackages(steps) {
  if (packagesAreCurrent()) return;
  await steps.step("npm ci", async () => {
    const { code, output } = await run("npm", ["ci", "--include=dev", "--no-audit", "--no-fund"], {
      cwd: ROOT,
    });
    if (code !== 0) {
      throw new Trouble(
        `npm ci failed; it needs the package registry that npm is set up for.\n${lastLines(output)}`,
      );
    }
  });
}

export async function build(steps) {
  await whenChanged(path.join(DIST, ".built"), hashOf(SOURCE_FOLDERS, SETTINGS), async () => {
    await steps.step("compile", () => node(["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"]));
  });
  await whenChanged(path.join(DIST, ".bundled"), hashOf(BUNDLED_FOLDERS, SETTINGS), async () => {
    await steps.step("bundle the workflows", () => node(["dist/scripts/bundle-workflows.js"]));
  });
}

async function node(args) {
  const { code, output } = await run(process.execPath, args, { cwd: ROOT });
  if (code !== 0) throw new Trouble(`${args.join(" ")} failed.\n${lastLines(output, 40)}`);
}

async function whenChanged(stamp, hash, work) {
  if (readOr(stamp, "") === hash) return;
  await work();
  fs.mkdirSync(path.dirname(stamp), { recursive: true });
  fs.writeFileSync(stamp, hash);
}

/**
 * npm writes what it installed into a lock file of its own, as the last thing it does: the packages are
 * current when that says what our lock file says, packages for other platforms aside.
 */
function packagesAreCurrent() {
  const installed = JSON.parse(readOr(path.join(ROOT, "node_modules/.package-lock.json"), "{}")).packages;
  if (installed === undefined) return false;
  const { "": _project, ...wanted } = JSON.parse(readOr(path.join(ROOT, "package-lock.json"), "{}")).packages;
  return (
    Object.keys(installed).every((name) => name in wanted) &&
    Object.entries(wanted).every(([name, { version, integrity, optional }]) =>
      name in installed
        ? installed[name].version === version && installed[name].integrity === integrity
        : optional === true,
    )
  );
}

function hashOf(folders, files) {
  const hash = createHash("sha256").update(process.versions.modules);
  for (const file of [...folders.flatMap(sourcesUnder), ...files]) {
    hash.update(file).update(readOr(path.join(ROOT, file), ""));
  }
  return hash.digest("hex");
}

function sourcesUnder(folder) {
  const absolute = path.join(ROOT, folder);
  if (!fs.existsSync(absolute)) return [];
  return fs
    .readdirSync(absolute, { recursive: true })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => path.join(folder, name))
    .toSorted((a, b) => (a < b ? -1 : 1));
}

function readOr(file, otherwise) {
  try {
    return fs.readFileSync(file, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return otherwise;
    throw error;
  }
}
