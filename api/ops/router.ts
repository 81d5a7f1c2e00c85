/** `/ops/v1`: which address shows or changes what. */
import express, { type RequestHandler, type Router } from "express";
import type { Database } from "../../db/client.ts";
import type { Log } from "../../workers/service.ts";
import { optionalJsonBody } from "../body.ts";
import { onlyMethods, ProblemError } from "../problems.ts";
import { access } from "./access.ts";
import {
  clearOneAlert,
  resolveOneReview,
  showAlerts,
  showAudit,
  showReviews,
  type ResolveReview,
} from "./attention.ts";
import { editChannel, showChannels } from "./channels.ts";
import { findMessagesAnywhere, showAnomalies, showUnmatched } from "./facts.ts";
import { assignOneInbound, showInbound } from "./inbound.ts";
import { showBooks, topUpAccount } from "./money.ts";
import { showOverview } from "./overview.ts";
import { reconcile, type OpenSurvey } from "./reconcile.ts";
import { editApplication, editFiling, editPublication, showPublication } from "./switches.ts";

export interface OpsDependencies {
  database: Database;
  log: Log;
  /** Without it there is no reconcile. */
  openSurvey?: OpenSurvey | undefined;
  /** Without it reviews can only be looked at. */
  resolveReview?: ResolveReview | undefined;
}

/** `first` comes before everything that is answered here. */
export function opsRouter(
  { database, log, openSurvey, resolveReview }: OpsDependencies,
  first: RequestHandler,
): Router {
  const router = express.Router();
  const known = [first, access(database)];
  const changes = [...known, ...optionalJsonBody];
  // What no id looks like is nothing that exists; PostgreSQL could not even be asked about some of it.
  router.param("id", (_request, _response, next, id: string) => {
    if (!/^[\x21-\x7e]{1,64}$/.test(id)) throw new ProblemError("not_found");
    next();
  });

  const shows: Record<string, RequestHandler> = {
    "/ops/v1/overview": showOverview(database),
    "/ops/v1/books": showBooks(database),
    "/ops/v1/channels": showChannels(database),
    "/ops/v1/reconcile": reconcile(database, openSurvey, log),
    "/ops/v1/alerts": showAlerts(database),
    "/ops/v1/reviews": showReviews(database),
    "/ops/v1/anomalies": showAnomalies(database),
    "/ops/v1/unmatched": showUnmatched(database),
    "/ops/v1/inbound": showInbound(database),
    "/ops/v1/messages": findMessagesAnywhere(database),
    "/ops/v1/audit": showAudit(database),
  };
  for (const [path, show] of Object.entries(shows)) {
    router
      .route(path)
      .get(...known, show)
      .all(onlyMethods("GET", "HEAD"));
  }
  router
    .route("/ops/v1/publication")
    .get(...known, showPublication(database))
    .put(...changes, editPublication(database))
    .all(onlyMethods("GET", "HEAD", "PUT"));
  router
    .route("/ops/v1/channels/:id")
    .patch(...changes, editChannel(database))
    .all(onlyMethods("PATCH"));
  router
    .route("/ops/v1/applications/:id")
    .patch(...changes, editApplication(database))
    .all(onlyMethods("PATCH"));
  router
    .route("/ops/v1/filings/:id")
    .patch(...changes, editFiling(database))
    .all(onlyMethods("PATCH"));
  router
    .route("/ops/v1/accounts/:id/top-up")
    .post(...changes, topUpAccount(database))
    .all(onlyMethods("POST"));
  router
    .route("/ops/v1/inbound/:id/assign")
    .post(...changes, assignOneInbound(database))
    .all(onlyMethods("POST"));
  router
    .route("/ops/v1/alerts/:id/clear")
    .post(...changes, clearOneAlert(database))
    .all(onlyMethods("POST"));
  router
    .route("/ops/v1/reviews/:id/resolve")
    .post(...changes, resolveOneReview(resolveReview))
    .all(onlyMethods("POST"));
  return router;
}
