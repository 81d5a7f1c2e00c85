/**
 * As whom PostgreSQL runs. It refuses root, so root hands it to an unprivileged user who can reach the
 * state folder; where none can, to a user namespace in which root's files belong to an ordinary user.
 */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Trouble } from "./programs.mjs";

const UNPRIVILEGED = ["postgres", "nobody"];
const NAMESPACE = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"];

/**
 * @returns {{uid?: number, gid?: number, running: (program: string, args: string[]) => object}} `running`
 *   gives what to spawn; uid and gid are the owner that the data must have
 */
export function identityFor(home, program) {
  if (process.getuid?.() !== 0) return { running: (command, args) => ({ command, args }) };
  const user = candidates(home).find((candidate) => reaches(candidate, home, program));
  if (user !== undefined) return { ...user, running: (command, args) => ({ command, args, ...user }) };
  if (namespacesWork()) {
    const [command, ...options] = NAMESPACE;
    return { uid: 0, gid: 0, running: (inner, args) => ({ command, args: [...options, inner, ...args] }) };
  }
  throw new Trouble(
    `PostgreSQL refuses to run as root, and no other user can reach ${home}: run Waybill as an ordinary user, or set WAYBILL_HOME to a folder that others may enter, such as /var/lib/waybill.`,
  );
}

/** Gives a file or folder to the user that PostgreSQL runs as; only root needs to, and can. */
export function own(target, { uid, gid }) {
  if (uid !== undefined && fs.lstatSync(target).uid !== uid) chownAll(target, uid, gid);
}

/** Makes the state folder. What root makes in somebody's folder is theirs, so that it works without root too. */
export function makeStateFolder(home) {
  if (fs.existsSync(home)) return;
  fs.mkdirSync(path.dirname(home), { recursive: true });
  fs.mkdirSync(home, { mode: 0o711 });
  const { uid, gid } = fs.statSync(path.dirname(home));
  if (process.getuid?.() === 0 && uid !== 0) fs.chownSync(home, uid, gid);
}

/** When root is done, everything belongs to the folder's owner again. */
export function giveBack(home) {
  const { uid, gid } = fs.statSync(home);
  if (process.getuid?.() === 0 && uid !== 0) chownAll(home, uid, gid);
}

function chownAll(target, uid, gid) {
  if (fs.lstatSync(target).isDirectory()) {
    for (const name of fs.readdirSync(target, { recursive: true }))
      fs.lchownSync(path.join(target, name), uid, gid);
  }
  fs.lchownSync(target, uid, gid);
}

/** First the folder's owner: then the same data works when that user starts it without root. */
function candidates(home) {
  const { uid, gid } = fs.statSync(home);
  return [...(uid === 0 ? [] : [{ uid, gid }]), ...UNPRIVILEGED.flatMap(named)];
}

function named(name) {
  const ask = (flag) => spawnSync("id", [flag, name], { encoding: "utf8" });
  const [uid, gid] = [ask("-u"), ask("-g")];
  return uid.status === 0 ? [{ uid: Number(uid.stdout), gid: Number(gid.stdout) }] : [];
}

function reaches(user, home, program) {
  return (
    spawnSync("/bin/sh", ["-c", 'cd "$0" && test -x "$1"', home, program], { cwd: "/", ...user }).status === 0
  );
}

function namespacesWork() {
  const [command, ...options] = NAMESPACE;
  return spawnSync(command, [...options, "true"]).status === 0;
}
