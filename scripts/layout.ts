/** Which address, port and key everything of a copy has, decided before anything runs. */
import { CONNECTIONS, type DemoSeed, type DemoSupplier } from "../db/seed.ts";
import type { SupplierOptions } from "../gateway-bridge/simulator-supplier.ts";
import { supplierProfile } from "../gateway-bridge/supplier.ts";
import type { Copy, ServerAddresses } from "./copy.ts";
import { ROLES, type Role } from "./roles.ts";
import type { RunFile } from "./run-file.ts";
import { type Secrets, secretsOf } from "./secrets.ts";
import { temporalEnvironment } from "./start-servers.ts";

const HOST = "127.0.0.1";

/** Usual ports (interfaces §7); where there are several, the ones behind it follow. */
const USUAL = { api: 7080, cmpp: 7890, log: 7990, metrics: 9100 } as const;

/** In what one copy differs from another. */
export interface Shape {
  /** Simulated suppliers, at most nine; each third one speaks CMPP 2.0. */
  suppliers: number;
  /** All of them when not said; without any, only the servers run. */
  roles?: readonly Role[];
  /** Beside what every role is told. */
  roleEnvironment: Readonly<Record<string, string>>;
  /** Options of the simulator beside its suppliers (simulator-main.ts). */
  simulator: Readonly<Record<string, unknown>>;
  /** Where a role finds the servers, when something stands between them; run.json names the servers themselves. */
  seenBy?: (role: Role, servers: ServerAddresses) => Promise<ServerAddresses>;
}

/** The seed that is a contract (interfaces §1). */
export const DEMO: Shape = { suppliers: 3, roleEnvironment: {}, simulator: {} };

export interface Layout {
  shape: Shape;
  run: RunFile;
  seed: DemoSeed;
  simulated: SupplierOptions[];
  apiPort: number;
  metricsPorts: Record<Role, number>;
  /** Where each role finds the servers. */
  seenBy: Record<Role, Seen>;
}

interface Seen extends ServerAddresses {
  /** What Temporal's clients read from their environment. */
  temporal: Record<string, string>;
}

export async function layOut({ home, servers, choosePort }: Copy, shape: Shape): Promise<Layout> {
  const secrets = secretsOf(home, shape.suppliers);
  const apiPort = await choosePort("the API", USUAL.api);
  const metricsPorts = {} as Record<Role, number>;
  for (const [index, role] of ROLES.entries()) {
    metricsPorts[role] = await choosePort(`metrics of ${role}`, USUAL.metrics + index);
  }
  const cmppPorts: number[] = [];
  const logPorts: number[] = [];
  for (let index = 0; index < shape.suppliers; index++) {
    const { name } = supplierAt(index);
    cmppPorts.push(await choosePort(name, USUAL.cmpp + index));
    logPorts.push(await choosePort(`the witness log of ${name}`, USUAL.log + index));
  }
  const seenBy = {} as Record<Role, Seen>;
  for (const role of ROLES) {
    const seen = { ...servers, ...(await shape.seenBy?.(role, servers)) };
    seenBy[role] = { ...seen, temporal: temporalEnvironment(seen) };
  }
  const suppliers = demoSuppliers(secrets, cmppPorts);
  const simulated = suppliers.map((supplier, index) => simulatedSupplier(supplier, logPorts[index] ?? 0));
  return {
    shape,
    run: runFileOf(apiPort, metricsPorts, simulated, servers, secrets),
    seed: { ...secrets, suppliers },
    simulated,
    apiPort,
    metricsPorts,
    seenBy,
  };
}

/** Suppliers as the seed wants them, each on its port, the preferred one first. */
export const demoSuppliers = (secrets: Secrets, cmppPorts: readonly number[]): DemoSupplier[] =>
  cmppPorts.map((port, index) => ({
    ...supplierAt(index),
    host: HOST,
    port,
    secret: secrets.suppliers[index] ?? "",
  }));

function supplierAt(index: number): Pick<DemoSupplier, "id" | "name" | "version" | "spId"> {
  const position = index + 1;
  return {
    id: `sup_demo_${position}`,
    name: `supplier-${position}`,
    version: position % 3 === 0 ? "2.0" : "3.0",
    spId: `90000${position}`,
  };
}

/** A simulated supplier allows exactly what the gateway's profile of it keeps to. */
function simulatedSupplier(supplier: DemoSupplier, logPort: number): SupplierOptions {
  const { name, version, host, port, spId, secret } = supplier;
  const { window, ratePerSecond: rate } = supplierProfile.parse({ host, port, version, spId });
  return { name, version, cmppPort: port, logPort, spId, secret, window, rate, connections: CONNECTIONS };
}

function runFileOf(
  apiPort: number,
  metricsPorts: Record<Role, number>,
  simulated: readonly SupplierOptions[],
  servers: Copy["servers"],
  { apiKey, opsToken, viewerToken, webhookSecret }: Secrets,
): RunFile {
  const api = `http://${HOST}:${apiPort}`;
  return {
    api,
    console: `${api}/console`,
    temporalUi: servers.temporalUi ?? null,
    temporalAddress: servers.temporalAddress,
    databaseUrl: servers.databaseUrl,
    redisUrl: servers.redisUrl,
    metrics: Object.fromEntries(
      Object.entries(metricsPorts).map(([role, port]) => [role, `http://${HOST}:${port}/metrics`]),
    ),
    suppliers: simulated.map(({ name, version, cmppPort, logPort }) => ({
      name,
      version,
      cmppPort,
      logUrl: `http://${HOST}:${logPort}`,
    })),
    apiKey,
    opsToken,
    viewerToken,
    webhookSecret,
    pids: {},
  };
}
