/**
 * CMPP 2.0 as somebody else understood it: pycmpp reads what our client and our simulated supplier write,
 * and drives the supplier as a client of its own. (Wireshark, which judges 3.0, knows no 2.0.)
 */
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Framer } from "../gateway-bridge/cmpp-frames.ts";
import { CmppSession, type OutgoingSubmit, type SubmitAnswer } from "../gateway-bridge/cmpp-session.ts";
import { type Simulator, startSimulator } from "../gateway-bridge/simulator.ts";
import type { SubmitRecord } from "../gateway-bridge/simulator-witness.ts";
import { obtainPycmpp, runWithPycmpp } from "./pycmpp.ts";
import { until } from "./servers.ts";

const { folder: pycmpp, whyNot } = obtainPycmpp();
const why = whyNot === "" ? "" : ` (skipped: ${whyNot})`;

const [LOGIN, SECRET, SRC_ID] = ["910001", "s3cr3t", "10690001"];
let folder: string;
let simulator: Simulator;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "waybill-second-"));
  simulator = await startSimulator({
    dataDir: folder,
    receiptDelayMs: 10,
    suppliers: [
      {
        name: "second",
        version: "2.0",
        cmppPort: 0,
        logPort: 0,
        spId: LOGIN,
        secret: SECRET,
        window: 16,
        rate: 1_000,
        connections: 2,
      },
    ],
  });
});
afterAll(async () => {
  await simulator.stop();
  await rm(folder, { recursive: true, force: true });
});

const supplier = () => {
  const [only] = simulator.suppliers;
  if (only === undefined) throw new Error("no supplier");
  return only;
};
const ucs2 = (text: string): Buffer => Buffer.from(text, "utf16le").swap16();
const part = (number: number, text: string): Buffer =>
  Buffer.concat([Buffer.from([5, 0, 3, 0x2a, 2, number]), ucs2(text)]);

const TEXTS: OutgoingSubmit[] = [
  { destination: "13800138000", srcId: SRC_ID, msgFmt: 8, content: ucs2("【测试】验证码1234") },
  { destination: "13800138001", srcId: SRC_ID, msgFmt: 8, content: ucs2("😀"), serviceId: "MT0001" },
  ...[1, 2].map((number) => ({
    destination: "13800138002",
    srcId: SRC_ID,
    msgFmt: 8,
    content: part(number, "测".repeat(number === 1 ? 67 : 3)),
    udhi: true,
    pkTotal: 2,
    pkNumber: number,
  })),
];

describe("CMPP 2.0", () => {
  it.skipIf(whyNot !== "")(`as our client writes it is what pycmpp reads${why}`, async () => {
    const { sent, heard, answers } = await talk();
    const [login = "", ...rest] = sent;
    const read = (await runWithPycmpp(pycmpp, READ, {
      secret: SECRET,
      login,
      submits: rest.filter((it) => it.slice(8, 16) === "00000004"),
      loginAnswer: heard[0],
      answers: heard.filter((it) => it.slice(8, 16) === "80000004"),
    })) as Read;

    expect(read.login).toEqual({ version: 0x20, digestAgrees: true });
    expect(read.submits).toEqual(TEXTS.map(meant));
    expect(read.loginAnswer).toEqual({ status: 0, version: 0x20 });
    expect(read.answers).toEqual(answers.map(({ msgId, result }) => ({ msgId, result })));
  });

  it.skipIf(whyNot !== "")(`as pycmpp speaks it is understood by our supplier${why}`, async () => {
    const long = "长短信".repeat(40);
    const told = (await runWithPycmpp(pycmpp, SPEAK, {
      port: supplier().cmppPort,
      login: LOGIN,
      secret: SECRET,
      texts: ["你好，世界", long],
      number: "13700137000",
    })) as { status: number; answers: { msgId: string; result: number }[] };

    expect(told.status).toBe(0);
    const response = await fetch(`${supplier().logUrl}/submits?to=13700137000`);
    const [short, ...parts] = (await response.json()) as SubmitRecord[];
    expect([short, ...parts].map((it) => ({ msgId: it?.msgId, result: it?.result }))).toEqual(told.answers);
    expect(short).toMatchObject({
      part: 1,
      parts: 1,
      ref: null,
      textHex: ucs2("你好，世界").toString("hex"),
    });
    expect(parts.map((it) => [it.part, it.parts])).toEqual([
      [1, 2],
      [2, 2],
    ]);
    expect(new Set(parts.map((it) => it.ref)).size).toBe(1);
    const joined = parts.map((it) => Buffer.from(it.textHex, "hex").subarray(6));
    expect(Buffer.concat(joined).swap16().toString("utf16le")).toBe(long);
  });
});

// ---- what is said, and what pycmpp makes of it --------------------------------------------------

interface Read {
  login: { version: number; digestAgrees: boolean };
  submits: object[];
  loginAnswer: { status: number; version: number };
  answers: { msgId: string; result: number }[];
}

const meant = (text: OutgoingSubmit) => ({
  to: text.destination,
  srcId: text.srcId,
  serviceId: text.serviceId ?? "",
  msgSrc: LOGIN,
  parts: text.pkTotal ?? 1,
  part: text.pkNumber ?? 1,
  receipt: 1,
  udhi: text.udhi === true ? 1 : 0,
  msgFmt: text.msgFmt,
  bytes: text.content.length,
  text: Buffer.from(text.content.subarray(text.udhi === true ? 6 : 0))
    .swap16()
    .toString("utf16le"),
  reserve: "\0".repeat(8),
});

