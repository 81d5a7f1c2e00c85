import { mkdtempSync, rmSync, appendFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { decode, encode, submitFields, submitPdu, type CmppVersion, type Pdu } from "./cmpp-codec.ts";
import { Framer } from "./cmpp-frames.ts";
import { sourceAuthenticator, type ShortLogin } from "./cmpp-login.ts";
import { NO_MSG_ID } from "./cmpp-msg-id.ts";
import { CmppSession, type SessionOptions } from "./cmpp-session.ts";
import { startSimulator, type Simulator, type SimulatorOptions } from "./simulator.ts";
import type { SupplierOptions } from "./simulator-supplier.ts";
import type { ReceiptRecord, SubmitRecord } from "./simulator-witness.ts";

/** One second of the fates' table lasts 50 ms here. */
const TIME_SCALE = 0.05;
const SECOND_MS = 1000 * TIME_SCALE;
const RECEIPT_DELAY_MS = 20;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean();
});

function supplier(name: string, version: CmppVersion, more: Partial<SupplierOptions> = {}): SupplierOptions {
  return {
    name,
    version,
    cmppPort: 0,
    logPort: 0,
    spId: "910001",
    secret: "s3cr3t",
    window: 16,
    rate: 10_000,
    connections: 2,
    ...more,
  };
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "simulator-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  return folder;
}

async function simulate(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const simulator = await startSimulator({
    dataDir: options.dataDir ?? newFolder(),
    suppliers: [supplier("first", "3.0"), supplier("second", "2.0")],
    receiptDelayMs: RECEIPT_DELAY_MS,
    timeScale: TIME_SCALE,
    ...options,
  });
  cleanups.push(() => simulator.stop());
  return simulator;
}

/** What a client saw, in the order in which it came. */
type Seen =
  | { what: "answer"; key: string | undefined; result: number; msgId: string; late: boolean; at: number }
  | { what: "receipt"; msgId: string; stat: string; number: string; at: number };

class Client {
  readonly session: CmppSession<string>;
  readonly seen: Seen[] = [];
  readonly closings: string[] = [];
  /** What happens with receipts: answered, unless the test says otherwise. */
  store: () => Promise<void> = () => Promise.resolve();

  constructor(port: number, version: CmppVersion, options: Partial<SessionOptions> = {}) {
    this.session = new CmppSession(
      {
        host: "127.0.0.1",
        port,
        version,
        spId: "910001",
        secret: "s3cr3t",
        window: 16,
        responseTimeoutMs: 10 * SECOND_MS,
        connectTimeoutMs: 5_000,
        heartbeatIdleMs: 60_000,
        heartbeatTimeoutMs: 60_000,
        ...options,
      },
      {
        response: ({ key, result, msgId, late }) =>
          this.seen.push({ what: "answer", key, result, msgId, late, at: performance.now() }),
        unanswered: () => undefined,
        deliver: (deliver) => {
          if (deliver.kind !== "receipt") throw new Error(deliver.kind);
          const { msgId, stat, number } = deliver;
          this.seen.push({ what: "receipt", msgId, stat, number, at: performance.now() });
          return this.store();
        },
        closed: (why) => this.closings.push(why),
      },
    );
  }

  submit(number: string, content = "hello", more: { part?: number; parts?: number } = {}): void {
    const { part = 1, parts = 1 } = more;
    const long = parts > 1;
    const header = long ? Buffer.from([5, 0, 3, 0x2a, parts, part]) : Buffer.alloc(0);
    this.session.submit(`${number}/${part}`, {
      srcId: "10690001",
      destination: number,
      msgFmt: 0,
      content: Buffer.concat([header, Buffer.from(content)]),
      udhi: long,
      pkTotal: parts,
      pkNumber: part,
    });
  }

  answers = (number: string) =>
    this.seen.filter((it) => it.what === "answer" && it.key?.startsWith(number)).map((it) => it as Answer);
  receipts = (number: string) =>
    this.seen.filter((it) => it.what === "receipt" && it.number === number).map((it) => it as Receipt);
}
type Answer = Extract<Seen, { what: "answer" }>;
type Receipt = Extract<Seen, { what: "receipt" }>;

