/** What a message costs in Temporal's history: read from the histories of some of them. */
import { Client, Connection } from "@temporalio/client";
import { rounded } from "./latency.ts";

export interface HistoryCost {
  events: number;
  workflowTasks: number;
}

const SAMPLES = 40;
/** EVENT_TYPE_WORKFLOW_TASK_COMPLETED of temporal.api.enums.v1.EventType. */
const WORKFLOW_TASK_COMPLETED = 7;

/** Means over evenly spread attempts. */
export async function historyCost(address: string, workflowIds: readonly string[]): Promise<HistoryCost> {
  const connection = await Connection.connect({ address });
  try {
    const { workflow } = new Client({ connection });
    const step = Math.max(1, Math.floor(workflowIds.length / SAMPLES));
    const chosen = workflowIds.filter((_, index) => index % step === 0).slice(0, SAMPLES);
    let events = 0;
    let tasks = 0;
    for (const id of chosen) {
      const history = (await workflow.getHandle(id).fetchHistory()).events ?? [];
      events += history.length;
      tasks += history.filter(({ eventType }) => Number(eventType) === WORKFLOW_TASK_COMPLETED).length;
    }
    const perMessage = (sum: number): number => rounded(sum / Math.max(1, chosen.length));
    return { events: perMessage(events), workflowTasks: perMessage(tasks) };
  } finally {
    await connection.close();
  }
}
