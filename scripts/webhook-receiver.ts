/** A customer's webhook endpoint on loopback that takes only what is signed with the demo's secret. */
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { z } from "zod";

export interface WebhookReceiver {
  readonly url: string;
  /** Ids of the messages whose notification came with a valid signature. */
  readonly verified: ReadonlySet<string>;
  /** How many came whose signature did not hold. */
  refusedCount(): number;
  close(): void;
}

export interface VerifiedWebhook {
  /** The same at each try of one notification (E1). */
  id: string;
  type: string;
  messageId: string;
}

const notification = z.object({ type: z.string(), data: z.object({ id: z.string() }) });

export async function receiveWebhooks(
  secret: string,
  onVerified: (webhook: VerifiedWebhook) => void = () => undefined,
): Promise<WebhookReceiver> {
  const webhook = new Webhook(secret);
  const verified = new Set<string>();
  let refused = 0;

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    try {
      const told = webhook.verify(body, request.headers as Record<string, string>);
      const { type, data } = notification.parse(told);
      verified.add(data.id);
      onVerified({ id: String(request.headers["webhook-id"]), type, messageId: data.id });
      response.writeHead(204).end();
    } catch {
      refused++; // A signature that does not hold: the sender has to hear it, and the demo tells.
      response.writeHead(401).end();
    }
  }

  const server = createServer((request, response) => void receive(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/notifications`,
    verified,
    refusedCount: () => refused,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
