/** `waybill seed`: writes the demo seed, as every start does. */
import type { Command } from "commander";
import { openDatabase } from "../../db/client.ts";
import { seedDemo } from "../../db/seed.ts";
import { demoSuppliers } from "../layout.ts";
import { secretsOf } from "../secrets.ts";
import { type Place, answer, runningCopy } from "./place.ts";

export function addSeed(program: Command, place: Place): void {
  program
    .command("seed")
    .description("write the demo seed into the running copy's database; what is there already stays")
    .option("--json", "print one JSON document")
    .action(async ({ json }: { json?: boolean }) => {
      const run = runningCopy(place);
      const secrets = secretsOf(place.home, run.suppliers.length);
      const suppliers = demoSuppliers(
        secrets,
        run.suppliers.map(({ cmppPort }) => cmppPort),
      );
      const database = openDatabase(run.databaseUrl, "operations", 1);
      try {
        await seedDemo(database, { ...secrets, suppliers });
      } finally {
        await database.close();
      }
      answer(json, { seeded: true }, ["The demo seed is in place."]);
    });
}
