/** The customer's webhook endpoint: writes down all that comes, and now and then says no at first. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Told } from "./judges/evidence.ts";

export interface Customer {
  readonly url: string;
  readonly told: readonly Told[];
  /** When the first call about a message was taken, epoch milliseconds. */
  heardAt(messageId: string): number | undefined;
  close(): void;
}

/** Standard Webhooks: the part behind `whsec_` is the key in base64. */
const keyOf = (secret: string): Buffer => Buffer.from(secret.replace(/^whsec_/, ""), "base64");

/** One in so many notifications is refused the first time. */
const ONE_IN = 25;

export async function openCustomer(secret: string): Promise<Customer> {
  const told: Told[] = [];
  const refused = new Set<string>();
  const heard = new Map<string, number>();
  const server = createServer((request, response) => {
    bodyOf(request).then(
      (body) => {
        const webhookId = headerOf(request, "webhook-id");
        const isFirst = !refused.has(webhookId);
        const answered = isFirst && isOneIn(webhookId) ? 500 : 204;
        if (answered === 500) refused.add(webhookId);
        const signatureHolds = isSigned(request, body, keyOf(secret));
        told.push({ webhookId, signatureHolds, body, answered });
        response.writeHead(answered).end();
        const id = /"id":"(msg_\w+)"/.exec(body)?.[1];
        if (answered === 204 && id !== undefined && !heard.has(id)) heard.set(id, Date.now());
      },
      () => response.destroy(), // The caller was killed in the middle of its call.
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/told`,
    told,
    heardAt: (messageId) => heard.get(messageId),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function isOneIn(id: string): boolean {
  return (createHash("sha256").update(id).digest()[0] ?? 0) % ONE_IN === 0;
}

function isSigned(request: IncomingMessage, body: string, key: Buffer): boolean {
  const signed = `${headerOf(request, "webhook-id")}.${headerOf(request, "webhook-timestamp")}.${body}`;
  const expected = createHmac("sha256", key).update(signed).digest();
  return headerOf(request, "webhook-signature")
    .split(" ")
    .some((it) => {
      const given = Buffer.from(it.replace(/^v1,/, ""), "base64");
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
}

const headerOf = ({ headers }: IncomingMessage, name: string): string => {
  const value = headers[name];
  return typeof value === "string" ? value : "";
};

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
