/** Workflow code may hold nothing that could differ between two replays: its imports are checked here. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Everything that ends up in the bundle of `entry` and must not: `<file> imports <what>`. */
function forbiddenImports(entry: string, base: string): string[] {
  const seen = new Set<string>();
  const forbidden: string[] = [];
  const open = [entry];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    for (const wanted of valueImports(file)) {
      const target = wanted.startsWith(".") ? path.resolve(path.dirname(file), wanted) : undefined;
      const place = target === undefined ? undefined : path.relative(base, target).split(path.sep)[0];
      const isPure = place === "workflows" || (place === "domain" && !target?.endsWith("submission.ts"));
      if (target !== undefined && isPure) open.push(target);
      else if (wanted !== "@temporalio/workflow") {
        forbidden.push(`${path.relative(base, file)} imports ${wanted}`);
      }
    }
  }
  return forbidden;
}

/** Imports and re-exports that leave something at run time; types alone do not. */
function valueImports(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest);
  return source.statements.flatMap((it) => {
    if (ts.isImportDeclaration(it) && ts.isStringLiteral(it.moduleSpecifier)) {
      return it.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword ? [] : [it.moduleSpecifier.text];
    }
    if (
      ts.isExportDeclaration(it) &&
      it.moduleSpecifier !== undefined &&
      ts.isStringLiteral(it.moduleSpecifier)
    ) {
      return it.isTypeOnly ? [] : [it.moduleSpecifier.text];
    }
    return [];
  });
}

describe("workflow code", () => {
  it("imports @temporalio/workflow, other workflow files and pure domain files, and nothing else", () => {
    expect(forbiddenImports(path.join(root, "workflows/index.ts"), root)).toEqual([]);
  });

  it.each([
    ["a Node module", 'import { readFileSync } from "node:fs";\nexport const a = readFileSync;'],
    ["a database driver", 'import pg from "pg";\nexport const a = pg;'],
    ["a file of ours outside domain", 'export { settle } from "../db/settlement.ts";'],
    ["the one domain file with a library", 'import "../domain/submission.ts";'],
  ])("that imported %s would be found", (_, source) => {
    const base = mkdtempSync(path.join(tmpdir(), "waybill-architecture-"));
    const file = path.join(base, "workflow.ts");
    writeFileSync(file, source);
    expect(forbiddenImports(file, base)).toHaveLength(1);
  });
});
