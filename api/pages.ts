/** What people read in a browser: the console and the API's documentation. All of it local files. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import express, { type RequestHandler, type Router } from "express";
import helmet from "helmet";
import { notFound, onlyMethods } from "./problems.ts";

/**
 * Scripts and styles come from this server's own files and nothing runs inline. No upgrade to https:
 * TLS ends in front of this process, or nowhere on loopback.
 */
export const pageSecurity: RequestHandler = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", "data:"],
      connectSrc: ["'self'"],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
});

/** `/openapi.json`, `/docs` and `/console`. */
export function pages(document: object): Router {
  const router = express.Router();
  router
    .route("/openapi.json")
    .get(send("application/json", JSON.stringify(document, null, 2)))
    .all(onlyMethods("GET", "HEAD"));
  router.route("/docs").get(send("text/html", DOCS_PAGE)).all(onlyMethods("GET", "HEAD"));
  router.route("/docs/start.js").get(send("text/javascript", DOCS_START)).all(onlyMethods("GET", "HEAD"));
  for (const file of ["swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"]) {
    router.get(`/docs/${file}`, (_request, response) => response.sendFile(join(swaggerFolder, file)));
  }
  router.use("/console", express.static(consoleFolder, { redirect: false }));
  router.get("/console", (_request, response) => response.sendFile(join(consoleFolder, "index.html")));
  router.use(["/console", "/docs"], notFound);
  return router;
}

const send =
  (type: string, content: string): RequestHandler =>
  (_request, response) => {
    response.type(type).send(content);
  };

const require = createRequire(import.meta.url);
const swaggerFolder = dirname(require.resolve("swagger-ui-dist/package.json"));

/** Beside package.json, whether this runs from the sources or from dist/. */
const consoleFolder = join(checkoutFolder(import.meta.dirname), "console");

function checkoutFolder(folder: string): string {
  return existsSync(join(folder, "package.json")) ? folder : checkoutFolder(dirname(folder));
}

const DOCS_PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Waybill API</title>
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="/docs/favicon-32x32.png" />
    <link rel="stylesheet" href="/docs/swagger-ui.css" />
  </head>
  <body>
    <div id="docs"></div>
    <script src="/docs/swagger-ui-bundle.js"></script>
    <script src="/docs/start.js"></script>
  </body>
</html>
`;

/** validatorUrl: null, or the page would ask a server of Swagger's. */
const DOCS_START = `SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", validatorUrl: null });
`;
