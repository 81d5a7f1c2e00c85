import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseBatch, parseSubmission, templateIdsIn } from "./submission.ts";

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
        text: " \n您好 ",
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

describe("a submission by template (A3)", () => {
  const templates = new Map([
    ["tpl_1", "code {code}"],
    ["tpl_long", "{code}".repeat(20)],
  ]);
  const to = "13800000000";
  const of = (more: object) => parseSubmission({ to, ...more }, templates);

  it("is sent as the template makes it, and stands for what was submitted", () => {
    expect(of({ templateId: "tpl_1", templateParams: { code: "汉".repeat(70) } })).toMatchObject({
      ok: true,
      value: {
        text: `code ${"汉".repeat(70)}`,
        content: { templateId: "tpl_1", templateParams: { code: "汉".repeat(70) } },
        shape: { encoding: "ucs2", segmentCount: 2 },
      },
    });
  });

  it("may say the text too, where it is the same", () => {
    const params = { templateId: "tpl_1", templateParams: { code: "1" } };
    expect(codeOf(of({ ...params, text: "code 1" }))).toBe("ok");
    expect(of({ ...params, text: "code 2" })).toMatchObject({
      code: "invalid_field",
      errors: [{ path: "text" }],
    });
  });

  it.each([
    ["template_unknown", ["templateId"], { templateId: "tpl_2" }],
    ["template_params_invalid", ["templateParams.code"], { templateId: "tpl_1" }],
    [
      "template_params_invalid",
      ["templateParams.code", "templateParams.more"],
      { templateId: "tpl_1", templateParams: { code: "", more: "1" } },
    ],
    ["invalid_field", ["templateParams"], { text: "x", templateParams: {} }],
    ["invalid_field", ["text"], {}],
    ["text_too_long", ["text"], { templateId: "tpl_long", templateParams: { code: "汉".repeat(1_000) } }],
  ])("says %s at %j (%#)", (code, paths, more) => {
    const parsed = of(more);
    expect(codeOf(parsed)).toBe(code);
    expect(parsed.ok ? [] : parsed.errors.map((error) => error.path)).toEqual(paths);
  });

  it("is the same for an item of a batch and for what all its items share", () => {
    const params = { templateId: "tpl_1", templateParams: { code: "1" } };
    const shared = parseBatch({ to: [to], ...params }, templates);
    expect(shared).toMatchObject({ value: { items: [{ value: { text: "code 1" } }] } });
    expect(parseBatch({ messages: [{ to, ...params }] }, templates)).toEqual(shared);
  });

  it("names its templates before it is checked, however it is shaped", () => {
    const listed = { messages: [{ templateId: "a" }, 1, null, { templateId: "b" }, { templateId: "a" }] };
    expect(templateIdsIn(listed)).toEqual(["a", "b"]);
    expect(templateIdsIn({ templateId: "a", messages: "x" })).toEqual(["a"]);
    expect([null, 1, "x", [], { templateId: "\0" }, { templateId: 1 }].flatMap(templateIdsIn)).toEqual([]);
  });
});
