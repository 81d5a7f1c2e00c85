/**
 * The command that travels from the outbox over a Redis stream to the gateway: everything that is
 * needed to write one attempt to its supplier, so that the gateway reads no business table.
 */
export const COMMAND_VERSION = 2;
/** Before commands were sealed: what such a version had published is still written. */
export const CLEAR_COMMAND_VERSION = 1;

export interface SubmitCommand {
  submitId: string;
  attemptId: string;
  messageId: string;
  channelId: string;
  supplierId: string;
  /** Eleven digits. */
  to: string;
  srcId: string;
  /** CMPP Msg_Fmt: 0 ASCII, 8 UCS2 (cmpp §7). */
  msgFmt: 0 | 8;
  /** One hex string of Msg_Content a part, user data header included where there is more than one. */
  parts: string[];
}

export type ParsedCommand =
  | { ok: true; command: SubmitCommand }
  | { ok: false; why: "unknown_schema_version" | "malformed_payload" };

/** Reads a payload once it is opened; never throws (C7). */
export function parseCommand(payload: string): ParsedCommand {
  try {
    const value: unknown = JSON.parse(payload);
    return isCommand(value) ? { ok: true, command: value } : { ok: false, why: "malformed_payload" };
  } catch {
    return { ok: false, why: "malformed_payload" };
  }
}

function isCommand(value: unknown): value is SubmitCommand {
  if (typeof value !== "object" || value === null) return false;
  const it = value as Record<string, unknown>;
  const texts = ["submitId", "attemptId", "messageId", "channelId", "supplierId", "to", "srcId"];
  return (
    texts.every((name) => typeof it[name] === "string" && it[name] !== "") &&
    (it["msgFmt"] === 0 || it["msgFmt"] === 8) &&
    Array.isArray(it["parts"]) &&
    it["parts"].length > 0 &&
    it["parts"].length <= 255 &&
    it["parts"].every((part) => typeof part === "string" && /^(?:[0-9a-f]{2}){0,255}$/.test(part))
  );
}
