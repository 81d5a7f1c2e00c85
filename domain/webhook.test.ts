import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import type { FinalStatus } from "./message.ts";
import { judgeCall, notificationBody, TRY_LADDER_MS, waitBeforeTry, type CallOutcome } from "./webhook.ts";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);
const HOUR = 3_600_000;

const answered = (httpStatus: number, retryAfter?: string): CallOutcome => ({
  kind: "answered",
  httpStatus,
  retryAfter,
});

const facts = {
  id: "evt_1",
  messageId: "msg_1",
  to: "13800138000",
  status: "delivered",
  reason: null,
  segments: 2,
  priceUnits: 650n,
  currency: "CNY",
  reference: null,
  finalAt: "2026-11-30T12:00:00.000Z",
} as const;

describe("the body of a notification", () => {
  it("holds what interfaces §3 promises, and no reason where there is none", () => {
    expect(JSON.parse(notificationBody(facts))).toEqual({
      type: "message.delivered",
      id: "evt_1",
      data: {
        id: "msg_1",
        to: "13800138000",
        status: "delivered",
        segments: 2,
        price: { units: 650, currency: "CNY" },
        reference: null,
        finalAt: "2026-11-30T12:00:00.000Z",
      },
    });
  });

  it("names the reason of a final state that has one", () => {
    const status: FinalStatus = "refused";
    const body = notificationBody({ ...facts, status, reason: "blacklisted", reference: "r 1" });
    expect(JSON.parse(body)).toMatchObject({
      type: "message.refused",
      data: { reason: "blacklisted", reference: "r 1" },
    });
  });

  it("can be signed and verified as it is, whatever its texts hold (Standard Webhooks)", () => {
    const webhook = new Webhook(`whsec_${btoa("thirty-two-bytes-of-a-test-secret")}`);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (reference) => {
        const body = notificationBody({ ...facts, reference });
        const at = new Date();
        const headers = {
          "webhook-id": facts.id,
          "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
          "webhook-signature": webhook.sign(facts.id, at, body),
        };
        expect(webhook.verify(body, headers)).toMatchObject({ data: { reference } });
        expect(() => webhook.verify(`${body} `, headers)).toThrow();
      }),
    );
  });
});

describe("the ladder of tries (E3)", () => {
  it("begins at once and lasts at least 72 hours, however the jitter falls", () => {
    expect(waitBeforeTry(1, 0.99)).toBe(0);
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 10 }), (randoms) => {
        const waits = TRY_LADDER_MS.map((_, index) => waitBeforeTry(index + 1, randoms[index] ?? 0) ?? 0);
        const sum = waits.reduce((total, wait) => total + wait, 0);
        expect(sum).toBeGreaterThanOrEqual(72 * HOUR);
        expect(sum).toBeLessThan(92 * HOUR);
      }),
    );
  });

  it("spreads tries that failed together", () => {
    expect(waitBeforeTry(3, 0)).toBe(300_000);
    expect(waitBeforeTry(3, 0.5)).toBe(330_000);
  });

  it("ends after its last rung", () => {
    expect(waitBeforeTry(TRY_LADDER_MS.length, 0)).toBe(24 * HOUR);
    expect(waitBeforeTry(TRY_LADDER_MS.length + 1, 0)).toBeUndefined();
  });
});

describe("what an answer means", () => {
  it.each([200, 201, 202, 204, 299])("%i is delivery (interfaces §3)", (status) => {
    expect(judgeCall(answered(status), 1, 0, NOW)).toEqual({ kind: "delivered" });
  });

  it("410 disables the address, on whatever try", () => {
    expect(judgeCall(answered(410), 1, 0, NOW)).toEqual({ kind: "gone", error: "gone" });
    expect(judgeCall(answered(410), 10, 0, NOW).kind).toBe("gone");
  });

  it.each([
    [301, "redirected"],
    [307, "redirected"],
    [400, "refused"],
    [404, "refused"],
    [429, "throttled"],
    [500, "server_failed"],
    [503, "throttled"],
    [599, "server_failed"],
    [100, "server_failed"],
  ] as const)("%i is tried again, and called %s", (status, error) => {
    expect(judgeCall(answered(status), 1, 0, NOW)).toEqual({
      kind: "retry",
      error,
      afterMs: 5_000,
      restMs: 0,
      hostFailed: true,
    });
  });

  it("parks after the last rung instead of giving up unseen (E3)", () => {
    expect(judgeCall({ kind: "unanswered", error: "timeout" }, 9, 0, NOW).kind).toBe("retry");
    expect(judgeCall({ kind: "unanswered", error: "timeout" }, 10, 0, NOW)).toMatchObject({
      kind: "parked",
      error: "timeout",
    });
  });

  it("does not blame the host for a secret of ours that cannot sign", () => {
    const verdict = judgeCall({ kind: "unanswered", error: "secret_unusable" }, 1, 0, NOW);
    expect(verdict).toMatchObject({ kind: "retry", hostFailed: false });
  });

  it.each([
    [429, "60", 60_000],
    [503, " 60 ", 60_000],
    [503, "Mon, 30 Nov 2026 12:02:00 GMT", 120_000],
    [503, "999999999999999999999", HOUR],
    [503, "Mon, 30 Nov 2099 12:02:00 GMT", HOUR],
    [503, "Mon, 30 Nov 2020 12:02:00 GMT", 0],
    [503, "soon", 0],
    [503, "-5", 0],
    [503, "", 0],
    [500, "60", 0],
    [301, "60", 0],
  ])("%i with Retry-After %j rests the host for %i ms, clamped", (status, retryAfter, restMs) => {
    expect(judgeCall(answered(status, retryAfter), 1, 0, NOW)).toMatchObject({
      restMs,
      afterMs: Math.max(5_000, restMs),
    });
  });

  it("waits for the ladder where that is longer than the Retry-After", () => {
    expect(judgeCall(answered(503, "60"), 4, 0, NOW)).toMatchObject({ afterMs: 2 * HOUR, restMs: 60_000 });
  });
});
