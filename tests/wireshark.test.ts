/**
 * An outside witness of our CMPP: Wireshark's dissector reads the connection off the loopback interface,
 * finds nothing malformed, and sees in each field what we meant. It knows version 3.0 only (cmpp §16).
 */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ReceivedDeliver } from "../gateway-bridge/cmpp-deliver.ts";
import { CmppSession, type OutgoingSubmit, type SubmitAnswer } from "../gateway-bridge/cmpp-session.ts";
import { type Simulator, startSimulator } from "../gateway-bridge/simulator.ts";
import { until } from "./servers.ts";

const TSHARK = "tshark";
/** Asked by what it can do here: it may be installed and not allowed to listen. */
const sees = spawnSync(TSHARK, ["-i", "lo", "-a", "duration:0", "-w", "/dev/null"], { timeout: 15_000 });
const whyNot =
  sees.error !== undefined
    ? "tshark is not installed"
    : sees.status !== 0
      ? "tshark may not capture here"
      : "";

/** One PDU as Wireshark took it apart: the bytes of each field, in hex. */
type Seen = Map<string, string>;

const ACTIVE_TEST_RESP = "80000008";
const TERMINATE_RESP = "80000002";

const ascii = (content: string) => ({ msgFmt: 0, content: Buffer.from(content) });
const ucs2 = (content: string) => ({ msgFmt: 8, content: Buffer.from(content, "utf16le").swap16() });
const part = (number: number, content: string) => ({
  ...ucs2(content),
  content: Buffer.concat([Buffer.from([5, 0, 3, 0x2a, 2, number]), ucs2(content).content]),
  udhi: true,
  pkTotal: 2,
  pkNumber: number,
});
const TEXTS: OutgoingSubmit[] = [
  { destination: "13800138000", srcId: "10690001", ...ascii("hello") },
  { destination: "13800138001", srcId: "10690001", ...ucs2("【测试】验证码1234") },
  {
    destination: "13800138002",
    srcId: "106900010000000000001",
    serviceId: "MT0001",
    ...ascii("x".repeat(159)),
  },
  { destination: "13800138003", srcId: "10690001", ...part(1, "测".repeat(67)) },
  { destination: "13800138003", srcId: "10690001", ...part(2, "试") },
  // Refused with result 13, and rejected by a receipt.
  { destination: "13899990113", srcId: "10690001", ...ascii("no") },
  { destination: "13899990003", srcId: "10690001", ...ascii("no") },
];

let folder: string;
let simulator: Simulator;
let capture: ChildProcess | undefined;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "waybill-wireshark-"));
  simulator = await startSimulator({
    dataDir: path.join(folder, "simulator"),
    receiptDelayMs: 20,
    suppliers: [
      {
        name: "witnessed",
        version: "3.0",
        cmppPort: 0,
        logPort: 0,
        spId: "910001",
        secret: "s3cr3t",
        window: 16,
        rate: 1_000,
        connections: 1,
      },
    ],
  });
});
afterAll(async () => {
  capture?.kill("SIGKILL");
  await simulator.stop();
  await rm(folder, { recursive: true, force: true });
});

it.skipIf(whyNot !== "")(
  `every frame of a 3.0 connection is what we meant${whyNot === "" ? "" : ` (skipped: ${whyNot})`}`,
  async () => {
    const port = simulator.suppliers[0]?.cmppPort ?? 0;
    const file = await startCapture(port);

    const untilSeen = (command: string): Promise<Seen[]> =>
      until(`${command} is in the capture`, async () => {
        const { seen, malformed } = await dissect(file, port);
        expect(malformed).toEqual([]);
        return of(seen, command).length > 0 && seen;
      });
    const { answers, delivers } = await talk(port, () => untilSeen(ACTIVE_TEST_RESP));
    const pdus = await untilSeen(TERMINATE_RESP);
    expect(of(pdus, "00000001").map((it) => it.get("cmpp.connect.Source_Addr"))).toEqual([hex("910001")]);
    expect(of(pdus, "80000001").map((it) => it.get("cmpp.connect_resp.Status"))).toEqual(["00000000"]);
    expect(of(pdus, "00000004").map(submitOf)).toEqual(TEXTS.map(meant));
    expect(
      of(pdus, "80000004").map((it) => [it.get("cmpp.Msg_Id"), numberAt(it, "cmpp.submit_resp.Result")]),
    ).toEqual(answers.map((it) => [it.msgId, it.result]));
    expect(of(pdus, "00000005").map(receiptOf)).toEqual(
      delivers.map((it) => (it.kind === "receipt" ? [it.srcId, it.number, it.stat] : it)),
    );
    expect(of(pdus, "80000005").map((it) => numberAt(it, "cmpp.deliver_resp.Result"))).toEqual(
      delivers.map(() => 0),
    );
    expect(of(pdus, "00000008").length).toBeGreaterThan(0);
    expect(of(pdus, "80000008").length).toBe(of(pdus, "00000008").length);
    expect(of(pdus, "00000002")).toHaveLength(1);
    expect(sequences(pdus, (it) => command(it) < 0x8000_0000 && command(it) !== 5)).toEqual(
      sequences(pdus, (it) => command(it) >= 0x8000_0000 && command(it) !== 0x8000_0005),
    );
  },
);

// ---- what is captured ---------------------------------------------------------------------------

