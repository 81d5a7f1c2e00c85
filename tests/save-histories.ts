/**
 * Saves one history of each shape from real runs into tests/histories. Run by hand, with servers named
 * in the environment, when the workflow gets a new shape (CONTRIBUTING.md); what is stored stays as it is.
 */
import { writeFile } from "node:fs/promises";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { it } from "vitest";
import { attemptIdOf, attemptWorkflowId, type MessageId } from "../domain/ids.ts";
import { statement } from "../db/client.ts";
import { type Chain, startChain } from "./chain.ts";
import { until } from "./servers.ts";

const folder = new URL("histories/", import.meta.url);

it("saves histories", async () => {
  const chain = await startChain({ timeScale: 0.1 });
  const delivered = await chain.send("13099990000");
  const retried = await chain.send("13199990502");
  const expired = await chain.send("13299990004", "hello", { validitySeconds: 5 });
  const refused = await chain.send("14099990000");
  const twice = await chain.send("13499990202", "hello");
  for (const id of [delivered, retried, expired, refused, twice]) await chain.untilFinal(id);
  await save(chain, delivered, 1, "delivered");
  await save(chain, retried, 1, "retried");
  await save(chain, retried, 2, "settled-by-retry");
  await save(chain, expired, 1, "expired");
  await save(chain, refused, 1, "refused");

  const looked = await chain.send("13599990004", "hello", { validitySeconds: 5 });
  await chain.untilStory(looked, "it waits for its segments", (it) => it.status === "sent");
  await chain.temporal.client.workflow
    .getHandle(attemptWorkflowId(attemptIdOf(looked as MessageId, 1)))
    .executeUpdate("look");
  await chain.untilFinal(looked);
  await save(chain, looked, 1, "looked-twice");

  await chain.database.run(
    statement("test.disconnect", `UPDATE connections SET owner = 'nobody', connected = false`),
  );
  const waited = await chain.send("13699990000");
  const waiting = chain.temporal.client.workflow.getHandle(
    attemptWorkflowId(attemptIdOf(waited as MessageId, 1)),
  );
  await until("the route waits for a connection", async () => {
    const { raw } = await waiting.describe().catch(() => ({ raw: { pendingActivities: [] } }));
    return (raw.pendingActivities?.length ?? 0) > 0;
  });
  await chain.database.run(
    statement(
      "test.connect",
      `UPDATE connections SET connected = true, heartbeat_at = now() + interval '1 hour'`,
    ),
  );
  await chain.untilFinal(waited);
  await save(chain, waited, 1, "waited-for-a-connection");
  await save(chain, delivered, 1, "lingered-and-hit");
  await chain.stop();

  const impatient = await startChain({ timeScale: 0.1, lingerMs: 400 });
  // The first message of all warms everything up; its own steps take longer than that.
  await impatient.untilFinal(await impatient.send("13099990000"));
  const missed = await impatient.send("13099990211");
  await impatient.untilFinal(missed);
  await save(impatient, missed, 1, "lingered-and-missed");
  await impatient.stop();
}, 120_000);

async function save(chain: Chain, id: string, number: number, shape: string): Promise<void> {
  const workflowId = attemptWorkflowId(attemptIdOf(id as MessageId, number));
  const handle = chain.temporal.client.workflow.getHandle(workflowId);
  await handle.result();
  const json: unknown = JSON.parse(historyToJSON(await handle.fetchHistory()), (_, value: unknown) =>
    // Process and machine, also in the name of a sticky queue: where it ran is nobody's business.
    typeof value === "string" && /^\d+@\S+$/.test(value) ? "worker" : value,
  );
  await writeFile(new URL(`${shape}.json`, folder), `${JSON.stringify(json, null, 1)}\n`, {
    flag: "wx",
  }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}