async function login(simulator: Simulator, name = "first", options: Partial<SessionOptions> = {}) {
  const { cmppPort, version } = found(simulator, name);
  const client = new Client(cmppPort, version, options);
  expect(await client.session.connect()).toMatchObject({ ok: true, serverAuthenticated: true });
  cleanups.push(() => client.session.destroy());
  return client;
}

function found(simulator: Simulator, name: string) {
  const running = simulator.suppliers.find((each) => each.name === name);
  if (running === undefined) throw new Error(`no supplier ${name}`);
  return running;
}

async function witnessed<Record>(simulator: Simulator, path: string, name = "first"): Promise<Record> {
  const response = await fetch(`${found(simulator, name).logUrl}${path}`);
  expect(response.status).toBe(200);
  return (await response.json()) as Record;
}

async function disturb(simulator: Simulator, faults: object, name = "first"): Promise<void> {
  const response = await fetch(`${found(simulator, name).logUrl}/faults`, {
    method: "POST",
    body: JSON.stringify(faults),
  });
  expect(response.status).toBe(200);
}

const until = (condition: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(condition, { timeout: 8_000, interval: 5 });

let plainNumbers = 0;

/** A text submitted now and wholly delivered shows that what was due before it has come. */
async function everythingDueHasCome(client: Client): Promise<void> {
  const number = `1370000${String(++plainNumbers).padStart(4, "0")}`;
  client.submit(number);
  await until(() => expect(client.receipts(number)).toHaveLength(1));
}

describe.each([
  ["first", "3.0"],
  ["second", "2.0"],
])("a text to a number that chooses a fate, at %s (CMPP %s)", (name) => {
  const start = async () => {
    const simulator = await simulate();
    return { simulator, client: await login(simulator, name) };
  };

  it.each([
    ["13800138000", ["DELIVRD"]],
    ["13899990999", ["DELIVRD"]],
    ["13899990100", ["DELIVRD"]],
    ["13899990001", ["UNDELIV"]],
    ["13899990002", ["EXPIRED"]],
    ["13899990003", ["REJECTD"]],
    ["13899990005", ["XYZ:001"]],
    ["13899990006", ["ACCEPTD", "DELIVRD"]],
    ["13899990205", ["DELIVRD", "DELIVRD", "DELIVRD"]],
    ["13899990206", ["UNDELIV", "DELIVRD"]],
    ["13899990207", ["DELIVRD", "UNDELIV"]],
    ["13899990211", ["DELIVRD"]],
    ["13899990214", ["UNDELIV", "DELIVRD"]],
  ])("%s is accepted, then %j under the same Msg_Id", async (number, stats) => {
    const { client } = await start();
    client.submit(number);
    await until(() => expect(client.receipts(number)).toHaveLength(stats.length));
    expect(client.answers(number)).toMatchObject([{ result: 0, late: false }]);
    expect(client.receipts(number).map(({ stat }) => stat)).toEqual(stats);
    const ids = new Set(client.seen.map(({ msgId }) => msgId));
    expect(ids.size).toBe(1);
    expect(client.seen[0]?.what).toBe("answer");
  });

  it.each(Array.from({ length: 13 }, (_, i) => i + 1))("01nn is answered %i, every time", async (result) => {
    const { client } = await start();
    const number = `138999901${String(result).padStart(2, "0")}`;
    client.submit(number);
    client.submit(number);
    await until(() => expect(client.answers(number)).toHaveLength(2));
    await everythingDueHasCome(client);
    expect(client.answers(number)).toMatchObject([{ result }, { result }]);
    expect(client.receipts(number)).toEqual([]);
  });

  it("0004 is accepted and never told about again", async () => {
    const { client, simulator } = await start();
    client.submit("13899990004");
    await everythingDueHasCome(client);
    expect(client.answers("13899990004")).toMatchObject([{ result: 0 }]);
    expect(client.receipts("13899990004")).toEqual([]);
    await until(() => expect(found(simulator, name).stats()).toMatchObject({ receiptsOwed: 0 }));
  });

  it("0120 is throttled three times, then accepted; the next text with the same words again", async () => {
    const { client } = await start();
    const number = "13899990120";
    for (let i = 1; i <= 8; i++) {
      client.submit(number);
      await until(() => expect(client.answers(number)).toHaveLength(i));
    }
    expect(client.answers(number).map(({ result }) => result)).toEqual([8, 8, 8, 0, 8, 8, 8, 0]);
    await until(() => expect(client.receipts(number)).toHaveLength(2));
  });

  it("0121 is throttled for ever", async () => {
    const { client } = await start();
    for (let i = 0; i < 10; i++) client.submit("13899990121");
    await until(() => expect(client.answers("13899990121")).toHaveLength(10));
    expect(new Set(client.answers("13899990121").map(({ result }) => result))).toEqual(new Set([8]));
  });

  it("0201 has its receipt first, its answer 2 s later", async () => {
    const { client } = await start();
    client.submit("13899990201");
    await until(() => expect(client.answers("13899990201")).toHaveLength(1));
    const [receipt, answer] = client.seen;
    expect(receipt).toMatchObject({ what: "receipt", msgId: answer?.msgId });
    expect((answer?.at ?? 0) - (receipt?.at ?? 0)).toBeGreaterThan(SECOND_MS);
  });

  it("0202 has a receipt and no answer, 0203 neither", async () => {
    const { client, simulator } = await start();
    client.submit("13899990202");
    client.submit("13899990203");
    await until(() => expect(client.receipts("13899990202")).toHaveLength(1));
    await everythingDueHasCome(client);
    expect(client.answers("13899990202")).toEqual([]);
    expect(client.answers("13899990203")).toEqual([]);
    expect(client.receipts("13899990203")).toEqual([]);
    const [record] = await witnessed<SubmitRecord[]>(simulator, "/submits?to=13899990203", name);
    expect(record).toMatchObject({ result: null });
  });

  it("0204 is answered three times", async () => {
    const { client } = await start();
    client.submit("13899990204");
    await until(() => expect(client.receipts("13899990204")).toHaveLength(1));
    expect(client.answers("13899990204").map(({ late }) => late)).toEqual([false, true, true]);
    expect(new Set(client.seen.map(({ msgId }) => msgId)).size).toBe(1);
  });

  it("0208 has its receipt on another connection of the account", async () => {
    const { client, simulator } = await start();
    const other = await login(simulator, name);
    client.submit("13899990208");
    other.submit("13999990208");
    await until(() => expect(other.receipts("13899990208")).toHaveLength(1));
    await until(() => expect(client.receipts("13999990208")).toHaveLength(1));
  });

  it("0208 with one connection waits for another", async () => {
    const { client, simulator } = await start();
    client.submit("13899990208");
    await everythingDueHasCome(client);
    expect(client.receipts("13899990208")).toEqual([]);
    const other = await login(simulator, name);
    await until(() => expect(other.receipts("13899990208")).toHaveLength(1));
  });

  it("0209 cuts the connection, and its receipt comes after the reconnect", async () => {
    const { client, simulator } = await start();
    const bystander = await login(simulator, name);
    client.submit("13899990209");
    await until(() => expect(client.closings).toHaveLength(1));
    await everythingDueHasCome(bystander);
    expect(bystander.receipts("13899990209")).toEqual([]);
    expect(client.answers("13899990209")).toEqual([]);
    const again = await login(simulator, name);
    await until(() =>
      expect([...again.receipts("13899990209"), ...bystander.receipts("13899990209")]).toHaveLength(1),
    );
  });

  it("0210 is answered with an all-zero Msg_Id, and its receipt has one", async () => {
    const { client } = await start();
    client.submit("13899990210");
    await until(() => expect(client.receipts("13899990210")).toHaveLength(1));
    expect(client.answers("13899990210")).toMatchObject([{ result: 0, msgId: NO_MSG_ID }]);
    expect(client.receipts("13899990210")[0]?.msgId).not.toBe(NO_MSG_ID);
  });

  it("0212 is answered after the response timeout, its receipt right behind", async () => {
    const { client } = await start();
    client.submit("13899990212");
    await until(() => expect(client.receipts("13899990212")).toHaveLength(1));
    expect(client.answers("13899990212")).toMatchObject([{ result: 0, late: true }]);
    expect(client.seen.map(({ what }) => what)).toEqual(["answer", "receipt"]);
  });

  it("0213 has a receipt for nothing that anybody submitted", async () => {
    const { client, simulator } = await start();
    client.submit("13899990213");
    await until(() => expect(client.receipts("13899990213")).toHaveLength(1));
    const submits = await witnessed<SubmitRecord[]>(simulator, "/submits", name);
    expect(submits.map(({ msgId }) => msgId)).not.toContain(client.receipts("13899990213")[0]?.msgId);
  });
});

describe("a text of three parts", () => {
  const submitThree = async (number: string) => {
    const simulator = await simulate();
    const client = await login(simulator);
    for (const part of [1, 2, 3]) client.submit(number, `part ${part}`, { part, parts: 3 });
    await until(() => expect(client.answers(number)).toHaveLength(3));
    await everythingDueHasCome(client);
    const partOf = new Map(
      client.answers(number).map(({ msgId, key }) => [msgId, Number(key?.split("/")[1])]),
    );
    const receipts = client.receipts(number).map(({ msgId, stat }) => `${partOf.get(msgId)} ${stat}`);
    return { answers: client.answers(number), receipts: receipts.sort() };
  };

  it("to 0301 has a receipt for the first part only, to 0302 for the last", async () => {
    expect((await submitThree("13899990301")).receipts).toEqual(["1 DELIVRD"]);
    expect((await submitThree("13899990302")).receipts).toEqual(["3 DELIVRD"]);
  });

  it("to 0303 fails in its second part", async () => {
    expect((await submitThree("13899990303")).receipts).toEqual(["1 DELIVRD", "2 UNDELIV", "3 DELIVRD"]);
  });

  it("to 0304 is answered from the last part on, and its receipts come in another order", async () => {
    const { answers } = await submitThree("13899990304");
    expect(answers.map(({ key }) => key)).toEqual(["13899990304/3", "13899990304/2", "13899990304/1"]);
    const simulator = await simulate();
    const client = await login(simulator);
    for (const part of [1, 2, 3]) client.submit("13899990304", `part ${part}`, { part, parts: 3 });
    await until(() => expect(client.receipts("13899990304")).toHaveLength(3));
    const ids = client.answers("13899990304").map(({ msgId }) => msgId);
    expect(client.receipts("13899990304").map(({ msgId }) => ids.indexOf(msgId))).toEqual([0, 2, 1]);
  });

  it("to 0304 is answered also when a part never comes", async () => {
    const client = await login(await simulate());
    for (const part of [1, 2]) client.submit("13899990304", `part ${part}`, { part, parts: 3 });
    await until(() =>
      expect(client.answers("13899990304").map(({ key }) => key)).toEqual(["13899990304/2", "13899990304/1"]),
    );
  });

  it("to 0305 is rejected in its second part", async () => {
    const { answers, receipts } = await submitThree("13899990305");
    expect(answers.map(({ result }) => result)).toEqual([0, 9, 0]);
    expect(receipts).toEqual(["1 DELIVRD", "3 DELIVRD"]);
  });
});

describe("the supplier that first received a number", () => {
  it.each([
    ["13899990501", [9], [], ["DELIVRD"]],
    ["13899990502", [0], ["UNDELIV"], ["DELIVRD"]],
    ["13899990503", [0], ["UNDELIV", "DELIVRD"], ["DELIVRD"]],
  ])("treats %s its own way, also after a restart", async (number, results, firstStats, secondStats) => {
    const dataDir = newFolder();
    for (const order of ["first", "reversed"] as const) {
      const simulator = await simulate({ dataDir });
      // The 2.0 supplier received it first, in the first run: nothing that comes later changes that.
      const first = await login(simulator, "second");
      const second = await login(simulator, "first");
      const atFirst = async () => {
        first.submit(number);
        await until(() => expect(first.answers(number)).toMatchObject(results.map((result) => ({ result }))));
        await until(() => expect(first.receipts(number).map(({ stat }) => stat)).toEqual(firstStats));
      };
      const atSecond = async () => {
        second.submit(number);
        await until(() => expect(second.receipts(number).map(({ stat }) => stat)).toEqual(secondStats));
      };
      if (order === "first") await atFirst();
      await atSecond();
      if (order === "reversed") await atFirst();
      await simulator.stop();
    }
  });
});

describe("a receipt without its DELIVER_RESP", () => {
  const number = "13800138000";

  it("is sent again at once after a reconnect", async () => {
    const simulator = await simulate();
    const client = await login(simulator);
    client.store = () => Promise.reject(new Error("database away"));
    client.submit(number);
    await until(() => expect(client.receipts(number)).toHaveLength(1));
    client.session.destroy();
    const again = await login(simulator);
    await until(() => expect(again.receipts(number)).toHaveLength(1));
    await until(() => expect(found(simulator, "first").stats()).toMatchObject({ receiptsOwed: 0 }));
    expect(again.receipts(number)[0]?.msgId).toBe(client.receipts(number)[0]?.msgId);
  });

  it("is sent again after 60 s on a connection that stayed", async () => {
    const simulator = await simulate();
    const client = await login(simulator);
    client.store = () =>
      client.receipts(number).length === 1 ? Promise.reject(new Error()) : Promise.resolve();
    client.submit(number);
    await until(() => expect(client.receipts(number)).toHaveLength(2));
    const [once, again] = client.receipts(number);
    expect((again?.at ?? 0) - (once?.at ?? 0)).toBeGreaterThan(55 * SECOND_MS);
    await until(() => expect(found(simulator, "first").stats()).toMatchObject({ receiptsOwed: 0 }));
  });

  it("is kept over a restart, and forgotten once answered", async () => {
    const dataDir = newFolder();
    const simulator = await simulate({ dataDir });
    const client = await login(simulator);
    client.store = () => Promise.reject(new Error("database away"));
    client.submit(number);
    client.submit("13800138001");
    await until(() => expect(client.receipts("13800138001")).toHaveLength(1));
    await simulator.stop();

    const restarted = await simulate({ dataDir });
    const again = await login(restarted);
    await until(() => expect(again.receipts(number)).toHaveLength(1));
    await until(() => expect(again.receipts("13800138001")).toHaveLength(1));
    await until(() => expect(found(restarted, "first").stats()).toMatchObject({ receiptsOwed: 0 }));
    await restarted.stop();

    const third = await simulate({ dataDir });
    const quiet = await login(third);
    await everythingDueHasCome(quiet);
    expect(quiet.receipts(number)).toEqual([]);
  });

  it("is asked for by nobody who set Registered_Delivery to 0", async () => {
    const simulator = await simulate();
    const raw = await RawClient.login(simulator);
    raw.submit({ registeredDelivery: 0 });
    await until(() => expect(raw.of("submit_resp")).toHaveLength(1));
    expect(found(simulator, "first").stats()).toMatchObject({ receiptsOwed: 0, accepted: 1 });
  });
});

describe("the witness log", () => {
  it("tells every SUBMIT as read off the wire, of its own supplier alone", async () => {
    const simulator = await simulate();
    const client = await login(simulator);
    for (const part of [1, 2]) client.submit("13800138000", `part ${part}`, { part, parts: 2 });
    client.submit("13800138001");
    await until(() => expect(client.receipts("13800138001")).toHaveLength(1));
    const records = await witnessed<SubmitRecord[]>(simulator, "/submits?to=13800138000");
    expect(records).toMatchObject([
      { to: "13800138000", srcId: "10690001", part: 1, parts: 2, ref: 0x2a, result: 0 },
      { to: "13800138000", part: 2, parts: 2, ref: 0x2a, result: 0 },
    ]);
    expect(records[0]?.textHex).toBe(`0500032a0201${Buffer.from("part 1").toString("hex")}`);
    expect(records.map(({ msgId }) => msgId)).toEqual(
      client.answers("13800138000").map(({ msgId }) => msgId),
    );
    expect(await witnessed<SubmitRecord[]>(simulator, "/submits")).toHaveLength(3);
    expect(await witnessed<SubmitRecord[]>(simulator, "/submits", "second")).toEqual([]);
    const [receipt] = await witnessed<ReceiptRecord[]>(simulator, "/receipts?to=13800138001");
    expect(receipt).toMatchObject({ stat: "DELIVRD", msgId: client.answers("13800138001")[0]?.msgId });
    expect(await witnessed(simulator, "/stats")).toMatchObject({
      submits: 3,
      accepted: 3,
      receiptsSent: 3,
      maxPerSecond: 3,
      windowViolations: 0,
      rateViolations: 0,
      connections: 1,
    });
  });

  it("survives restarts, and a line that a kill left half written", async () => {
    const dataDir = newFolder();
    const simulator = await simulate({ dataDir });
    const client = await login(simulator);
    client.submit("13800138000");
    await until(() => expect(client.receipts("13800138000")).toHaveLength(1));
    const before = await witnessed<SubmitRecord[]>(simulator, "/submits");
    await simulator.stop();
    appendFileSync(join(dataDir, "first", "submits.jsonl"), '{"at":"2026-');

    const restarted = await simulate({ dataDir });
    const again = await login(restarted);
    again.submit("13800138000");
    await until(() => expect(again.receipts("13800138000")).toHaveLength(1));
    const after = await witnessed<SubmitRecord[]>(restarted, "/submits?to=13800138000");
    expect(after).toHaveLength(2);
    expect(after[0]).toEqual(before[0]);
    expect(after[1]?.connection).not.toBe(after[0]?.connection);
    expect(after[1]?.msgId).not.toBe(after[0]?.msgId);
    expect(await witnessed(restarted, "/stats")).toMatchObject({ submits: 2, accepted: 2 });
  });

  it("says what is wrong with a fault that it does not know", async () => {
    const simulator = await simulate();
    for (const body of ['{"explode":true}', "{", '{"delayMs":-1}']) {
      const response = await fetch(`${found(simulator, "first").logUrl}/faults`, { method: "POST", body });
      expect(response.status).toBe(400);
    }
  });
});

describe("receipts on the wire", () => {
  it("of 0214 come in one write", async () => {
    const raw = await RawClient.login(await simulate());
    raw.submit({ destinations: ["13899990214"] });
    await until(() => expect(raw.of("deliver")).toHaveLength(2));
    expect(raw.deliversInChunk).toContain(2);
  });

  it("wait for room in the window of unanswered DELIVERs", async () => {
    const simulator = await simulate({ deliverWindow: 1 });
    const raw = await RawClient.login(simulator);
    raw.submit({ destinations: ["13800138000"] });
    raw.submit({ destinations: ["13800138001"] });
    await until(() => expect(raw.of("deliver")).toHaveLength(1));
    // Another account's text, submitted now and told about, shows that time has passed.
    await everythingDueHasCome(await login(simulator, "second"));
    expect(raw.of("deliver")).toHaveLength(1);
    const [first] = raw.of("deliver");
    if (first === undefined) throw new Error("unreachable");
    raw.send({ command: "deliver_resp", sequenceId: first.sequenceId, msgId: NO_MSG_ID, result: 0 });
    await until(() => expect(raw.of("deliver")).toHaveLength(2));
  });

  it("that were answered with an error are kept and sent again", async () => {
    const simulator = await simulate();
    const raw = await RawClient.login(simulator);
    raw.submit({});
    await until(() => expect(raw.of("deliver")).toHaveLength(1));
    const [first] = raw.of("deliver");
    if (first === undefined) throw new Error("unreachable");
    raw.send({ command: "deliver_resp", sequenceId: first.sequenceId, msgId: first.msgId, result: 9 });
    await until(() => expect(raw.of("deliver")).toHaveLength(2));
    expect(raw.of("deliver")[1]?.msgId).toBe(first.msgId);
  });
});

describe("limits and faults", () => {
  it("answers 8 over the window and counts it", async () => {
    const simulator = await simulate({ suppliers: [supplier("first", "3.0", { window: 2 })] });
    await disturb(simulator, { delayMs: 100 });
    const raw = await RawClient.login(simulator);
    for (let i = 0; i < 3; i++) raw.submit({});
    await until(() => expect(raw.of("submit_resp")).toHaveLength(3));
    expect(raw.of("submit_resp").map(({ result }) => result)).toEqual([8, 0, 0]);
    raw.submit({});
    await until(() => expect(raw.of("submit_resp")).toHaveLength(4));
    expect(raw.of("submit_resp")[3]?.result).toBe(0);
    expect(await witnessed(simulator, "/stats")).toMatchObject({
      windowViolations: 1,
      accepted: 3,
      rejected: 1,
    });
  });

  it("answers 8 over the rate and counts it", async () => {
    const simulator = await simulate();
    await disturb(simulator, { rate: 10 });
    const client = await login(simulator);
    for (let i = 0; i < 12; i++) client.submit("13800138000");
    await until(() => expect(client.answers("13800138000")).toHaveLength(12));
    const results = client.answers("13800138000").map(({ result }) => result);
    expect(results).toEqual([...Array.from({ length: 11 }, () => 0), 8]);
    expect(await witnessed(simulator, "/stats")).toMatchObject({ rateViolations: 1, maxPerSecond: 12 });
    await disturb(simulator, { rate: null });
    client.submit("13800138001");
    await until(() => expect(client.answers("13800138001")).toMatchObject([{ result: 0 }]));
  });

  it("cuts, refuses logins and takes them again", async () => {
    const simulator = await simulate();
    const client = await login(simulator);
    await disturb(simulator, { cut: true, refuseLogin: true });
    await until(() => expect(client.closings).toHaveLength(1));
    const { cmppPort, version } = found(simulator, "first");
    expect(await new Client(cmppPort, version).session.connect()).toEqual({
      ok: false,
      why: "auth",
      status: 3,
    });
    await disturb(simulator, { refuseLogin: 56 });
    expect(await new Client(cmppPort, version).session.connect()).toMatchObject({ why: "too_many" });
    await disturb(simulator, { refuseLogin: false });
    await login(simulator);
  });

  it("swallows everything in a black hole, and what was written comes out of it", async () => {
    const simulator = await simulate();
    const client = await login(simulator);
    await disturb(simulator, { blackhole: true });
    client.submit("13800138000");
    const { cmppPort, version } = found(simulator, "first");
    const late = new Client(cmppPort, version, { connectTimeoutMs: 100 });
    expect(await late.session.connect()).toEqual({ ok: false, why: "timeout" });
    expect(await witnessed(simulator, "/submits")).toEqual([]);
    await disturb(simulator, { blackhole: false });
    await until(() => expect(client.receipts("13800138000")).toHaveLength(1));
  });
});

describe("the end of a black hole", () => {
  it("lets a client in that gave up its old connections meanwhile", async () => {
    const simulator = await simulate({ suppliers: [supplier("first", "3.0", { connections: 8 })] });
    const eight = Array.from({ length: 8 });
    const old = await Promise.all(eight.map(() => login(simulator)));
    await disturb(simulator, { blackhole: true });
    for (const { session } of old) session.destroy();
    const { cmppPort, version } = found(simulator, "first");
    const connecting = eight.map(() => {
      const again = new Client(cmppPort, version);
      cleanups.push(() => again.session.destroy());
      return again.session.connect();
    });
    const open = { connections: 0, openConnections: 8 };
    await until(() => expect(found(simulator, "first").stats()).toMatchObject(open));
    await disturb(simulator, { blackhole: false });
    expect((await Promise.all(connecting)).map(({ ok }) => ok)).toEqual(eight.map(() => true));
  });
});

describe("logins", () => {
  it("need the right login, secret and version, and a free connection", async () => {
    const simulator = await simulate();
    const attempt = (name: string, version: CmppVersion, options: Partial<SessionOptions>) =>
      new Client(found(simulator, name).cmppPort, version, options).session.connect();
    expect(await attempt("first", "3.0", { secret: "wrong" })).toMatchObject({ why: "auth", status: 3 });
    expect(await attempt("first", "3.0", { spId: "910002" })).toMatchObject({ why: "auth", status: 2 });
    expect(await attempt("second", "3.0", {})).toMatchObject({ why: "version", status: 4 });
    await login(simulator);
    await login(simulator);
    expect(await attempt("first", "3.0", {})).toMatchObject({ why: "too_many", status: 56 });
    expect(found(simulator, "first").stats()).toMatchObject({ logins: 2, refusedLogins: 3, connections: 2 });
  });

  it.each(["padded", "bare"] as const)(
    "of four characters may be hashed %s (cmpp §14, 9)",
    async (shortLogin) => {
      const simulator = await simulate({ suppliers: [supplier("first", "2.0", { spId: "9101" })] });
      await login(simulator, "first", { spId: "9101", shortLogin });
    },
  );

  it("that do not come, and bytes that are no CMPP, end in a closed connection (cmpp §14, 23)", async () => {
    const simulator = await simulate({ loginTimeoutMs: 50 });
    const silent = await RawClient.connect(simulator);
    await until(() => expect(silent.hungUp).toBe(true));
    const web = await RawClient.connect(simulator);
    web.socket.write("GET / HTTP/1.1\r\n\r\n");
    await until(() => expect(web.hungUp).toBe(true));
    const eager = await RawClient.connect(simulator);
    eager.submit({});
    await until(() => expect(eager.hungUp).toBe(true));
    expect(eager.read).toEqual([]);
  });
});

describe("other requests", () => {
  it("are answered: heartbeat, cancel, query, and the goodbye last", async () => {
    const simulator = await simulate();
    const raw = await RawClient.login(simulator);
    raw.send({ command: "active_test", sequenceId: 2 });
    raw.send({ command: "cancel", sequenceId: 3, msgId: NO_MSG_ID });
    raw.send({ command: "query", sequenceId: 4, time: "20260801", queryType: 0, queryCode: "" });
    raw.send({ command: "terminate", sequenceId: 5 });
    await until(() => expect(raw.hungUp).toBe(true));
    expect(raw.read.map(({ command, sequenceId }) => [command, sequenceId])).toEqual([
      ["connect_resp", 1],
      ["active_test_resp", 2],
      ["cancel_resp", 3],
      ["query_resp", 4],
      ["terminate_resp", 5],
    ]);
  });

  it("refuse a SUBMIT for two numbers, and one for what is no number", async () => {
    const raw = await RawClient.login(await simulate());
    raw.submit({ destinations: ["13800138000", "13800138001"] });
    raw.submit({ destinations: ["hello"] });
    await until(() => expect(raw.of("submit_resp")).toHaveLength(2));
    expect(raw.of("submit_resp").map(({ result }) => result)).toEqual([1, 13]);
  });
});

/** A client without manners: it keeps no window and waits for nothing. */
class RawClient {
  readonly socket: Socket;
  readonly read: Pdu[] = [];
  /** How many DELIVERs each chunk from the network held. */
  readonly deliversInChunk: number[] = [];
  hungUp = false;
  #sequenceId = 100;

  private constructor(socket: Socket) {
    this.socket = socket;
    const framer = new Framer();
    socket.on("error", () => undefined);
    socket.on("close", () => (this.hungUp = true));
    socket.on("data", (chunk) => {
      const before = this.of("deliver").length;
      for (const frame of framer.push(chunk).frames) {
        const decoded = decode(frame, "3.0");
        if (decoded.ok) this.read.push(decoded.pdu);
      }
      this.deliversInChunk.push(this.of("deliver").length - before);
    });
    cleanups.push(() => socket.destroy());
  }

  static async connect(simulator: Simulator): Promise<RawClient> {
    const { cmppPort } = found(simulator, "first");
    const socket = await new Promise<Socket>((resolve) => {
      const opening: Socket = connect(cmppPort, "127.0.0.1", () => resolve(opening));
    });
    return new RawClient(socket);
  }

  static async login(simulator: Simulator, shortLogin: ShortLogin = "padded"): Promise<RawClient> {
    const client = await RawClient.connect(simulator);
    const timestamp = "0801093005";
    const authenticator = sourceAuthenticator("910001", "s3cr3t", timestamp, shortLogin);
    client.send({
      command: "connect",
      sequenceId: 1,
      sourceAddr: "910001",
      authenticator,
      version: 0x30,
      timestamp,
    });
    await until(() => expect(client.of("connect_resp")).toMatchObject([{ status: 0 }]));
    return client;
  }

  send(pdu: Pdu): void {
    this.socket.write(encode(pdu, "3.0"));
  }

  submit(fields: { registeredDelivery?: number; destinations?: string[] }): void {
    const given = { msgSrc: "910001", srcId: "10690001", destinations: ["13800138000"], msgFmt: 0 };
    const content = Buffer.from("hello");
    this.send(submitPdu(++this.#sequenceId, submitFields({ ...given, content, ...fields })));
  }

  of<C extends Pdu["command"]>(command: C): (Pdu & { command: C })[] {
    return this.read.filter((pdu): pdu is Pdu & { command: C } => pdu.command === command);
  }
}