async function talk(
  port: number,
  untilAsked: () => Promise<unknown>,
): Promise<{ answers: SubmitAnswer<number>[]; delivers: ReceivedDeliver[] }> {
  const answers: SubmitAnswer<number>[] = [];
  const delivers: ReceivedDeliver[] = [];
  const session = new CmppSession<number>(
    {
      host: "127.0.0.1",
      port,
      version: "3.0",
      spId: "910001",
      secret: "s3cr3t",
      window: 16,
      responseTimeoutMs: 5_000,
      connectTimeoutMs: 5_000,
      heartbeatIdleMs: 200,
      heartbeatTimeoutMs: 5_000,
    },
    {
      response: (answer) => answers.push(answer),
      unanswered: () => undefined,
      deliver: (deliver) => Promise.resolve(void delivers.push(deliver)),
      closed: () => undefined,
    },
  );
  expect(await session.connect()).toMatchObject({ ok: true, serverAuthenticated: true });
  for (const [index, text] of TEXTS.entries()) session.submit(index, { registeredDelivery: 1, ...text });
  await until("everything is answered and told", () =>
    Promise.resolve(answers.length === TEXTS.length && delivers.length === TEXTS.length - 1),
  );
  await untilAsked();
  await session.terminate();
  return { answers, delivers };
}

/** Runs once a packet of ours is in the file: until then nobody knows that it listens. */
async function startCapture(port: number): Promise<string> {
  const file = path.join(folder, "capture.pcapng");
  capture = spawn(TSHARK, ["-i", "lo", "-f", `tcp port ${port}`, "-w", file, "-q"], { stdio: "ignore" });
  const size = async (): Promise<number> => (await stat(file).catch(() => ({ size: 0 }))).size;
  const empty = await until("the capture has begun", size);
  await until("the capture sees a probe", async () => {
    const probe = connect(port, "127.0.0.1");
    probe.on("connect", () => probe.destroy());
    return (await size()) > empty;
  });
  return file;
}

// ---- what Wireshark says of it ------------------------------------------------------------------

const run = promisify(execFile);

async function dissect(file: string, port: number): Promise<{ seen: Seen[]; malformed: string[] }> {
  // A capture that still runs ends in the middle of a packet: what is whole counts.
  const { stdout } = await run(TSHARK, ["-r", file, "-d", `tcp.port==${port},cmpp`, "-T", "pdml"], {
    maxBuffer: 64 << 20,
  }).catch((error: { stdout?: string }) => ({ stdout: error.stdout ?? "" }));
  const seen = [...stdout.matchAll(/<proto name="cmpp"[\s\S]*?<\/proto>/g)].map(([pdu]) => fieldsOf(pdu));
  const malformed = [...stdout.matchAll(/name="(_ws\.malformed|_ws\.unreassembled|_ws\.short)"/g)];
  return { seen, malformed: malformed.map((it) => it[1] ?? "") };
}

function fieldsOf(pdu: string): Seen {
  const fields: Seen = new Map();
  for (const [, name = "", value = ""] of pdu.matchAll(
    /<field name="(cmpp\.[^"]*)"[^>]*? value="([0-9a-f]*)"/g,
  )) {
    if (!fields.has(name)) fields.set(name, value);
  }
  return fields;
}

const hex = (text: string): string => Buffer.from(text, "latin1").toString("hex");
const numberAt = (pdu: Seen, field: string): number => Number.parseInt(pdu.get(field) ?? "", 16);
const textAt = (pdu: Seen, field: string): string =>
  Buffer.from(pdu.get(field) ?? "", "hex")
    .toString("latin1")
    .replace(/\0+$/, "");
const command = (pdu: Seen): number => numberAt(pdu, "cmpp.Command_Id");
const of = (pdus: readonly Seen[], id: string): Seen[] =>
  pdus.filter((it) => it.get("cmpp.Command_Id") === id);
const sequences = (pdus: readonly Seen[], which: (pdu: Seen) => boolean): number[] =>
  pdus
    .filter(which)
    .map((it) => numberAt(it, "cmpp.Sequence_Id"))
    .sort((a, b) => a - b);

const submitOf = (pdu: Seen) => ({
  to: textAt(pdu, "cmpp.Dest_terminal_Id"),
  srcId: textAt(pdu, "cmpp.submit.Src_Id"),
  serviceId: textAt(pdu, "cmpp.Servicd_Id"),
  msgSrc: textAt(pdu, "cmpp.submit.Msg_src"),
  msgFmt: numberAt(pdu, "cmpp.Msg_Fmt"),
  udhi: numberAt(pdu, "cmpp.TP_udhi"),
  parts: numberAt(pdu, "cmpp.submit.Pk_total"),
  part: numberAt(pdu, "cmpp.submit.Pk_number"),
  receipt: numberAt(pdu, "cmpp.submit.Registered_Delivery"),
  numbers: numberAt(pdu, "cmpp.submit.DestUsr_tl"),
  bytes: numberAt(pdu, "cmpp.Msg_Length"),
  content: pdu.get("cmpp.Msg_Content"),
});

const meant = (text: OutgoingSubmit): ReturnType<typeof submitOf> => ({
  to: text.destination,
  // The dissector shows 17 of its 21 octets, and finds the field behind it in the right place.
  srcId: text.srcId.slice(0, 17),
  serviceId: text.serviceId ?? "",
  msgSrc: "910001",
  msgFmt: text.msgFmt,
  udhi: text.udhi === true ? 1 : 0,
  parts: text.pkTotal ?? 1,
  part: text.pkNumber ?? 1,
  receipt: 1,
  numbers: 1,
  bytes: text.content.length,
  content: text.content.toString("hex"),
});

const receiptOf = (pdu: Seen): string[] => [
  textAt(pdu, "cmpp.deliver.Dest_Id"),
  textAt(pdu, "cmpp.deliver.Src_terminal_Id"),
  textAt(pdu, "cmpp.deliver.Report.Status"),
];
