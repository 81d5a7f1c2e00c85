/** Rotating the secret that signs an application's webhooks; both sign while the customer changes over. */
import type { RequestHandler } from "express";
import { z } from "zod";
import type { Database } from "../db/client.ts";
import { newWebhookSecret } from "../db/keys.ts";
import { rotateWebhookSecret } from "../db/webhook-secrets.ts";
import { webhookSecret } from "../domain/submission.ts";
import type { AnswerOf, rotatedSecret } from "./answers.ts";
import { callerOf } from "./authentication.ts";
import { readBody } from "./body.ts";
import { ProblemError } from "./problems.ts";

const DAY_SECONDS = 86_400;

export const secretBody = z.strictObject({
  secret: webhookSecret.optional().describe("One is made and shown once where this is missing"),
  overlapSeconds: z
    .int()
    .min(0)
    .max(7 * DAY_SECONDS)
    .default(DAY_SECONDS)
    .describe("How long the secret before signs too"),
  force: z
    .boolean()
    .default(false)
    .describe("Replace the newest secret although two sign already, as when its answer was lost"),
});

export function rotateSecret(database: Database): RequestHandler {
  return async (request, response) => {
    const { secret = newWebhookSecret(), ...wanted } = readBody(request, secretBody);
    const { applicationId } = callerOf(response);
    const { kind, previousUntil } = await rotateWebhookSecret(database, { applicationId, secret, ...wanted });
    if (kind === "under_way") throw new ProblemError("rotation_under_way");
    const answer: AnswerOf<typeof rotatedSecret> = { secret, previousUntil, changed: kind === "rotated" };
    response.json(answer);
  };
}
