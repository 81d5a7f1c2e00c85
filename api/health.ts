/**
 * Whether the whole of it works, not only this process: every role that run.json names answers that it
 * is ready, and every active supplier has a live connection (interfaces §1).
 */
import { readFile } from "node:fs/promises";
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Session } from "../db/client.ts";
import { supplierStates } from "../db/queries.ts";
import { errorName } from "../workers/service.ts";
import type { AnswerOf, readiness } from "./answers.ts";

type Readiness = AnswerOf<typeof readiness>;
type Part = Readiness["database"];

/** A role that takes longer than that to say so is not ready. */
const ROLE_TIMEOUT_MS = 1_500;

export const showLiveness: RequestHandler = (_request, response) => {
  response.json({ live: true });
};

/** `runFile`: where the supervisor writes what runs; without one, nothing is known of other roles. */
export function showReadiness(session: Session, runFile: string | undefined): RequestHandler {
  return async (_request, response) => {
    const [roles, data] = await Promise.all([rolesOf(runFile), dataOf(session)]);
    const parts = [data.database, ...Object.values(data.suppliers), ...Object.values(roles)];
    const ready = parts.every((part) => part.ready);
    const answer: Readiness = { ready, ...data, roles };
    response.status(ready ? 200 : 503).json(answer);
  };
}

async function dataOf(session: Session): Promise<Pick<Readiness, "database" | "suppliers">> {
  try {
    const states = await supplierStates(session);
    const suppliers = states.map(({ name, live }): [string, Part] => [
      name,
      live > 0 ? { ready: true } : { ready: false, detail: "not connected" },
    ]);
    return { database: { ready: true }, suppliers: Object.fromEntries(suppliers) };
  } catch (error) {
    return { database: { ready: false, detail: errorName(error) }, suppliers: {} };
  }
}

/** The slice of run.json that is read here. */
const runFileContent = z.object({ metrics: z.record(z.string(), z.url()) });

/** Without these no message gets through. */
const NEEDED_ROLES = ["attempts", "results", "notifier", "sweeper", "gateway"];

async function rolesOf(runFile: string | undefined): Promise<Record<string, Part>> {
  if (runFile === undefined) return {};
  let urls: Record<string, string>;
  try {
    urls = runFileContent.parse(JSON.parse(await readFile(runFile, "utf8"))).metrics;
  } catch (error) {
    return { supervisor: { ready: false, detail: `run file: ${errorName(error)}` } };
  }
  const missing = NEEDED_ROLES.filter((role) => urls[role] === undefined);
  const others = Object.entries(urls).filter(([role]) => role !== "api");
  const states = await Promise.all(
    others.map(async ([role, url]): Promise<[string, Part]> => [role, await askRole(url)]),
  );
  return Object.fromEntries([
    ...states,
    ...missing.map((role): [string, Part] => [role, { ready: false, detail: "not started" }]),
  ]);
}

async function askRole(metricsUrl: string): Promise<Part> {
  try {
    const signal = AbortSignal.timeout(ROLE_TIMEOUT_MS);
    const answer = await fetch(new URL("/livez", metricsUrl), { signal, redirect: "error" });
    await answer.body?.cancel();
    return answer.ok ? { ready: true } : { ready: false, detail: `answers ${answer.status}` };
  } catch (error) {
    return {
      ready: false,
      detail: error instanceof Error && error.name === "TimeoutError" ? "no answer" : "not running",
    };
  }
}
