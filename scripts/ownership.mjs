/**
 * Who runs from this state folder: one at a time, and nothing left over from a run that was killed.
 *
 * A process is known by its id and the moment it was born, because ids are given again.
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Trouble } from "./programs.mjs";

const LEFTOVER_GRACE_MS = 15_000;
const POLL_MS = 50;

/** Takes the folder, or says who has it. Answers how to give it back. */
export function takeFolder(home) {
  const lock = path.join(home, "lock");
  const mine = `${lock}.${process.pid}`;
  fs.writeFileSync(mine, JSON.stringify({ pid: process.pid, born: birthOf(process.pid) }), { mode: 0o600 });
  try {
    while (!linked(mine, lock)) {
      const owner = ownerOf(home);
      if (owner !== undefined) throw new Trouble(whoRuns(home, owner));
      fs.rmSync(lock, { force: true });
    }
  } finally {
    fs.rmSync(mine);
  }
  return () => fs.rmSync(lock, { force: true });
}

/** The process that runs from the folder now. */
export function ownerOf(home) {
  const owner = readJson(path.join(home, "lock"));
  return owner !== undefined && isAlive(owner) ? owner.pid : undefined;
}

/**
 * Ends what an earlier run left: its watcher and itself were killed at once, or the watcher is still at
 * work. Waits until all of it is gone, so that ports and data files are free.
 *
 * @returns {Promise<string[]>} names of what had to be ended
 */
export async function endLeftovers(home) {
  const left = (readJson(childrenFile(home)) ?? []).filter(isAlive);
  for (const { pid, signal } of left) kill(pid, signal);
  const deadline = Date.now() + LEFTOVER_GRACE_MS;
  while (left.some(isAlive)) {
    if (Date.now() > deadline) for (const { pid } of left.filter(isAlive)) kill(pid, "SIGKILL");
    await sleep(POLL_MS);
  }
  return left.map(({ name }) => name);
}

/** Notes who would be left over if all were killed now: `{name, pid, signal}` each. */
export function rememberChildren(home, children) {
  const known = children.map((child) => ({ ...child, born: birthOf(child.pid) }));
  fs.writeFileSync(`${childrenFile(home)}.new`, JSON.stringify(known), { mode: 0o600 });
  fs.renameSync(`${childrenFile(home)}.new`, childrenFile(home));
}

const childrenFile = (home) => path.join(home, "children.json");

/** When a process was born, as the system tells it; undefined when there is none. */
export function birthOf(pid) {
  try {
    if (process.platform === "linux") return bornOnLinux(pid);
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim() || undefined;
  } catch {
    return undefined; // No such process is the only answer that ps and /proc give with an error here.
  }
}

/** Field 22 counted behind the name, which may hold spaces and brackets; a zombie counts as gone. */
function bornOnLinux(pid) {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return state === "Z" ? undefined : fields[18];
}

const isAlive = ({ pid, born }) => born !== undefined && birthOf(pid) === born;

function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

function whoRuns(home, pid) {
  const api = readJson(path.join(home, "run.json"))?.api;
  const where = api === undefined ? "it is still starting" : `its API is at ${api}`;
  return `Waybill already runs from ${home} as process ${pid}, ${where}. Stop that one first (Ctrl-C in its window, or: kill ${pid}), or set WAYBILL_HOME to another folder for a second copy.`;
}

/** A hard link appears with its content or not at all, so nobody reads a lock that is half written. */
function linked(from, to) {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function readJson(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
