/** Waiting until servers answer, and preparing what Waybill needs on them. */
import { createConnection } from "node:net";
import { Connection } from "@temporalio/client";
import { encodeSearchAttributeIndexedValueType } from "@temporalio/common/lib/search-attributes.js";
import { loadClientConnectConfig } from "@temporalio/envconfig";
import { createDatabase } from "../db/migrate.ts";
import { delay } from "../workers/service.ts";
import { Trouble } from "./trouble.ts";

const POLL_MS = 50;
const REVIEW_ATTRIBUTE = "WaybillNeedsReview";
const CALL_TIMEOUT_MS = 5_000;

/**
 * Tries until it works.
 *
 * @param impatience given up when it answers a sentence, which becomes the `Trouble` that is thrown
 */
export async function untilItWorks(
  work: () => Promise<void>,
  signal: AbortSignal,
  impatience: (error: unknown) => string | undefined,
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      const sentence = impatience(error);
      if (sentence !== undefined) throw new Trouble(sentence);
      await delay(POLL_MS, signal);
    }
  }
}

/** PostgreSQL answers and has our database. */
export const preparePostgres = (url: string): Promise<void> => createDatabase(url);

/** Redis answers, has read its file, and knows our password. */
export function askRedis(address: string): Promise<void> {
  const { hostname, port, password, username } = new URL(address);
  const login = password === "" ? "" : `AUTH ${username} ${decodeURIComponent(password)}`.replace("  ", " ");
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: hostname, port: Number(port || 6379), timeout: CALL_TIMEOUT_MS });
    let said = "";
    socket.setEncoding("utf8");
    socket.once("connect", () => socket.write(`${login === "" ? "" : `${login}\r\n`}PING\r\n`));
    socket.on("data", (chunk: string) => {
      said += chunk;
      if (said.includes("+PONG")) socket.end(() => resolve());
      else if (said.includes("-")) socket.destroy(new Error(said.trim()));
    });
    socket.once("timeout", () => socket.destroy(new Error("no answer")));
    socket.once("error", reject);
  });
}

/**
 * Temporal answers for the namespace, and knows our one search attribute: the command line sets it on a new
 * file only, and a cluster of the person's own has never heard of it.
 */
export async function prepareTemporal(environment: Record<string, string>): Promise<void> {
  const { connectionOptions, namespace = "default" } = loadClientConnectConfig({
    overrideEnvVars: environment,
  });
  const { address, tls, apiKey, metadata } = connectionOptions;
  const connection = await Connection.connect({
    connectTimeout: CALL_TIMEOUT_MS,
    ...(address === undefined ? {} : { address }),
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata === undefined ? {} : { metadata }),
  });
  try {
    await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      addReviewAttribute(connection, namespace),
    );
  } finally {
    await connection.close();
  }
}

async function addReviewAttribute(connection: Connection, namespace: string): Promise<void> {
  await connection.workflowService.describeNamespace({ namespace });
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  if (customAttributes?.[REVIEW_ATTRIBUTE] !== undefined) return;
  const keyword = encodeSearchAttributeIndexedValueType("KEYWORD");
  if (keyword === undefined) throw new Error("this Temporal SDK knows no keyword attributes");
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: { [REVIEW_ATTRIBUTE]: keyword },
  });
}

/** For an address that a person gave: how it may be named without its password. */
export function withoutPassword(address: string): string {
  const host = /^(?:\w+:\/\/)?(?:[^@/]*@)?([^/?]+)/.exec(address)?.[1];
  return host ?? "the given address";
}
