/** `waybill resolve`: a person's word about an attempt in review, handed to its workflow (D12). */
import { Argument, type Command } from "commander";
import { RESOLUTION_ACTIONS } from "../../domain/steps.ts";
import { askOps } from "./ops-api.ts";
import { answer, type Place, runningCopy, SaidNo } from "./place.ts";

interface Resolved {
  attemptId: string;
  effect: string;
}

export function addResolve(program: Command, place: Place): void {
  program
    .command("resolve")
    .description("say what shall become of an attempt in review; exit code 1 where that had no effect")
    .argument("<attempt id>", "as waybill reviews lists it")
    .addArgument(new Argument("<action>", "what to do").choices([...RESOLUTION_ACTIONS]))
    .option("--note <why>", "kept in the audit trail")
    .option("--json", "print one JSON document")
    .action(async (id: string, action: string, { note, json }: { note?: string; json?: boolean }) => {
      const path = `reviews/${encodeURIComponent(id)}/resolve`;
      const document = await askOps<Resolved>(runningCopy(place), "POST", path, { action, note });
      answer(json, document, [`${document.attemptId}: ${document.effect}`]);
      if (document.effect.startsWith("none:")) throw new SaidNo();
    });
}
