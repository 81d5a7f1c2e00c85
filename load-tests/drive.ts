/** The generator as the run sees it: started once, given one tier's messages at a time, asked what came. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { FromGenerator, Progress, SendOrder, Sent, ToGenerator } from "./generator-protocol.ts";

export interface Generator {
  readonly pid: number;
  readonly webhookUrl: string;
  progress(): Progress;
  /** Resolves when every order has been answered or given up; answers when the window began. */
  send(api: string, orders: readonly SendOrder[], inFlight: number | null): Promise<number>;
  collect(): Promise<{ sent: Sent[]; strayWebhooks: number; refusedWebhooks: number }>;
  stop(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL("./generator.js", import.meta.url));
const NOTHING: Progress = { submitted: 0, answered: 0, accepted: 0, told: 0 };

/** Runs on the Node that roles run on. */
export async function startGenerator(webhookSecret: string): Promise<Generator> {
  const child = fork(PROGRAM, [], {
    execPath: process.env["WAYBILL_NODE"] ?? process.execPath,
    env: { ...process.env, WAYBILL_WEBHOOK_SECRET: webhookSecret },
    serialization: "advanced",
  });
  let progress = NOTHING;
  child.on("message", (said: FromGenerator) => {
    if (said.kind === "progress") progress = said;
  });
  const { webhookUrl } = await answerOf(child, "ready");
  const say = (what: ToGenerator): void => void child.send(what);
  return {
    pid: child.pid ?? 0,
    webhookUrl,
    progress: () => progress,
    async send(api, orders, inFlight) {
      progress = NOTHING;
      const answered = answerOf(child, "answered");
      say({ kind: "send", api, orders: [...orders], inFlight });
      return (await answered).beganAt;
    },
    collect() {
      const sent = answerOf(child, "sent");
      say({ kind: "collect" });
      return sent;
    },
    async stop() {
      if (child.exitCode !== null) return;
      const gone = once(child, "exit");
      say({ kind: "end" });
      await gone;
    },
  };
}

/** Its next word of that kind; throws when it ends instead. */
function answerOf<Kind extends FromGenerator["kind"]>(
  child: ChildProcess,
  kind: Kind,
): Promise<Extract<FromGenerator, { kind: Kind }>> {
  return new Promise((resolve, reject) => {
    const hear = (said: FromGenerator): void => {
      if (said.kind !== kind) return;
      child.off("message", hear);
      child.off("exit", gone);
      resolve(said as Extract<FromGenerator, { kind: Kind }>);
    };
    const gone = (): void => reject(new Error("the generator ended by itself"));
    child.on("message", hear);
    child.once("exit", gone);
  });
}