/** The texts over a tap that keeps every frame, in hex, of either side. */
async function talk(): Promise<{ sent: string[]; heard: string[]; answers: SubmitAnswer<number>[] }> {
  const [sent, heard] = [[] as string[], [] as string[]];
  const tap = createServer((near) => {
    const far = connect(supplier().cmppPort, "127.0.0.1");
    for (const [from, to, kept] of [
      [near, far, sent],
      [far, near, heard],
    ] as const) {
      const framer = new Framer();
      from.on("error", () => undefined).once("close", () => to.destroy());
      from.on("data", (chunk: Buffer) => {
        kept.push(...framer.push(chunk).frames.map((it) => it.toString("hex")));
        to.write(chunk);
      });
    }
  });
  await new Promise<void>((resolve) => tap.listen(0, "127.0.0.1", resolve));
  const answers: SubmitAnswer<number>[] = [];
  const session = new CmppSession<number>(
    {
      host: "127.0.0.1",
      port: (tap.address() as AddressInfo).port,
      version: "2.0",
      spId: LOGIN,
      secret: SECRET,
      window: 16,
      responseTimeoutMs: 10_000,
      connectTimeoutMs: 10_000,
      heartbeatIdleMs: 60_000,
      heartbeatTimeoutMs: 10_000,
    },
    {
      response: (answer) => answers.push(answer),
      unanswered: () => undefined,
      deliver: () => Promise.resolve(),
      closed: () => undefined,
    },
  );
  expect(await session.connect()).toMatchObject({ ok: true });
  for (const [index, text] of TEXTS.entries()) session.submit(index, text);
  await until("all are answered", () => Promise.resolve(answers.length === TEXTS.length));
  await session.terminate();
  tap.close();
  return { sent, heard, answers };
}

const READ = `
import json, sys
from pycmpp.request import SubmitRequestInstance
from pycmpp.response import ConnectResponseInstance, SubmitResponseInstance
from pycmpp.utils import Unpack, get_md5_digest
given = json.load(sys.stdin)
login = bytes.fromhex(given["login"])
timestamp, = Unpack.get_unsigned_long_data(login[35:39])
version, = Unpack.get_unsigned_char_data(login[34:35])
digest = get_md5_digest(login[12:18] + 9 * b"\\0" + given["secret"].encode() + b"%010d" % timestamp)
def submit(frame):
    it = SubmitRequestInstance().resolve(bytes.fromhex(frame))
    text = lambda name: it[name].rstrip("\\0")
    return {"to": text("dest_terminal_id"), "srcId": text("src_id"), "serviceId": text("service_id"),
            "msgSrc": it["msg_src"], "parts": it["pk_total"], "part": it["pk_number"],
            "receipt": it["register_delivery"], "udhi": it["tp_udhi"], "msgFmt": it["msg_fmt"],
            "bytes": it["msg_length"], "text": it["msg_content"], "reserve": it["reserve"]}
def answer(frame):
    it = SubmitResponseInstance()
    it.resolve(bytes.fromhex(frame))
    return {"msgId": "%016x" % it.msg_id, "result": it.status}
hello = ConnectResponseInstance()
hello.resolve(bytes.fromhex(given["loginAnswer"]))
print(json.dumps({
    "login": {"version": version, "digestAgrees": digest == login[18:34]},
    "submits": [submit(it) for it in given["submits"]],
    "loginAnswer": {"status": hello.status, "version": hello.version},
    "answers": [answer(it) for it in given["answers"]]}))
`;

const SPEAK = `
import json, os, sys, threading, time
from pycmpp import Cmpp
from pycmpp.cmpp_defines import CMPP_CONNECT_RESP, CMPP_SUBMIT_RESP
from pycmpp.handlers import CmppConnectRespHandler, CmppSubmitRespHandler
from pycmpp.response import ConnectResponseInstance, SubmitResponseInstance
given = json.load(sys.stdin)
logins, answers = [], []
def heard(kept, kind):
    def handle(cmpp, message):
        it = kind()
        it.resolve(message)
        return lambda: kept.append(it)
    return handle
client = Cmpp("127.0.0.1", given["port"], given["login"], given["secret"], "10690001")
client.handlers[CMPP_CONNECT_RESP] = heard(logins, ConnectResponseInstance)
client.handlers[CMPP_SUBMIT_RESP] = heard(answers, SubmitResponseInstance)
client.connect()
client.auth()
threading.Thread(target=client.receive, daemon=True).start()
def wait_for(kept, count):
    for _ in range(2000):
        if len(kept) >= count:
            return
        time.sleep(0.01)
    sys.exit("the supplier did not answer")
wait_for(logins, 1)
for text in given["texts"]:
    client.submit(text, [given["number"]])
wait_for(answers, 3)
client.terminate()
print(json.dumps({"status": logins[0].status,
    "answers": [{"msgId": "%016x" % it.msg_id, "result": it.status} for it in answers]}))
sys.stdout.flush()
os._exit(0)
`;
