/** `waybill keys`: the data keys of a copy, and new ones to write down. */
import { Argument, type Command } from "commander";
import { newDataKeys, parseDataKeys, withNewDataKey } from "../../db/data-keys.ts";
import { dataKeysOf } from "../data-keys.ts";
import { Trouble } from "../trouble.ts";
import { answer, type Place } from "./place.ts";

const ABOUT = `
new   prints a fresh set for a database that holds nothing yet.
add   prints the set in use with a new data key before the others. To change the key without a stop: give
      every process the set with the new key in the second place, then in the first (docs/data-life.md).
show  prints the ids of the keys in use, the one that seals first; never a key.
The keys in use are those of WAYBILL_DATA_KEYS or WAYBILL_DATA_KEYS_FILE, else data-keys in the state folder.`;

export function addKeys(program: Command, place: Place): void {
  program
    .command("keys")
    .description("make or show the keys under which numbers and texts are stored")
    .addArgument(new Argument("[what]", "what to print").choices(["show", "new", "add"]).default("show"))
    .option("--json", "print one JSON document")
    .addHelpText("after", ABOUT)
    .action((what: "show" | "new" | "add", { json }: { json?: boolean }) => {
      if (what === "show") {
        const ids = keysInUse(place).data.map(({ id }) => id);
        answer(json, { ids }, ids);
        return;
      }
      const written = what === "new" ? newDataKeys() : withNewDataKey(keysInUse(place));
      const { data } = parseDataKeys(written);
      answer(json, { keys: written, ids: data.map(({ id }) => id) }, [written.trimEnd()]);
    });
}

function keysInUse({ home }: Place) {
  try {
    return dataKeysOf(home);
  } catch (error) {
    throw new Trouble(`No data keys can be used: ${(error as Error).message}.`);
  }
}
