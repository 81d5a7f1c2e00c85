import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Journal } from "./simulator-journal.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "journal-"));
  path = join(folder, "log.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true }));

const record = (i: number) => ({ i, text: "测".repeat(i % 200) });

describe("a journal", () => {
  it("reads back every line and each at its place, over many blocks", () => {
    const journal = new Journal(path);
    const places = Array.from({ length: 3_000 }, (_, i) => {
      if (i % 700 === 0) journal.flush();
      return journal.append(record(i));
    });
    journal.close();

    const reopened = new Journal(path);
    const lines = [...reopened.lines()];
    expect(lines.map(({ at }) => at)).toEqual(places);
    expect(lines.map(({ line }) => JSON.parse(line) as unknown)).toEqual(
      Array.from({ length: 3_000 }, (_, i) => record(i)),
    );
    for (const i of [0, 1, 1_499, 2_999]) {
      expect(JSON.parse(reopened.lineAt(places[i] ?? -1))).toEqual(record(i));
    }
    reopened.close();
  });

  it("drops half a line at its end and goes on behind the last whole one", () => {
    const journal = new Journal(path);
    journal.append(record(1));
    journal.close();
    const whole = readFileSync(path, "utf8");
    appendFileSync(path, '{"i":2,');

    const reopened = new Journal(path);
    reopened.append(record(3));
    reopened.close();
    expect(readFileSync(path, "utf8")).toBe(`${whole}${JSON.stringify(record(3))}\n`);
  });

  it("has what was flushed in the file before it is closed", () => {
    const journal = new Journal(path);
    journal.append(record(1));
    expect(readFileSync(path, "utf8")).toBe("");
    journal.flush();
    expect(readFileSync(path, "utf8")).toBe(`${JSON.stringify(record(1))}\n`);
    journal.close();
  });
});
