/** `waybill floor`: what Temporal alone costs on this machine. */
import { type Command, Option } from "commander";
import { type FloorFigures, type FloorResult, measureFloor } from "../../load-tests/floor.ts";
import { nodeOfRoles } from "../../load-tests/run.ts";
import { inOwnSystem } from "../own-system.ts";
import type { Place } from "./place.ts";

const ABOUT = `
Attempt workflows whose steps do nothing are started and told as the chain does it, 200 at a time, on a
Temporal server of its own; docs/load.md says how to read the figures.`;

export const PROFILES = ["standard", "throughput"] as const;
export type Profile = (typeof PROFILES)[number];

export function addFloor(program: Command, place: Place): void {
  program
    .command("floor")
    .description("measure what Temporal alone costs for an attempt")
    .addOption(new Option("--profile <name>", "of the worker").choices(PROFILES).default("throughput"))
    .option("--json", "print one JSON document")
    .addHelpText("after", ABOUT)
    .action(async ({ profile, json }: { profile: Profile; json?: boolean }) => {
      const shape = { suppliers: 0, roles: [], roleEnvironment: {}, simulator: {} };
      const floor = await inOwnSystem(place.prepareOwn, "floor", shape, ({ run }, { home }, signal) =>
        measureFloor(run, home, profile, signal),
      );
      const conditions = { node: nodeOfRoles(), profile };
      console.log(
        json === true ? JSON.stringify({ ...floor, ...conditions }) : sentencesOf(floor, conditions),
      );
    });
}

const sentencesOf = (floor: FloorResult, { node, profile }: { node: string; profile: Profile }): string =>
  [
    `Bare attempts on Node ${node}, profile ${profile}:`,
    `  told by the update: ${sentenceOf(floor)}`,
    `  lingering:          ${sentenceOf(floor.lingering)}`,
  ].join("\n");

const sentenceOf = (it: FloorFigures): string =>
  `${it.perSecond} a second, ${it.workerCpuMs} CPU-ms in the worker and ${it.serverCpuMs} in the server, ${it.events} events and ${it.workflowTasks} workflow tasks each`;
