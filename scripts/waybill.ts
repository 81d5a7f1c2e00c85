/** The command line: one file a command under commands/. */
import { Command, CommanderError } from "commander";
import { addAlerts } from "./commands/alerts.ts";
import { addApply } from "./commands/apply.ts";
import { addBooks } from "./commands/books.ts";
import { addChannels } from "./commands/channels.ts";
import { addExport } from "./commands/export.ts";
import { addKeys } from "./commands/keys.ts";
import { addFaults } from "./commands/faults.ts";
import { addFloor } from "./commands/floor.ts";
import { addLoad } from "./commands/load.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addPublication } from "./commands/publication.ts";
import { addReconcile } from "./commands/reconcile.ts";
import { addRetention } from "./commands/retention.ts";
import { addResolve } from "./commands/resolve.ts";
import { addReviews } from "./commands/reviews.ts";
import { addSeed } from "./commands/seed.ts";
import { addSend } from "./commands/send.ts";
import { addShow } from "./commands/show.ts";
import { addWebhooks } from "./commands/webhooks.ts";
import { type Place, SaidNo } from "./commands/place.ts";
import { Trouble } from "./trouble.ts";

const USAGE_EXIT_CODE = 2;

/** In the order of the help. */
const COMMANDS = [
  addSend,
  addShow,
  addReviews,
  addResolve,
  addChannels,
  addPublication,
  addWebhooks,
  addAlerts,
  addReconcile,
  addBooks,
  addApply,
  addExport,
  addRetention,
  addLoad,
  addFloor,
  addMigrate,
  addKeys,
  addSeed,
  addFaults,
];

/** @returns the exit code: 0 done, 1 said no, 2 wrong usage */
export async function waybill(args: readonly string[], place: Place): Promise<number> {
  const program = new Command("waybill")
    .description("Sends SMS through CMPP suppliers; never loses an accepted text and never writes one twice.")
    .exitOverride()
    .configureHelp({ sortSubcommands: false });
  // These two run before anything is built (command-line.mjs); they stand here for the help.
  program.command("up").description("set everything up and start the whole system (as npm start does)");
  program
    .command("doctor")
    .description("show which servers and tools were found, where, and in which version");
  for (const add of COMMANDS) add(program, place);
  for (const command of program.commands) command.exitOverride();

  try {
    await program.parseAsync([...args], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
    if (error instanceof SaidNo) return 1;
    if (!(error instanceof Trouble)) throw error;
    if (args.includes("--json")) console.log(JSON.stringify({ error: error.message }));
    else console.error(error.message);
    return 1;
  }
}
