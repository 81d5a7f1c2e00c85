/** Calling a running Waybill with the tokens of its run file. */
import { readFile } from "node:fs/promises";

export interface RunFile {
  api: string;
  apiKey: string;
  opsToken: string;
  suppliers: { name: string; logUrl: string }[];
}

export const readRunFile = async (path: string): Promise<RunFile> =>
  JSON.parse(await readFile(path, "utf8")) as RunFile;

export type Call = <Answer>(method: string, path: string, body?: object) => Promise<Answer>;

const AGAIN_MS = 500;

/**
 * Throws what the API answers beyond 2xx, but waits where it asks to (429), and while its application is
 * switched off (401).
 */
export const caller =
  (run: RunFile): Call =>
  async <Answer>(method: string, path: string, body?: object): Promise<Answer> => {
    const token = path.startsWith("/ops/") ? run.opsToken : run.apiKey;
    for (;;) {
      const response = await fetch(run.api + path, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (response.ok) return JSON.parse(text) as Answer;
      if (response.status !== 429 && response.status !== 401) {
        throw new Refused(response.status, `${method} ${path}: ${response.status} ${text}`);
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  };

export class Refused extends Error {
  readonly status: number;
  constructor(status: number, what: string) {
    super(what);
    this.status = status;
  }
}
