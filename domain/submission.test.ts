import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseBatch, parseSubmission } from "./submission.ts";

const codeOf = (parsed: { ok: boolean; code?: string }): string => (parsed.ok ? "ok" : (parsed.code ?? ""));

/** Half of a surrogate pair has no UTF-8. */
function hasUtf8(text: string): boolean {
  try {
    encodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

describe("a submission", () => {
  it("fills in the defaults and keeps the text as it is (A5)", () => {
    expect(parseSubmission({ to: "+8613812345678", text: " \n您好 " })).toEqual({
      ok: true,
      value: {
        content: { to: "13812345678", text: " \n您好 ", validitySeconds: 259_200 },
        shape: { encoding: "ucs2", segmentCount: 1 },
      },
    });
  });

  it("accepts any spelling of a mobile number, and only those", () => {
    const digits = fc.stringMatching(/^1\d{10}$/);
    fc.assert(
      fc.property(fc.constantFrom("", "86", "+86"), digits, (prefix, number) => {
        const parsed = parseSubmission({ to: prefix + number, text: "x" });
        expect(parsed).toMatchObject({ ok: true, value: { content: { to: number } } });
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (to) => {
        fc.pre(!/^(?:\+?86)?1\d{10}$/.test(to));
        expect(codeOf(parseSubmission({ to, text: "x" }))).toBe("invalid_field");
      }),
    );
  });

  it("takes a text if and only if PostgreSQL can keep every character of it", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)), minLength: 1 }),
        (text) => {
          const storable = hasUtf8(text) && !text.includes("\0");
          expect(codeOf(parseSubmission({ to: "13800000000", text }))).toBe(
            storable ? "ok" : "invalid_field",
          );
        },
      ),
    );
  });

  it("takes 255 segments and no more", () => {
    const of = (length: number): string =>
      codeOf(parseSubmission({ to: "13800000000", text: "x".repeat(length) }));
    expect(of(255 * 153)).toBe("ok");
    expect(of(255 * 153 + 1)).toBe("text_too_long");
  });

  it("leads to every field at fault, and shows fifty of them at most", () => {
    const parsed = parseSubmission({ to: 1, text: "", templateParams: { a: 5 }, b: 1 });
    expect(parsed.ok ? [] : parsed.errors.map(({ path }) => path).toSorted()).toEqual([
      "b",
      "templateParams.a",
      "text",
      "to",
    ]);
    const many = parseSubmission(
      Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`f${index}`, 1])),
    );
    expect(many.ok ? 0 : many.errors.length).toBe(50);
  });

  it("takes no prototype for a field", () => {
    expect(codeOf(parseSubmission(JSON.parse('{"to":"13800000000","text":"x","__proto__":{}}')))).toBe(
      "unknown_field",
    );
  });
});

describe("a batch", () => {
  const item = (to: string) => ({ to, text: "x" });
  const codes = (body: unknown): string[] => {
    const parsed = parseBatch(body);
    return parsed.ok ? parsed.value.items.map(codeOf) : [`whole: ${parsed.code}`];
  };

  it("says the same in either form", () => {
    const listed = parseBatch({ messages: [item("13800000000"), item("8613800000001")] });
    const shared = parseBatch({ to: ["13800000000", "13800000001"], text: "x" });
    expect(listed).toEqual(shared);
  });

  it("refuses one item alone, and a number that stood there before in whatever spelling", () => {
    expect(
      codes({ messages: [item("13800000000"), 7, item("+8613800000000"), { ...item("13800000001"), a: 1 }] }),
    ).toEqual(["ok", "invalid_field", "duplicate_recipient", "unknown_field"]);
    expect(codes({ to: ["13800000000", "13800000000"], text: "x", allowDuplicates: true })).toEqual([
      "ok",
      "ok",
    ]);
  });

  it("does not count a refused item as the first with its number", () => {
    expect(codes({ messages: [{ to: "13800000000", text: "" }, item("13800000000")] })).toEqual([
      "invalid_field",
      "ok",
    ]);
  });

  it("refuses the whole where what is shared is wrong", () => {
    expect(codes({ to: ["13800000000"], text: "" })).toEqual(["whole: invalid_field"]);
    expect(codes({ to: Array.from({ length: 1_001 }, () => "x"), text: "x" })).toEqual([
      "whole: batch_too_large",
    ]);
    expect(codes(null)).toEqual(["whole: invalid_field"]);
  });
});
