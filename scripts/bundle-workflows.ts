/** Bundles the workflows once at build time: workers start fast, and a forbidden import fails here. */
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode } from "@temporalio/worker";

const { code } = await bundleWorkflowCode({
  workflowsPath: fileURLToPath(new URL("../workflows/index.js", import.meta.url)),
});
await writeFile(new URL("../workflow-bundle.js", import.meta.url), code);
