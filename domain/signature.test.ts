import { describe, expect, it } from "vitest";
import { isSignature, signatureOf, withoutSignature } from "./signature.ts";

describe("the signature at the head of a text (A3)", () => {
  it.each([
    ["【测试】hello", "【测试】", "hello"],
    ["【一】【二】x", "【一】", "【二】x"],
    ["hello【测试】", undefined, "hello【测试】"],
    [" 【测试】x", undefined, " 【测试】x"],
    ["【】x", undefined, "【】x"],
    ["【测试", undefined, "【测试"],
    ["[测试]x", undefined, "[测试]x"],
  ])("of %s is %s", (text, signature, rest) => {
    expect(signatureOf(text)).toBe(signature);
    expect(withoutSignature(text)).toBe(rest);
  });

  it.each([
    ["【测试】", true],
    ["测试", false],
    ["【测试】x", false],
    ["【测】试】", false],
    ["【】", false],
  ])("%s can be one: %s", (text, can) => {
    expect(isSignature(text)).toBe(can);
  });
});
