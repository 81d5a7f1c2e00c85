/**
 * A command as outbox and stream hold it: sealed for its submit id, in base64url, so that neither Redis nor
 * its files ever have a number or a text, and a payload under another command's id does not open.
 */
import {
  CLEAR_COMMAND_VERSION,
  COMMAND_VERSION,
  type ParsedCommand,
  parseCommand,
  type SubmitCommand,
} from "../domain/command.ts";
import { type Vault, VaultError } from "./vault.ts";

export const sealedCommand = (vault: Vault, command: SubmitCommand): string =>
  sealedPayload(vault, command.submitId, JSON.stringify(command));

export const sealedPayload = (vault: Vault, submitId: string, payload: string): string =>
  vault.seal("submit_outbox.payload", submitId, payload).toString("base64url");

/**
 * Reads a command as an entry brought it (C7). Throws only where its key is not at hand: another process has
 * it, or will have it, so it says nothing against the command.
 */
export function openCommand(vault: Vault, submitId: string, version: number, payload: string): ParsedCommand {
  if (version === CLEAR_COMMAND_VERSION) return parseCommand(payload);
  if (version !== COMMAND_VERSION) return { ok: false, why: "unknown_schema_version" };
  try {
    const sealed = Buffer.from(payload, "base64url");
    return parseCommand(vault.openText("submit_outbox.payload", submitId, sealed));
  } catch (error) {
    if (error instanceof VaultError && error.code === "broken_seal")
      return { ok: false, why: "malformed_payload" };
    throw error;
  }
}
