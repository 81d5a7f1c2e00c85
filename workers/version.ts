/** Of this release, as package.json has it. */
import { readFileSync } from "node:fs";

const up = import.meta.url.includes("/dist/") ? "../../" : "../";
const manifest = JSON.parse(readFileSync(new URL(`${up}package.json`, import.meta.url), "utf8")) as {
  version: string;
};
export const version = manifest.version;
