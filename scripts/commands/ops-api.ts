/** The operators' HTTP API as the command line uses it, with the token that run.json holds. */
import { call } from "../http-call.ts";
import type { RunFile } from "../run-file.ts";

export const askOps = <Answer>(run: RunFile, method: string, path: string, body?: object): Promise<Answer> =>
  call(`${run.api}/ops/v1/${path}`, run.opsToken, method, body);

/** What the application of run.json may ask: its own webhooks. */
export const askAsCustomer = <Answer>(
  run: RunFile,
  method: string,
  path: string,
  body?: object,
): Promise<Answer> => call(`${run.api}/v1/${path}`, run.apiKey, method, body);
