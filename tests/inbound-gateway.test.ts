/** Texts from recipients on their way from a supplier's wire through a running gateway (cmpp §7, §8). */
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type InboundRow, joinInbound, listInbound } from "../db/inbound.ts";
import { inboundIdFrom } from "../domain/ids.ts";
import { countOf, DEMO } from "./facts.ts";
import { openSurroundings, type Surroundings } from "./gateways.ts";
import { until } from "./servers.ts";

let around: Surroundings;
beforeEach(async () => {
  around = await openSurroundings({ profiles: [{ connections: 2 }] });
});
afterEach(() => around.close());

const join = () =>
  around.database.transaction((tx) => joinInbound(tx, 100, () => inboundIdFrom(Date.now(), randomBytes(10))));

const partsAre = (count: number): Promise<true> =>
  until(`${count} parts are stored`, async () => (await countOf(around.database, "inbound_parts")) === count);

async function texts(count: number): Promise<InboundRow[]> {
  return until(`${count} texts are there`, async () => {
    await join();
    const all = await listInbound(around.database, undefined, 100);
    return all.length === count && all;
  });
}

const FROM = "13800138000";

describe("a recipient's text", () => {
  it("comes whole out of parts that cut its characters, over two connections, in every encoding", async () => {
    await around.openGateway();
    await around.untilConnected("sup_1", 2);
    const said = `退订😀${"测试".repeat(70)}`;
    const to = "10690001";
    await around.inbound({
      from: `86${FROM}`,
      to,
      text: said,
      msgFmt: 15,
      referenceBits: 16,
      reference: 258,
      udhi: 0x40,
    });
    await around.inbound({ from: FROM, to, text: said, msgFmt: 8, reference: 2 });
    await around.inbound({ from: FROM, to, text: "a".repeat(300), reference: 0 });
    await around.inbound({ from: FROM, to, contentHex: "00ff" });
    const all = await texts(4);
    const found = all.map((it) => it.text ?? it.bytes?.toString("hex"));
    for (const one of [said, "a".repeat(300), "00ff"]) expect(found).toContain(one);
    expect(all.filter((it) => it.text === said)).toHaveLength(2);
    expect(new Set(all.map((it) => it.number))).toEqual(new Set([FROM]));
    expect(new Set(all.map((it) => it.application_id))).toEqual(new Set([DEMO.applicationId]));
    expect(all.every((it) => it.wish === null && it.complete)).toBe(true);
  });

  it("that is sent twice under one Msg_Id, and again by a supplier that got no answer, is one", async () => {
    const way = await around.wayTo(around.databaseUrl);
    await around.openGateway({ databaseUrl: way.url });
    await around.untilConnected("sup_1", 2);
    await around.inbound({ from: FROM, to: "10690001", text: "TD", times: 2 });
    await partsAre(1);
    // What is not committed is not answered; with the connection the supplier has to say it again.
    way.cut(true);
    await around.inbound({ from: FROM, to: "10690001", text: "hello" });
    await around.disturb({ cut: true });
    way.cut(false);
    const all = await texts(2);
    expect(new Map(all.map((it) => [it.text, it.wish]))).toEqual(
      new Map([
        ["TD", "opt_out"],
        ["hello", null],
      ]),
    );
    expect(await countOf(around.database, "blacklist WHERE source = 'opt_out'")).toBe(1);
  });
});
