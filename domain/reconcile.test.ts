import { describe, expect, it } from "vitest";
import { judgeEntry, PENDING_TOO_OLD_MS, type CommandFacts, type EntryFacts } from "./reconcile.ts";

const entry = (more: Partial<EntryFacts> = {}): EntryFacts => ({
  entryId: "5-0",
  submitId: "sub_1",
  payload: "{}",
  state: "undelivered",
  idleMs: 0,
  ...more,
});

const command = (more: Partial<CommandFacts> = {}): CommandFacts => ({
  status: "published",
  channelId: "chn_1",
  entryId: "5-0",
  payload: "{}",
  finished: false,
  ...more,
});

const judge = (e: Partial<EntryFacts>, c: Partial<CommandFacts> = {}) =>
  judgeEntry("chn_1", entry(e), command(c));

describe("an entry and its command (C6)", () => {
  it("agree while the entry waits, or a gateway works on it", () => {
    expect(judge({})).toBeUndefined();
    expect(judge({ state: "pending", idleMs: PENDING_TOO_OLD_MS - 1 })).toBeUndefined();
  });

  it("say so where no row knows the entry", () => {
    expect(judgeEntry("chn_1", entry(), undefined)).toBe("entry_without_outbox_row");
  });

  it.each([
    ["entry_on_another_channel", {}, { channelId: "chn_2" }],
    ["entry_payload_differs", { payload: "[]" }, {}],
    ["acknowledged_not_deleted", { state: "acknowledged" }, { finished: true }],
    ["entry_of_dead_command", {}, { status: "dead" }],
    ["entry_not_recorded", {}, { status: "pending", entryId: null }],
    ["entry_not_recorded", {}, { status: "publishing", entryId: null }],
    ["entry_superseded", {}, { entryId: "6-0" }],
    ["pending_and_finished", { state: "pending" }, { finished: true }],
    ["pending_too_old", { state: "pending", idleMs: PENDING_TOO_OLD_MS }, {}],
  ] as const)("%s", (kind, e, c) => {
    expect(judge(e, c)).toBe(kind);
  });

  it("name the graver fault first: another channel's entry is not called superseded", () => {
    expect(judge({}, { channelId: "chn_2", entryId: "6-0" })).toBe("entry_on_another_channel");
  });
});
