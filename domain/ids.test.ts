import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  attemptIdOf,
  batchIdFrom,
  closeKey,
  messageIdFrom,
  messageIdOf,
  notificationIdOf,
  noResponseEventKey,
  receiptEventKey,
  refundKey,
  reserveKey,
  responseEventKey,
  sortableId,
  submitIdOf,
} from "./ids.ts";

const anyMs = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const anyRandom = fc.uint8Array({ minLength: 10, maxLength: 16 });
const anyNumber = fc.integer({ min: 1, max: 1_000 });

/** What the characters stand for, read back as one number of 130 bits. */
const valueOf = (id: string): bigint =>
  id.split("").reduce((sum, it) => sum * 32n + BigInt("0123456789ABCDEFGHJKMNPQRSTVWXYZ".indexOf(it)), 0n);

describe("an id", () => {
  it("holds all 48 bits of its time and all 80 that are random", () => {
    fc.assert(
      fc.property(anyMs, anyRandom, (ms, random) => {
        const id = sortableId(ms, random);
        expect(id).toMatch(/^[0-9A-HJKMNP-TV-Z]{26}$/);
        const tail = BigInt(`0x${Buffer.from(random.subarray(0, 10)).toString("hex")}`);
        expect(valueOf(id)).toBe((BigInt(ms) << 80n) | tail);
      }),
    );
  });

  it("sorts by its time", () => {
    fc.assert(
      fc.property(anyMs, anyMs, anyRandom, anyRandom, (a, b, one, other) => {
        if (a < b) expect(sortableId(a, one) < sortableId(b, other)).toBe(true);
      }),
    );
  });

  it("of an attempt leads back to its message, and numbers attempts of one message apart", () => {
    fc.assert(
      fc.property(anyMs, anyRandom, anyNumber, anyNumber, (ms, random, n, m) => {
        const message = messageIdFrom(ms, random);
        expect(messageIdOf(attemptIdOf(message, n))).toBe(message);
        expect(attemptIdOf(message, n) === attemptIdOf(message, m)).toBe(n === m);
        expect(submitIdOf(attemptIdOf(message, n)) === submitIdOf(attemptIdOf(message, m))).toBe(n === m);
      }),
    );
  });

  it("tells by its prefix what it is of", () => {
    const random = new Uint8Array(10);
    const message = messageIdFrom(1, random);
    expect(message.slice(0, 4)).toBe("msg_");
    expect(batchIdFrom(1, random).slice(0, 4)).toBe("bat_");
    expect(attemptIdOf(message, 1).slice(0, 4)).toBe("att_");
    expect(notificationIdOf(message, 0).slice(0, 4)).toBe("evt_");
    expect(notificationIdOf(message, 1)).not.toBe(notificationIdOf(message, 0));
  });
});

describe("a key", () => {
  it("is one for charge and release, and another for every other movement (D5)", () => {
    expect(new Set([reserveKey("m"), closeKey("m"), refundKey("m")]).size).toBe(3);
  });

  it("tells answers apart by part, write, id and result, and copies not at all (D2)", () => {
    const first = responseEventKey("sub_1", 1, 1, "a1", 0);
    expect(responseEventKey("sub_1", 1, 1, "a1", 0)).toBe(first);
    const others = [
      responseEventKey("sub_2", 1, 1, "a1", 0),
      responseEventKey("sub_1", 2, 1, "a1", 0),
      responseEventKey("sub_1", 1, 2, "a1", 0),
      responseEventKey("sub_1", 1, 1, "b2", 0),
      responseEventKey("sub_1", 1, 1, "a1", 8),
      noResponseEventKey("sub_1", 1, 1),
    ];
    expect(new Set([first, ...others]).size).toBe(7);
  });

  it("tells receipts apart by account, id, number and state, not by connection (D2, D14)", () => {
    const first = receiptEventKey("sup_1", "a1", "13800000000", "DELIVRD");
    const others = [
      receiptEventKey("sup_2", "a1", "13800000000", "DELIVRD"),
      receiptEventKey("sup_1", "b2", "13800000000", "DELIVRD"),
      receiptEventKey("sup_1", "a1", "13800000001", "DELIVRD"),
      receiptEventKey("sup_1", "a1", "13800000000", "UNDELIV"),
    ];
    expect(new Set([first, ...others]).size).toBe(5);
  });
});
