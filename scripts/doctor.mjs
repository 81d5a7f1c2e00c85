/** `waybill doctor`: what this machine has of what Waybill needs; works when nothing else does. */
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { SERVERS, commandsFor, findServer } from "./find-servers.mjs";
import { ownerOf } from "./ownership.mjs";
import { run } from "./programs.mjs";
import { HOME } from "./setup.mjs";
import { EXTERNAL } from "./services.mjs";

const HELP = `Usage: waybill doctor [options]

Shows which servers and tools were found, where, and in which version. Exit code 1 when something is missing.

  --json    print one JSON document
  --help    show this`;

/** @returns {Promise<number>} exit code */
export async function doctor(args) {
  const options = optionsOf(args);
  if (options === undefined) return 2;
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  const found = await examine();
  if (options.json) console.log(JSON.stringify(found, null, 2));
  else for (const line of linesOf(found)) console.log(line);
  return found.complete ? 0 : 1;
}

async function examine() {
  const servers = await Promise.all(Object.keys(SERVERS).map(serverState));
  const [npm, python] = await Promise.all([
    versionOf("npm", ["--version"]),
    versionOf("python3", ["-m", "pip", "--version"]),
  ]);
  const present = { npm: npm !== undefined, "Python 3 with pip": python !== undefined };
  return {
    complete: servers.every(({ name, usable }) => usable || present[SERVERS[name].installedBy]),
    node: process.versions.node,
    npm: npm ?? null,
    pip: python ?? null,
    servers: Object.fromEntries(servers.map(({ name, ...state }) => [name, state])),
    home: HOME,
    dataKeys: dataKeys(),
    freeMib: freeMib(),
    running: ownerOf(HOME) ?? null,
  };
}

async function serverState(name) {
  const variable = EXTERNAL[name];
  if (process.env[variable]) return { name, usable: true, external: variable };
  const found = await findServer(name, path.join(HOME, "installed"));
  if (found === undefined) return { name, usable: false };
  return { name, usable: true, program: found.program, version: found.version };
}

async function versionOf(command, args) {
  const { code, stdout } = await run(command, args);
  return code === 0 ? /\d+(\.\d+)+/.exec(stdout)?.[0] : undefined;
}

/** Where the keys are that numbers and texts are stored under, how many can open, and who may read them. */
function dataKeys() {
  const { WAYBILL_DATA_KEYS: written, WAYBILL_DATA_KEYS_FILE: named } = process.env;
  if (written && named) return { trouble: "WAYBILL_DATA_KEYS and WAYBILL_DATA_KEYS_FILE are both set" };
  if (written) return { from: "WAYBILL_DATA_KEYS", count: dataKeyCount(written) };
  const file = named || path.join(HOME, "data-keys");
  const from = named ? `WAYBILL_DATA_KEYS_FILE, ${file}` : file;
  try {
    const othersMayRead = (fs.statSync(file).mode & 0o077) !== 0;
    return { from, count: dataKeyCount(fs.readFileSync(file, "utf8")), othersMayRead };
  } catch (error) {
    return named ? { trouble: `${from} cannot be read (${error.code})` } : null;
  }
}

const dataKeyCount = (written) => written.match(/\bdata:[\w+/-]+/g)?.length ?? 0;

function dataKeysLine(found) {
  if (found === null) return "none yet; npm start makes them in the state folder";
  if (found.trouble !== undefined) return found.trouble;
  const warning = found.othersMayRead ? "; others on this machine may read the file: chmod 600 it" : "";
  return `${found.count} of ${found.from}${warning}`;
}

/** Of the nearest folder that exists: the state folder may not be made yet. */
function freeMib() {
  let folder = HOME;
  while (!fs.existsSync(folder)) folder = path.dirname(folder);
  const { bavail, bsize } = fs.statfsSync(folder);
  return Math.floor((bavail * bsize) / 2 ** 20);
}

function linesOf(found) {
  const servers = Object.entries(found.servers).map(([name, state]) => {
    if (state.external !== undefined) return [SERVERS[name].title, `your own, by ${state.external}`];
    if (!state.usable) return [SERVERS[name].title, absence(SERVERS[name])];
    return [SERVERS[name].title, `${state.version} at ${state.program}`];
  });
  const rows = [
    ["Node", found.node],
    ["npm", found.npm ?? "not found"],
    [
      "Python with pip",
      found.pip === null ? "not found; needed only to install Temporal or Redis" : `pip ${found.pip}`,
    ],
    ...servers,
    ["State folder", `${found.home} (${found.freeMib} MiB free)`],
    ["Data keys", dataKeysLine(found.dataKeys)],
    ["Running", found.running === null ? "no" : `yes, process ${found.running}`],
  ];
  const verdict = found.complete
    ? "npm start finds here what it needs, or can install it."
    : "Something is missing that npm start cannot install: see above.";
  return [...rows.map(([what, where]) => `${what.padEnd(18)}${where}`), verdict];
}

const absence = ({ installedBy, byHand }) =>
  `not found; npm start installs it by ${installedBy}, or by hand. ${commandsFor(byHand)}`;

function optionsOf(args) {
  const flag = { type: "boolean", default: false };
  try {
    return parseArgs({ args, options: { json: flag, help: flag } }).values;
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`);
    return undefined;
  }
}
