/** What the floor's worker, a process of its own, and whoever measures tell each other. */
export type ToFloorWorker =
  | { kind: "start"; attemptId: string }
  /** Its decision is due, and it may still linger in its first workflow task. */
  | { kind: "call"; attemptId: string }
  | { kind: "end" };

export type FromFloorWorker =
  | { kind: "ready" }
  /** The command is out: its decision comes after the supplier's usual time. */
  | { kind: "published"; attemptId: string }
  | { kind: "settled"; attemptId: string };
