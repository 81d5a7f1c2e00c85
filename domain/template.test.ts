import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesOne, placeholdersOf, render } from "./template.ts";

describe("a text made from a template (A3)", () => {
  it("has each value where its name stands, as often as it stands there", () => {
    const params = { code: "1234", 分钟: "5" };
    expect(render("{code} is your code: {code}, {分钟} min {not one} {}", params)).toEqual({
      ok: true,
      text: "1234 is your code: 1234, 5 min {not one} {}",
    });
  });

  it("takes a value as it is, with braces and dollars in it", () => {
    expect(render("a {x} b {y}", { x: "{y}", y: "$&" })).toEqual({ ok: true, text: "a {y} b $&" });
  });

  it.each([
    [{}, ["x", "y"], []],
    [{ x: "1" }, ["y"], []],
    [{ x: "", y: "2" }, ["x"], []],
    [{ x: "1", y: "2", z: "3", toString: "4" }, [], ["z", "toString"]],
  ])("says which values are missing and which are too many (%#)", (params, missing, unknown) => {
    expect(render("{x} {y} {x}", params)).toEqual({ ok: false, missing, unknown });
  });

  it("knows names that every object has", () => {
    expect(render("{constructor}", {})).toEqual({ ok: false, missing: ["constructor"], unknown: [] });
  });
});

describe("a text held against templates (A3)", () => {
  it.each([
    ["hello", "hello", true],
    ["hello ", "hello", false],
    ["code 1", "code {x}", true],
    ["code ", "code {x}", false],
    ["the code 1", "code {x}", false],
    ["1 is it", "{x} is it", true],
    ["1 is it!", "{x} is it", false],
    ["a1b2c", "a{x}b{y}c", true],
    ["ab2c", "a{x}b{y}c", false],
    ["abbbc", "a{x}b{y}c", true],
    ["aXbc", "a{x}b{y}c", false],
    ["12", "{x}{y}", true],
    ["1", "{x}{y}", false],
    ["line\nline", "line{x}line", true],
    ["a.c", "a.{x}", true],
    ["abc", "a.{x}", false],
  ])("%j against %j: %s", (text, body, expected) => {
    expect(matchesOne(text, [body])).toBe(expected);
  });

  it("may carry a signature that the template does not name", () => {
    expect(matchesOne("【测试】code 1", ["code {x}"])).toBe(true);
    expect(matchesOne("【测试】code 1", ["【测试】code {x}"])).toBe(true);
    expect(matchesOne("【另一】code 1", ["【测试】code {x}"])).toBe(false);
  });

  it("matches none where there is none", () => {
    expect(matchesOne("hello", [])).toBe(false);
  });

  it("always matches what was rendered from it", () => {
    const piece = fc.constantFrom("a", "ab", "验证码", "{", "}", "{x}", "{y}", "{z}", " ", "😀");
    const value = fc.string({ minLength: 1, unit: fc.constantFrom("a", "b", "{x}", "😀", "\n") });
    fc.assert(
      fc.property(fc.array(piece), fc.tuple(value, value, value), (pieces, [x, y, z]) => {
        const body = pieces.join("");
        const values: Record<string, string> = { x, y, z };
        const params = Object.fromEntries(placeholdersOf(body).map((name) => [name, values[name] ?? x]));
        const rendered = render(body, params);
        expect(rendered.ok && matchesOne(rendered.text, [body])).toBe(true);
      }),
    );
  });

  it("takes no longer the more placeholders there are", () => {
    const body = `${"{x}a".repeat(50)}b`;
    expect(matchesOne("a".repeat(5_000), [body])).toBe(false);
  });
});
