/**
 * Drops the indexes of Temporal's visibility table that nobody queries: with them an empty workflow costs
 * twice as much. The file is at rest while this runs. Neither Temporal's command line nor Node 20 can
 * change a SQLite file, so Python does, or a newer Node.
 */
import { Trouble, run } from "./programs.mjs";

const KEPT = ["default_idx", "by_workflow_id", "by_status"];
const UNUSED = `SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility'
  AND sql IS NOT NULL AND name NOT IN (${KEPT.map((name) => `'${name}'`).join(", ")})`;

const PYTHON = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for (name,) in db.execute(sys.argv[2]).fetchall():
    db.execute('DROP INDEX "%s"' % name)
db.commit()
`;

/** @returns {Promise<string | undefined>} a sentence for the person when it could not be done */
export async function dropUnusedIndexes(file) {
  if (await droppedByNode(file)) return undefined;
  for (const python of ["python3", "python"]) {
    const { code } = await run(python, ["-c", PYTHON, file, UNUSED]);
    if (code === 0) return undefined;
  }
  return "Temporal keeps indexes that Waybill does not need, which costs about half its speed: Python 3 with sqlite3, or Node 22.13, would drop them.";
}

async function droppedByNode(file) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 22 || (major === 22 && minor < 13)) return false;
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(file);
  try {
    for (const { name } of database.prepare(UNUSED).all()) database.exec(`DROP INDEX "${name}"`);
  } catch (error) {
    throw new Trouble(
      `${file} could not be read (${error.message}): it may be damaged; npm start -- --fresh begins with empty data.`,
    );
  } finally {
    database.close();
  }
  return true;
}
