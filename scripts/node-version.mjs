/**
 * The first thing every command checks. Nothing newer than Node 14 may stand in this file, or an old
 * Node would answer with a syntax error instead of the sentence.
 */
import fs from "node:fs";

const { engines } = JSON.parse(fs.readFileSync(new URL("../package.json", import.meta.url), "utf8"));

export function requireNode() {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(engines.node).map(Number);
  const [haveMajor, haveMinor] = process.versions.node.split(".").map(Number);
  if (haveMajor > major || (haveMajor === major && haveMinor >= minor)) return;
  console.error(
    `Waybill needs Node ${engines.node} and this is Node ${process.versions.node}: install a current one (https://nodejs.org, or your version manager) and run the command again.`,
  );
  process.exit(1);
}
