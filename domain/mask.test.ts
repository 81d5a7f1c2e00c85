import { describe, expect, it } from "vitest";
import { maskedNumber, maskedText } from "./mask.ts";

describe("a mask", () => {
  it.each([
    ["13812341234", "138****1234"],
    ["8613812341234", "861****1234"],
    ["10086", "****86"],
    ["", "****"],
  ])("shows %j as %j", (number, shown) => {
    expect(maskedNumber(number)).toBe(shown);
  });

  it("shows the signature of a text and nothing of what follows", () => {
    expect(maskedText("【测试】您的验证码是 493817")).toBe("【测试】…");
    expect(maskedText("Your code is 493817")).toBe("…");
  });
});
