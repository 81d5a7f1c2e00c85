import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const data = mkdtempSync(path.join(tmpdir(), "waybill-simulator-"));
afterAll(() => rmSync(data, { recursive: true, force: true }));

/** Runs without building anything: what is wrong with a command line is said at once. */
const asked = (...args: string[]) =>
  spawnSync(process.execPath, [path.join(ROOT, "scripts/waybill-simulator.mjs"), ...args], {
    encoding: "utf8",
  });

const documentFor = (...args: string[]): unknown => {
  const program = `import("./scripts/simulator-options.mjs").then(({ optionsOf }) =>
    console.log(JSON.stringify(optionsOf(process.argv.slice(1)))))`;
  const { stdout } = spawnSync(process.execPath, ["-e", program, "--", ...args, "--data", data], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return JSON.parse(stdout);
};

describe("npx waybill-simulator", () => {
  it("says what it can be told", () => {
    const { status, stdout } = asked("--help");
    expect(status).toBe(0);
    expect(stdout).toContain("--supplier");
  });

  it.each([
    ["an option that it does not know", ["--colour", "red"]],
    ["a field that it does not know", ["--supplier", "size=7"]],
    ["a number that is none", ["--supplier", "port=high"]],
    ["deviations that are no JSON", ["--deviations", "{"]],
  ])("says no to %s", (_, args) => {
    const { status, stderr } = asked(...args, "--data", data);
    expect(status).toBe(2);
    expect(stderr).toContain("Usage: npx waybill-simulator");
  });

  it("has one supplier where none is named, and each as it is named", () => {
    expect(documentFor()).toMatchObject({
      options: { suppliers: [{ version: "3.0", cmppPort: 7890, logPort: 7990, spId: "900001" }] },
    });
    expect(
      documentFor("--supplier", "name=a,version=2.0,port=0,log=0,secret=x=y", "--supplier", "login=abc"),
    ).toMatchObject({
      options: {
        suppliers: [
          { name: "a", version: "2.0", cmppPort: 0, logPort: 0, secret: "x=y" },
          { name: "supplier-2", cmppPort: 7891, spId: "abc" },
        ],
      },
    });
  });
});
