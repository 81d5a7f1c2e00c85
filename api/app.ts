/** The HTTP application: which address does what, and what every request passes on its way. */
import express, { type Express, type RequestHandler } from "express";
import { showAccount, showLedger } from "./account.ts";
import { authentication, submissionRate } from "./authentication.ts";
import { showBatch, submitBatch } from "./batches.ts";
import { jsonBody, optionalJsonBody } from "./body.ts";
import { showLiveness, showReadiness } from "./health.ts";
import { listInboundTexts } from "./inbound.ts";
import { cancelMessageOf, findMessages, showMessage, submitMessage, type WebhookCheck } from "./messages.ts";
import { openApiDocument } from "./openapi.ts";
import { opsRouter, type OpsDependencies } from "./ops/router.ts";
import { pages, pageSecurity } from "./pages.ts";
import { notFound, onlyMethods, problemEdge } from "./problems.ts";
import { rotateSecret } from "./webhook-secret.ts";
import { listWebhooks, replayWebhook, replayWebhooks } from "./webhooks.ts";

export interface AppDependencies extends OpsDependencies {
  /** Of this release, for the document. */
  version: string;
  /** run.json of the supervisor, where one runs. */
  runFile: string | undefined;
  mayCallWebhook: WebhookCheck;
}

export function createApp(dependencies: AppDependencies): Express {
  const { database, log, version, runFile, mayCallWebhook } = dependencies;
  const app = express();
  app.disable("etag");
  app.use(pageSecurity);

  app.route("/livez").get(showLiveness).all(onlyMethods("GET", "HEAD"));
  app.route("/readyz").get(showReadiness(database, runFile)).all(onlyMethods("GET", "HEAD"));
  app.use(pages(openApiDocument(version)));

  const rate = submissionRate();
  const known = [noStore, authentication(database)];
  const submits = [...known, rate.admit, ...jsonBody];
  app
    .route("/v1/messages")
    .post(...submits, submitMessage(database, mayCallWebhook))
    .get(...known, findMessages(database))
    .all(onlyMethods("GET", "HEAD", "POST"));
  app
    .route("/v1/messages/:id")
    .get(...known, showMessage(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/messages/:id/cancel")
    .post(...known, cancelMessageOf(database))
    .all(onlyMethods("POST"));
  app
    .route("/v1/batches")
    .post(...submits, submitBatch(database, rate, mayCallWebhook))
    .all(onlyMethods("POST"));
  app
    .route("/v1/batches/:id")
    .get(...known, showBatch(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/account")
    .get(...known, showAccount(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/ledger")
    .get(...known, showLedger(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/inbound")
    .get(...known, listInboundTexts(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/webhooks")
    .get(...known, listWebhooks(database))
    .all(onlyMethods("GET", "HEAD"));
  app
    .route("/v1/webhooks/replay")
    .post(...known, ...jsonBody, replayWebhooks(database))
    .all(onlyMethods("POST"));
  app
    .route("/v1/webhooks/secret")
    .put(...known, ...optionalJsonBody, rotateSecret(database))
    .all(onlyMethods("PUT"));
  app
    .route("/v1/webhooks/:id/replay")
    .post(...known, replayWebhook(database))
    .all(onlyMethods("POST"));

  app.use(opsRouter(dependencies, noStore));

  app.use(notFound);
  app.use(problemEdge(log));
  return app;
}

/** Numbers and texts must not stay in anything between us and the customer. */
const noStore: RequestHandler = (_request, response, next) => {
  response.set("cache-control", "no-store");
  next();
};
