/** The API as a service: listens, and stops without cutting off who is being answered. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Service } from "../workers/service.ts";
import { createApp, type AppDependencies } from "./app.ts";

export interface ApiOptions extends AppDependencies {
  host: string;
  /** 0 takes any free one. */
  port: number;
}

export interface ApiService extends Service {
  /** Where it listens; known once it has started. */
  url(): string;
}

/** Slow senders may not keep a connection busy for ever. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** What is still under way this long after a stop is cut off. */
const DRAIN_MS = 5_000;

/** `start` rejects where the port cannot be had, with Node's own code (EADDRINUSE). */
export function createApiService({ host, port, ...dependencies }: ApiOptions): ApiService {
  let server: Server | undefined;

  function url(): string {
    const address = server?.address() as AddressInfo | null | undefined;
    if (address === null || address === undefined) throw new Error("the API does not listen");
    return `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`;
  }

  return {
    name: "api",
    url,
    async start() {
      if (server !== undefined) return;
      const starting = createServer(
        { headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: 30_000 },
        createApp(dependencies),
      );
      await new Promise<void>((resolve, reject) => {
        starting.once("error", reject);
        starting.listen(port, host, () => {
          starting.off("error", reject);
          resolve();
        });
      });
      server = starting;
      dependencies.log.info({ url: url() }, "API listens");
    },
    async stop() {
      if (server === undefined) return;
      const stopping = server;
      server = undefined;
      const late = setTimeout(() => stopping.closeAllConnections(), DRAIN_MS);
      await new Promise<void>((resolve) => stopping.close(() => resolve()));
      clearTimeout(late);
    },
  };
}
