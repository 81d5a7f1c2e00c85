/** Starts the servers that are ours and waits until all that are wanted answer, ours or not. */
import { readFileSync } from "node:fs";
import { sqlState } from "../db/client.ts";
import { errorName } from "../workers/service.ts";
import type { Children } from "./children.ts";
import { askRedis, preparePostgres, prepareTemporal, untilItWorks, withoutPassword } from "./readiness.ts";
import type { Servers, Steps } from "./copy.ts";
import { Trouble } from "./trouble.ts";

export const SERVERS = ["postgres", "redis", "temporal"] as const;
type Server = (typeof SERVERS)[number];

const OURS_READY_MS = 60_000;
const THEIRS_READY_MS = 10_000;
const MAX_DEATHS = 6;
const WRONG_PASSWORD = new Set(["28P01", "28000"]);

export async function startServers(
  children: Children,
  servers: Servers,
  steps: Steps,
  signal: AbortSignal,
  names: readonly Server[] = SERVERS,
): Promise<void> {
  const wanted: readonly string[] = names;
  for (const recipe of servers.recipes) if (wanted.includes(recipe.name)) children.add(recipe);
  const ask: Record<Server, () => Promise<void>> = {
    postgres: () => preparePostgres(servers.databaseUrl),
    redis: () => askRedis(servers.redisUrl),
    temporal: () => prepareTemporal(temporalEnvironment(servers)),
  };
  const address: Record<Server, string> = {
    postgres: servers.databaseUrl,
    redis: servers.redisUrl,
    temporal: servers.temporalAddress,
  };
  const results = await Promise.allSettled(
    names.map((name) => ready(name, ask[name], address[name], children, servers, steps, signal)),
  );
  const reasons = results.flatMap((result): unknown[] =>
    result.status === "rejected" ? [result.reason] : [],
  );
  const unexpected = reasons.find((reason) => !(reason instanceof Trouble));
  if (unexpected !== undefined) throw unexpected;
  if (reasons.length > 0) throw new Trouble(reasons.map((reason) => (reason as Trouble).message).join("\n"));
}

/** What Temporal's clients are told: our own server's address alone, or all that the person set for theirs. */
export function temporalEnvironment({
  temporalAddress,
  temporalConfigFile,
}: Servers): Record<string, string> {
  if (temporalConfigFile !== undefined) {
    return { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_CONFIG_FILE: temporalConfigFile };
  }
  const set = Object.entries(process.env).filter(([name]) => name.startsWith("TEMPORAL_"));
  return Object.fromEntries(set.map(([name, value]) => [name, value ?? ""]));
}

async function ready(
  name: Server,
  ask: () => Promise<void>,
  address: string,
  children: Children,
  servers: Servers,
  steps: Steps,
  signal: AbortSignal,
): Promise<void> {
  const recipe = servers.recipes.find((candidate) => candidate.name === name);
  const deadline = Date.now() + (recipe === undefined ? THEIRS_READY_MS : OURS_READY_MS);
  const isOver = (): boolean => Date.now() > deadline || children.deathsInARow(name) >= MAX_DEATHS;
  const title = recipe?.title ?? `your ${TITLES[name]}`;
  await steps.step(title, async () => {
    await untilItWorks(ask, signal, (error) => {
      if (!isOver() && !WRONG_PASSWORD.has(sqlState(error) ?? "")) return undefined;
      return recipe === undefined
        ? `No ${TITLES[name]} that Waybill can use answers at ${withoutPassword(address)} (${errorName(error)}): start it or correct ${VARIABLES[name]}; without that variable Waybill starts one of its own.`
        : `${title} does not come up (${errorName(error)}). Its log ends with:\n${endOf(children.logOf(name))}`;
    });
    return recipe === undefined ? withoutPassword(address) : `127.0.0.1:${recipe.port}`;
  });
}

const TITLES: Record<Server, string> = { postgres: "PostgreSQL", redis: "Redis", temporal: "Temporal" };
const VARIABLES: Record<Server, string> = {
  postgres: "DATABASE_URL",
  redis: "REDIS_URL",
  temporal: "TEMPORAL_ADDRESS",
};

/** The last lines of a log, for a person who has to find out why something does not start. */
export function endOf(log: string, lines = 12): string {
  return `${readFileSync(log, "utf8").trimEnd().split("\n").slice(-lines).join("\n")}\n(all of it: ${log})`;
}
