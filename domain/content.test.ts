import { describe, expect, it } from "vitest";
import { decodeText } from "./content.ts";

const hex = (text: string): Uint8Array => Buffer.from(text, "hex");
const ucs2 = (text: string): Uint8Array => Buffer.from(text, "utf16le").swap16();

describe("a content", () => {
  it("is read by its Msg_Fmt, private and leaked values by the alphabet in them (cmpp §14, 19)", () => {
    for (const msgFmt of [8, 9, 25, 0x18]) expect(decodeText(msgFmt, ucs2("测试😀"))).toBe("测试😀");
    for (const msgFmt of [0, 0x10, 0xf0]) expect(decodeText(msgFmt, hex("5444"))).toBe("TD");
    for (const msgFmt of [3, 4, 0x14, 0xf5]) expect(decodeText(msgFmt, hex("00ff"))).toBeUndefined();
    for (const msgFmt of [0xc8, 0x0c]) {
      expect(decodeText(msgFmt, ucs2("测"))).toBe("测");
      expect(decodeText(msgFmt, hex("544444"))).toBe("TDD");
    }
  });

  it("in GB18030 has characters of one, two and four bytes (cmpp §7)", () => {
    expect(decodeText(15, hex("b2e2cad44131"))).toBe("测试A1");
    expect(decodeText(15, hex("9439da33"))).toBe("💩");
    expect(decodeText(15, hex("b2e2ca"))).toBe("测\ufffd");
  });

  it("of UCS2 loses a byte order mark at its head and half a character at its end", () => {
    expect(decodeText(8, hex("feff6d4b4e"))).toBe("测");
    expect(decodeText(8, hex("d83d"))).toBe("\ufffd");
    expect(decodeText(8, hex(""))).toBe("");
  });
});
