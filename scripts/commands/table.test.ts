import { describe, expect, it } from "vitest";
import { ageOf, table } from "./table.ts";

describe("a table", () => {
  it("is as wide as its widest cell, a Chinese character counting two", () => {
    expect(
      table(
        ["id", "text", "n"],
        [
          ["a1", "短信", "1"],
          ["b", "x", "22"],
        ],
        "none",
      ),
    ).toEqual(["ID  TEXT  N", "a1  短信  1", "b   x     22"]);
  });

  it("says one sentence where there is nothing", () => {
    expect(table(["id"], [], "Nothing.")).toEqual(["Nothing."]);
  });

  it.each([
    [0, "0 s"],
    [119_000, "119 s"],
    [120_000, "2 min"],
    [7_200_000, "2 h"],
    [172_800_000, "2 d"],
    [-5, "0 s"],
  ])("says %d ms as %s", (ms, said) => {
    expect(ageOf(ms)).toBe(said);
  });
});
