/**
 * Which fault comes when, from a seed alone: first every named point once in an order drawn by lot, one
 * mode each; then every other fault once; from then on whatever the lot says.
 */
import { type Mode, type PointName, POINTS } from "../fault-points/points.ts";
import { type Random, randomFrom } from "./random.ts";

export type FaultyRole = "api" | "attempts" | "results" | "notifier" | "sweeper" | "gateway";
export type FaultyServer = "postgres" | "redis" | "temporal";

const ROLES: readonly FaultyRole[] = ["api", "attempts", "results", "notifier", "sweeper", "gateway"];

/** Which servers a role talks to: only a way that is used can be cut. */
const WAYS: Readonly<Record<FaultyRole, readonly FaultyServer[]>> = {
  api: ["postgres"],
  attempts: ["postgres", "redis", "temporal"],
  results: ["postgres", "redis", "temporal"],
  notifier: ["postgres"],
  sweeper: ["postgres", "redis", "temporal"],
  gateway: ["postgres", "redis"],
};

export const SERVER_FAULTS = [
  "postgres_kill",
  "redis_kill",
  "redis_flush",
  "redis_empty",
  "redis_group",
  "temporal_kill",
  "temporal_wiped",
  "connections_full",
] as const;
export type ServerFault = (typeof SERVER_FAULTS)[number];

export const SUPPLIER_FAULTS = ["cut", "blackhole", "refuse_login", "slow", "throttle"] as const;
export type SupplierFault = (typeof SUPPLIER_FAULTS)[number];

export type Fault =
  /** Ordered at a named point; `provoke` brings about what has to be wrong for the point to be passed. */
  | { kind: "point"; point: PointName; mode: Mode; hangMs: number; provoke?: Provocation }
  | { kind: "kill"; role: FaultyRole | "simulator" }
  /** SIGSTOP for longer than any lease of the role, then SIGCONT. */
  | { kind: "pause"; role: FaultyRole; ms: number }
  | { kind: "server"; what: ServerFault }
  /** The network between a role and a server: connections end at once, or bytes vanish. */
  | { kind: "way"; role: FaultyRole; server: FaultyServer; how: "cut" | "blackhole"; ms: number }
  | { kind: "supplier"; position: number; how: SupplierFault; ms: number };

/** What else has to go wrong, so that somebody puts it right. */
export type Provocation = "redis_away" | "stream_lost" | "gateway_killed" | "tell_lost" | "temporal_wiped";

export interface Cycle {
  number: number;
  fault: Fault;
}

export interface Wishes {
  seed: number;
  cycles: number;
  /** Nothing but these points, over and over; all points and all other faults where it is left out. */
  points?: readonly PointName[];
  suppliers: number;
  /** Leaves out what cannot be over within seconds, where a point has a quicker mode. */
  quick?: boolean;
}

const HALF_AS_LATE_AGAIN = 1.5;
/** Beyond the outbox lease (5 s), the claim of abandoned entries (2.5 s) and a stale heartbeat (10 s). */
const PAUSE_MS: Readonly<Record<FaultyRole, number>> = {
  api: 6_000,
  attempts: 7_500,
  results: 7_500,
  notifier: 7_500,
  sweeper: 7_500,
  gateway: 12_000,
};
const OUTAGE_MS = 3_000;
/** A hang that takes longer is not for a quick round. */
const QUICK_MS = 4_000;

const PROVOKED: Partial<Record<PointName, Provocation>> = {
  sweep_publish: "redis_away",
  sweep_lost: "stream_lost",
  sweep_unanswered: "gateway_killed",
  sweep_told: "tell_lost",
  sweep_rebuild: "temporal_wiped",
};

export const ALL_POINTS = Object.keys(POINTS) as PointName[];

/** So many cycles walk everything once. */
export const roundLength = ({ points, suppliers, quick = false }: Omit<Wishes, "cycles" | "seed">): number =>
  points?.length ?? ALL_POINTS.length + otherFaults(suppliers, quick).length;

export function scheduleOf(wishes: Wishes): Cycle[] {
  const random = randomFrom(wishes.seed, "schedule");
  const faults = [...firstRound(wishes, random)].slice(0, wishes.cycles);
  while (faults.length < wishes.cycles) faults.push(anyFault(wishes, random));
  return faults.map((fault, index) => ({ number: index + 1, fault }));
}

/** How a fault is called in figures: without what the lot added to it. */
export function nameOf(fault: Fault): string {
  switch (fault.kind) {
    case "point":
      return `point ${fault.point} ${fault.mode}`;
    case "kill":
    case "pause":
      return `${fault.kind} ${fault.role}`;
    case "server":
      return fault.what.replace("_", " ");
    case "way":
      return `${fault.how} ${fault.role} ${fault.server}`;
    case "supplier":
      return `supplier ${fault.how}`;
  }
}

function firstRound(wishes: Wishes, random: Random): Fault[] {
  const points = random.shuffled(wishes.points ?? ALL_POINTS);
  const walked = points.map((point) => faultAt(point, wishes.quick === true, random));
  if (wishes.points !== undefined) return walked;
  return [...walked, ...random.shuffled(otherFaults(wishes.suppliers, wishes.quick === true))];
}

/** Kills are what most cycles are about. */
function anyFault(wishes: Wishes, random: Random): Fault {
  const quick = wishes.quick === true;
  if (wishes.points !== undefined || random.chance(0.7)) {
    return faultAt(random.pick(wishes.points ?? ALL_POINTS), quick, random);
  }
  return random.pick(otherFaults(wishes.suppliers, quick));
}

function faultAt(point: PointName, quick: boolean, random: Random): Fault {
  const { modes, timeoutMs } = POINTS[point];
  const hangMs = timeoutMs * HALF_AS_LATE_AGAIN;
  const possible: readonly Mode[] = modes;
  const mode = random.pick(possible.filter((it) => it !== "hang" || !quick || hangMs <= QUICK_MS));
  const provoke = PROVOKED[point];
  return { kind: "point", point, mode, hangMs, ...(provoke === undefined ? {} : { provoke }) };
}

function otherFaults(suppliers: number, quick: boolean): Fault[] {
  const positions = Array.from({ length: suppliers }, (_, index) => index + 1);
  const all: Fault[] = [
    ...[...ROLES, "simulator" as const].map((role): Fault => ({ kind: "kill", role })),
    ...ROLES.map((role): Fault => ({ kind: "pause", role, ms: PAUSE_MS[role] })),
    ...SERVER_FAULTS.map((what): Fault => ({ kind: "server", what })),
    ...ROLES.flatMap((role) =>
      WAYS[role].flatMap((server): Fault[] => [
        { kind: "way", role, server, how: "cut", ms: OUTAGE_MS },
        { kind: "way", role, server, how: "blackhole", ms: OUTAGE_MS },
      ]),
    ),
    ...SUPPLIER_FAULTS.flatMap((how) =>
      positions.map((position): Fault => ({ kind: "supplier", position, how, ms: OUTAGE_MS })),
    ),
  ];
  return quick ? all.filter((it) => it.kind === "kill" || it.kind === "server") : all;
}
