/** Running other programs to their end, and what a person is told when one fails. */
import { spawn } from "node:child_process";

/** A mistake that a person can do something about: its message is the whole answer, no stack. */
export class Trouble extends Error {
  name = "Trouble";
}

/**
 * Runs a program and answers what it said.
 *
 * @returns {Promise<{code: number | null, stdout: string, stderr: string, output: string}>} `output` is both
 *   streams in the order they came; a program that cannot be started answers code null
 */
export function run(command, args, options = {}) {
  return new Promise((resolve) => {
    const { onOutput, ...spawning } = options;
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...spawning });
    const said = { stdout: "", stderr: "", output: "" };
    const listen = (name) => (chunk) => {
      said[name] += chunk;
      said.output += chunk;
      onOutput?.(chunk);
    };
    child.stdout.setEncoding("utf8").on("data", listen("stdout"));
    child.stderr.setEncoding("utf8").on("data", listen("stderr"));
    child.once("error", (error) =>
      resolve({ code: null, ...said, output: `${said.output}${error.message}` }),
    );
    child.once("close", (code) => resolve({ code, ...said }));
  });
}
