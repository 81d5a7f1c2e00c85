/**
 * The witness log of one simulated supplier over HTTP (interfaces §6): what was submitted, what was sent,
 * counts, faults to order, and texts from recipients.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import { deviations } from "./simulator-deviations.ts";
import { inboundRequest } from "./simulator-inbound.ts";
import type { SimulatedSupplier } from "./simulator-supplier.ts";

const faultsBody = z.strictObject({
  cut: z.boolean().optional(),
  blackhole: z.boolean().optional(),
  refuseLogin: z.union([z.boolean(), z.int().min(1).max(255)]).optional(),
  delayMs: z.int().min(0).max(600_000).optional(),
  rate: z.int().min(1).max(1_000_000).nullable().optional(),
});

const MAX_BODY_BYTES = 4096;

export class LogServer {
  readonly #supplier: SimulatedSupplier;
  readonly #server: Server;

  constructor(supplier: SimulatedSupplier) {
    this.#supplier = supplier;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  /** Answers the base of its addresses. */
  async listen(host: string, port: number): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, resolve);
    });
    return `http://${host}:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://simulator");
    const to = url.searchParams.get("to");
    switch (`${request.method} ${url.pathname}`) {
      case "GET /submits":
        return sendRecords(response, this.#supplier.witness.submits(to));
      case "GET /receipts":
        return sendRecords(response, this.#supplier.witness.receipts(to));
      case "GET /stats":
        return sendJson(response, 200, this.#supplier.stats());
      case "POST /faults":
        return this.#disturb(request, response);
      case "PUT /deviations":
        return this.#deviate(request, response);
      case "POST /inbound":
        return this.#receive(request, response);
      default:
        return sendJson(response, 404, { code: "not_found" });
    }
  }

  async #disturb(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const faults = faultsBody.safeParse(await readJson(request));
    if (!faults.success) return sendJson(response, 400, { code: "bad_faults" });
    const given = Object.entries(faults.data).filter(([, value]) => value !== undefined);
    this.#supplier.disturb(Object.fromEntries(given));
    return sendJson(response, 200, this.#supplier.stats().faults);
  }

  /** All of them: what is not named is off. */
  async #deviate(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const wanted = deviations.safeParse(await readJson(request));
    if (!wanted.success) return sendJson(response, 400, { code: "bad_deviations" });
    this.#supplier.deviate(wanted.data);
    return sendJson(response, 200, this.#supplier.stats().deviations);
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const wanted = inboundRequest.safeParse(await readJson(request));
    if (!wanted.success) return sendJson(response, 400, { code: "bad_inbound" });
    return sendJson(response, 202, { msgIds: this.#supplier.receive(wanted.data) });
  }
}

/** One JSON array, written as it is read: a run's log may be larger than memory. */
async function sendRecords(response: ServerResponse, records: Iterable<string>): Promise<void> {
  response.writeHead(200, { "content-type": "application/json" });
  await pipeline(Readable.from(jsonArray(records)), response);
}

const CHUNK_CHARACTERS = 1 << 16;

function* jsonArray(records: Iterable<string>): Generator<string> {
  let chunk = "[";
  let first = true;
  for (const record of records) {
    chunk += first ? record : `,${record}`;
    first = false;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield chunk;
    chunk = "";
  }
  yield `${chunk}]`;
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** Undefined for what is too long or no JSON. */
async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request) {
    text += String(chunk);
    if (text.length > MAX_BODY_BYTES) return undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
