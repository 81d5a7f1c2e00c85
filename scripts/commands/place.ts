/** Where a command works, and the running copy that it talks to. */
import type { PrepareOwn } from "../own-system.ts";
import { type RunFile, readRunFile } from "../run-file.ts";
import { Trouble } from "../trouble.ts";

export interface Place {
  /** The checkout. */
  root: string;
  /** Its state folder. */
  home: string;
  /** For a command that measures: a copy of its own in a folder below `home`. */
  prepareOwn: PrepareOwn;
}

export function runningCopy({ home }: Place): RunFile {
  const run = readRunFile(home);
  if (run === undefined) throw new Trouble(`Nothing runs from ${home}: start it with npm start.`);
  return run;
}

/** What a command answers: a document with `--json`, else lines for people. */
export function answer(json: boolean | undefined, document: object, lines: readonly string[]): void {
  console.log(json === true ? JSON.stringify(document, null, 2) : lines.join("\n"));
}

/** Thrown behind an answer that is no, so that the exit code says it too. */
export class SaidNo extends Error {
  override readonly name = "SaidNo";
}
