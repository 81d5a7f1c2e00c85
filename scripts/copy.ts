/** One copy of Waybill as `bring-up.mjs` hands it over: prepared, and nothing running yet. */
import type { Recipe } from "./children.ts";

/** One line a step; on a terminal the step that runs is shown. */
export interface Steps {
  /** What `work` answers is shown behind the label, and what it shows meanwhile where somebody watches. */
  step(
    label: string,
    work: (show: (detail: string) => void) => Promise<string | void>,
  ): Promise<string | void>;
  line(text?: string): void;
  /** Colours text with an SGR code where the output is a terminal. */
  paint(code: number, text: string): string;
}

export interface ServerAddresses {
  databaseUrl: string;
  redisUrl: string;
  temporalAddress: string;
}

/** What `services.mjs` found out about the three servers. */
export interface Servers extends ServerAddresses {
  /** Those that are ours; the others are the person's own. */
  recipes: readonly (Recipe & { port: number })[];
  /** The rest is there only where Temporal is ours. */
  temporalUi?: string;
  temporalConfigFile?: string;
}

export interface Copy {
  /** The checkout. */
  root: string;
  /** Its state folder. */
  home: string;
  steps: Steps;
  servers: Servers;
  choosePort: (what: string, usual: number) => Promise<number>;
  /** Notes which processes would be left over if all were killed now. */
  remember: (children: readonly { name: string; pid: number; signal: string }[]) => void;
}
