/** The command line of the simulator as the document that its process reads (gateway-bridge/simulator-main.ts). */
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { HOME } from "./setup.mjs";

export const SIMULATOR_HELP = `Usage: npx waybill-simulator [options]

CMPP 2.0 and 3.0 suppliers whose behaviour the number decides (1xx9999CCCC), each with a witness log over HTTP:
GET /submits?to=, GET /receipts?to=, GET /stats, POST /faults, PUT /deviations. Without options: one supplier,
CMPP 3.0, port 7890, log 7990, login 900001, secret "secret". docs/gateway.md lists what it can be told to do.

  --supplier <key=value,...>   one supplier, may be given again: name, version (2.0 or 3.0), port, log, login,
                               secret, window, rate (submits a second), connections
  --deviations <json>          how all of them deviate from the protocol, for example
                               '{"stat":"lower_case","tailBytes":9}'
  --receipt-delay <ms>         from a submit to its receipt (300)
  --time-scale <factor>        on the seconds of the fates and of redelivery (1)
  --data <folder>              witness logs and owed receipts; goes on with what is there (.waybill/waybill-simulator)
  --host <address>             127.0.0.1
  --help                       show this`;

const FIELDS = {
  name: ["name", String],
  version: ["version", String],
  port: ["cmppPort", Number],
  log: ["logPort", Number],
  login: ["spId", String],
  secret: ["secret", String],
  window: ["window", Number],
  rate: ["rate", Number],
  connections: ["connections", Number],
};
const TEXT = { type: "string" };

/** @returns {{help?: boolean, wrong?: string, options?: object}} what is asked for, or what is wrong with it */
export function optionsOf(args) {
  try {
    const { values } = parseArgs({
      args,
      options: {
        supplier: { type: "string", multiple: true },
        deviations: TEXT,
        "receipt-delay": TEXT,
        "time-scale": TEXT,
        data: TEXT,
        host: TEXT,
        help: { type: "boolean" },
      },
    });
    return values.help ? { help: true } : { options: documentOf(values) };
  } catch (error) {
    return { wrong: error.message };
  }
}

function documentOf(values) {
  const dataDir = path.resolve(values.data ?? path.join(HOME, "waybill-simulator"));
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const deviations = values.deviations === undefined ? {} : JSON.parse(values.deviations);
  return {
    dataDir,
    ...(values.host === undefined ? {} : { host: values.host }),
    ...numberAt("receiptDelayMs", "--receipt-delay", values["receipt-delay"]),
    ...numberAt("timeScale", "--time-scale", values["time-scale"]),
    suppliers: (values.supplier ?? [""]).map((text, index) => ({ ...supplierAt(index, text), deviations })),
  };
}

function supplierAt(index, text) {
  const position = index + 1;
  const supplier = {
    name: `supplier-${position}`,
    version: "3.0",
    cmppPort: 7890 + index,
    logPort: 7990 + index,
    spId: `90000${position}`,
    secret: "secret",
    connections: 4,
  };
  for (const pair of text.split(",").filter(Boolean)) {
    const [key, ...value] = pair.split("=");
    const [field, read] = FIELDS[key] ?? [];
    if (field === undefined || value.length === 0) throw new Error(`--supplier does not know ${pair}`);
    supplier[field] = read(value.join("="));
    if (Number.isNaN(supplier[field])) throw new Error(`${key} of --supplier is a number`);
  }
  return supplier;
}

function numberAt(field, option, text) {
  if (text === undefined) return {};
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`${option} takes a number`);
  return { [field]: value };
}
