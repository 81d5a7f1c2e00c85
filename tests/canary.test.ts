/** Whether the search for canaries would find one. */
import { describe, expect, it } from "vitest";
import { jsonEscaped, sightings } from "./canary.ts";

const NUMBER = "13857142863";
const CHINESE = "紫杉犀牛漫步月台";

describe("the search for a canary", () => {
  it.each([NUMBER, CHINESE])("finds %s however it is written", (word) => {
    const utf16 = Buffer.from(word, "utf16le").swap16();
    for (const [how, leak] of [
      ["clear", `log {"to":"${word}"}`],
      ["hex of UTF-8", `\\x00${Buffer.from(word).toString("hex").toUpperCase()}`],
      ["hex of UTF-16", utf16.toString("hex")],
      ["JSON escapes", jsonEscaped(word)],
      ["percent escapes", `?to=${[...Buffer.from(word)].map((it) => `%${it.toString(16)}`).join("")}`],
      ...[0, 1, 2, 3].flatMap((before) =>
        [Buffer.from(word), utf16].map((bytes) => [
          "base64",
          Buffer.concat([Buffer.alloc(before, "x"), bytes, Buffer.from("y")]).toString("base64"),
        ]),
      ),
    ] as const) {
      expect(sightings("here", leak ?? "", [word]), how).not.toEqual([]);
    }
    expect(sightings("here", utf16, [word])).not.toEqual([]);
  });

  it("sees none where there is none", () => {
    expect(sightings("here", "13857142862 紫杉犀牛漫步月 138****2863", [NUMBER, CHINESE])).toEqual([]);
  });
});
