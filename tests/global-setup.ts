/** Once a run: the template database is migrated and the workflow bundle is made. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode } from "@temporalio/worker";
import type { TestProject } from "vitest/node";
import { openDatabase, statement } from "../db/client.ts";
import { migrateDatabase } from "../db/migrate.ts";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const databaseUrl = required("WAYBILL_TEST_DATABASE_URL");
  // Every database of this run begins alike, so that a run drops its own and no other's.
  const template = `waybill_test_${process.pid}`;
  const admin = openDatabase(databaseUrl, "operations", 1);
  await admin.run(statement("template.create", `CREATE DATABASE ${template}`));
  const url = new URL(databaseUrl);
  url.pathname = `/${template}`;
  await migrateDatabase(url.href);

  const folder = await mkdtemp(path.join(tmpdir(), "waybill-tests-"));
  const bundle = path.join(folder, "workflows.js");
  const { code } = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL("../workflows/index.ts", import.meta.url)),
    logger: quiet,
  });
  await writeFile(bundle, code);

  project.provide("databaseUrl", databaseUrl);
  project.provide("templateDatabase", template);
  project.provide("redisUrl", required("WAYBILL_TEST_REDIS_URL"));
  project.provide("temporalAddress", required("WAYBILL_TEST_TEMPORAL_ADDRESS"));
  project.provide("workflowBundle", bundle);

  return async () => {
    const made = await admin.run(
      statement<{ datname: string }>(
        "template.made",
        `SELECT datname FROM pg_database WHERE datname = '${template}' OR starts_with(datname, '${template}_')`,
      ),
    );
    for (const { datname } of made) {
      await admin.run(statement(`drop.${datname}`, `DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`));
    }
    await admin.close();
    await rm(folder, { recursive: true, force: true });
  };
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new Error(`${name} is not set: run \`npm test\`, which starts the servers, or name a server in it`);
  }
  return value;
}

const nothing = (): void => undefined;
const quiet = { log: nothing, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };
