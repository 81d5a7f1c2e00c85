/** What `npm start` and `npm test` both do before anything runs: this copy's folder, code and servers. */
import fs from "node:fs";
import { giveBack, makeStateFolder } from "./identity.mjs";
import { endLeftovers, rememberChildren, takeFolder } from "./ownership.mjs";
import { choosePorts, freePorts } from "./ports.mjs";
import { Trouble } from "./programs.mjs";
import { forgetData, prepareServers } from "./services.mjs";
import { ROOT, build, installPackages, requireRoom } from "./setup.mjs";

/**
 * @param {object} wanted
 * @param {string} wanted.home state folder
 * @param {string} wanted.installedIn where installed servers are kept
 * @param {boolean} wanted.fresh begin with empty data
 * @param {"usual" | "free"} wanted.ports the table of interfaces §7, or whatever leaves a running copy alone
 * @param {boolean} wanted.throwaway servers of a test run, which lives as long as the run
 * @param {object} wanted.external environment that may name servers of the person's own
 * @returns what the supervisor needs, and `release` to give the folder back
 */
export async function bringUp({ home, installedIn, fresh, ports, throwaway, external, steps }) {
  makeFolder(home);
  requireRoom(home);
  const unlock = takeFolder(home);
  const release = () => {
    giveBack(home);
    unlock();
  };
  try {
    const left = await endLeftovers(home);
    if (left.length > 0) steps.line(`Ended what an earlier run left behind: ${left.join(", ")}.`);
    if (fresh) forgetData(home, external);
    const choosePort = ports === "free" ? freePorts() : choosePorts(tellMoved(steps));
    const code = installPackages(steps).then(() => build(steps));
    const servers = prepareServers({ home, installedIn, external, choosePort, throwaway, steps });
    await Promise.allSettled([code, servers]);
    await code;
    const remember = (children) => rememberChildren(home, children);
    return { root: ROOT, home, steps, choosePort, remember, servers: await servers, release };
  } catch (error) {
    release();
    throw error;
  }
}

const tellMoved = (steps) => (what, usual, got) =>
  steps.line(`Port ${usual} is taken: ${what} is on ${got}.`);

function makeFolder(home) {
  try {
    makeStateFolder(home);
    fs.accessSync(home, fs.constants.W_OK);
  } catch (error) {
    if (error.code === "ENOSPC") throw error;
    throw new Trouble(belongsToAnother(home));
  }
}

const belongsToAnother = (what) =>
  `${what} belongs to another user: run Waybill as that user or as root, or set WAYBILL_HOME to a folder of your own.`;

/** What a person reads when something went wrong: a sentence for what they can mend, else all there is. */
export function explain(error, home) {
  if (error instanceof Trouble || error?.name === "Trouble") return error.message;
  if (error?.code === "ENOSPC")
    return `The disk that holds ${home} is full: make room, or point WAYBILL_HOME at a folder on another disk.`;
  if (error?.code === "EACCES" && error.path?.startsWith(home)) return belongsToAnother(error.path);
  return error?.stack ?? String(error);
}
