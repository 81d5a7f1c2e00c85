/** What processes cost: CPU time and memory of each named one with its children, and of the machine beside. */
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { cpus } from "node:os";

export interface Usage {
  /** Since it began, children that ended included where the system tells. */
  cpuMs: number;
  /** Pages that it shares with others of its tree counted once. */
  residentBytes: number;
}

interface Process {
  parent: number;
  cpuMs: number;
  residentBytes: number;
  sharedBytes: number;
}

/** Of each named process with all below it; one that is gone is left out. */
export function usageOf(pids: Readonly<Record<string, number>>): Record<string, Usage> {
  const table = processTable();
  const children = new Map<number, number[]>();
  for (const [pid, { parent }] of table) children.set(parent, [...(children.get(parent) ?? []), pid]);
  const named = new Set(Object.values(pids));
  return Object.fromEntries(
    Object.entries(pids).flatMap(([name, pid]) => {
      const tree = treeOf(pid, children, named).flatMap((it) => table.get(it) ?? []);
      return tree.length === 0 ? [] : [[name, summed(tree)]];
    }),
  );
}

/** Below the supervisor stand all others, which are named themselves. */
function treeOf(pid: number, children: ReadonlyMap<number, number[]>, named: ReadonlySet<number>): number[] {
  const below = (children.get(pid) ?? []).filter((child) => !named.has(child));
  return [pid, ...below.flatMap((child) => treeOf(child, children, named))];
}

function summed(tree: readonly Process[]): Usage {
  const sum = (of: (it: Process) => number): number => tree.reduce((total, it) => total + of(it), 0);
  return {
    cpuMs: sum((it) => it.cpuMs),
    residentBytes:
      sum((it) => it.residentBytes - it.sharedBytes) + Math.max(...tree.map((it) => it.sharedBytes)),
  };
}

/** CPU time that all of the machine has spent working, in milliseconds over all its cores. */
export const machineCpuMs = (): number =>
  cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);

const processTable = (): Map<number, Process> =>
  process.platform === "linux" ? readProc() : readPs(execFileSync("ps", PS, { encoding: "utf8" }));

// ---- Linux --------------------------------------------------------------------------------------

/** Fixed by the kernel's interface to programs, whatever it ticks at inside. */
const MS_PER_TICK = 10;
const PAGE_BYTES = 4096;

function readProc(): Map<number, Process> {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return new Map(
    pids.flatMap((name) => {
      const found = readOne(name);
      return found === undefined ? [] : [[Number(name), found] as const];
    }),
  );
}

/** Fields are counted behind the name, which may hold spaces and brackets (proc(5)). */
function readOne(pid: string): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    const [, parent = 0] = fields;
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15);
    const [, resident = 0, shared = 0] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ").map(Number);
    return {
      parent,
      cpuMs: (user + system + endedUser + endedSystem) * MS_PER_TICK,
      residentBytes: resident * PAGE_BYTES,
      sharedBytes: shared * PAGE_BYTES,
    };
  } catch {
    return undefined; // It ended while it was read.
  }
}

// ---- elsewhere ----------------------------------------------------------------------------------

const PS = ["-A", "-o", "pid=,ppid=,time=,rss="];

/** Lines of `pid ppid [dd-]hh:mm:ss[.cc] kilobytes`. Exported for its test: no Linux needs it. */
export function readPs(listing: string): Map<number, Process> {
  return new Map(
    listing
      .trim()
      .split("\n")
      .map((line) => {
        const [pid = "", parent = "", time = "", kilobytes = ""] = line.trim().split(/\s+/);
        return [
          Number(pid),
          {
            parent: Number(parent),
            cpuMs: timeMs(time),
            residentBytes: Number(kilobytes) * 1024,
            sharedBytes: 0,
          },
        ] as const;
      }),
  );
}

function timeMs(time: string): number {
  const [days, clock] = time.includes("-") ? time.split("-") : ["0", time];
  const seconds = (clock ?? "").split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return Math.round((Number(days) * 86_400 + seconds) * 1_000);
}
