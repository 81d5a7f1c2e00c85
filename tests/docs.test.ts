/** Pages that cite tests name tests that exist. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (file: string): Promise<string> => readFile(path.join(root, file), "utf8");

/** `` `file.test.ts` "name", "name of the same file" ``, as the tables have it. */
function citedIn(page: string): { file: string; name: string }[] {
  const cited: { file: string; name: string }[] = [];
  for (const line of page.split("\n")) {
    let file: string | undefined;
    for (const [, named, name] of line.matchAll(/`([\w./-]+\.test\.ts)`|"([^"]+)"/g)) {
      if (named !== undefined) file = named;
      else if (file !== undefined && name !== undefined) cited.push({ file, name });
    }
  }
  return cited;
}

it.each(["docs/cases.md", "docs/guards.md"])("%s cites no test that does not exist", async (page) => {
  const cited = citedIn(await read(page));
  expect(cited.length).toBeGreaterThan(20);
  const missing = [];
  for (const { file, name } of cited) {
    const source = await read(file).catch(() => "");
    if (!source.includes(`"${name}"`) && !source.includes(`\`${name}\``)) missing.push(`${file} "${name}"`);
  }
  expect(missing).toEqual([]);
});
