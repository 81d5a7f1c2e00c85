/**
 * The processes of one copy of Waybill: started, restarted when they die, stopped in order, and never
 * left behind (a reaper ends them when this process is killed).
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { closeSync, copyFileSync, existsSync, openSync, renameSync, statSync, truncateSync } from "node:fs";
import { setPriority } from "node:os";
import path from "node:path";
import { delay } from "../workers/service.ts";

/** How a process is run. */
export interface Recipe {
  name: string;
  /** What people call it. */
  title: string;
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  /** Beside `env` in its first life; when it is started again it is without. */
  firstLife?: Readonly<Record<string, string>>;
  uid?: number;
  gid?: number;
  niceness: number;
  stopSignal: NodeJS.Signals;
  /** Its standard input stays open for as long as we live: it ends itself when that closes. */
  tethered?: boolean;
}

export interface Children {
  /** Starts it and keeps it running until `stop`. */
  add(recipe: Recipe): void;
  names(): readonly string[];
  /** How often it has died without ever living for long since it was started. */
  deathsInARow(name: string): number;
  logOf(name: string): string;
  /** kill -9, resolved when it is gone; it is started again like any that dies. */
  crash(name: string): Promise<void>;
  /** Ends the named ones together, and waits until they are gone. */
  stop(names: readonly string[]): Promise<void>;
  /** Ends everything at once, without asking. */
  kill(): void;
  /** When all are stopped: ends the reaper too. */
  close(): Promise<void>;
}

export interface ChildrenOptions {
  logs: string;
  reaperScript: string;
  /** After each start and each end of a process. */
  onChange: (running: readonly { name: string; pid: number; signal: NodeJS.Signals }[]) => void;
  /** Given a sentence for people when one ended by itself or would not stop. */
  tell: (what: string) => void;
}

const RESTART_MS = { first: 100, last: 5_000 };
/** Who lived as long as this is taken for healthy, and starts anew at the shortest pause. */
const HEALTHY_AFTER_MS = 10_000;
const STOP_GRACE_MS = 30_000; // Roles give up by themselves after 25 s.
const LOG_LIMIT_BYTES = 20 * 2 ** 20;
const LOG_CHECK_MS = 30_000;

interface Child {
  readonly name: string;
  readonly recipe: Recipe;
  pid(): number | undefined;
  process: ChildProcess | undefined;
  stopping: AbortController;
  lives: number;
  deaths: number;
  ended: Promise<void>;
}

export function keepChildren(options: ChildrenOptions): Children {
  const children = new Map<string, Child>();
  const reaper = startReaper(options.reaperScript, () => alive());
  const logCheck = setInterval(
    () => [...children.keys()].forEach((name) => boundLog(logOf(name))),
    LOG_CHECK_MS,
  );
  logCheck.unref();

  const logOf = (name: string): string => path.join(options.logs, `${name}.log`);
  const alive = () =>
    [...children.values()].flatMap((child) => {
      const pid = child.pid();
      return pid === undefined ? [] : [{ name: child.name, pid, signal: child.recipe.stopSignal }];
    });

  function add(recipe: Recipe): void {
    keepPreviousLog(logOf(recipe.name));
    const child: Child = {
      name: recipe.name,
      recipe,
      process: undefined,
      pid: () => child.process?.pid,
      stopping: new AbortController(),
      lives: 0,
      deaths: 0,
      ended: Promise.resolve(),
    };
    children.set(recipe.name, child);
    child.ended = live(child);
  }

  async function live(child: Child): Promise<void> {
    while (!child.stopping.signal.aborted) {
      const startedAt = Date.now();
      const how = await oneLife(child);
      if (child.stopping.signal.aborted) return;
      options.tell(`${child.name} ended by itself (${how}) and is started again.`);
      child.deaths = Date.now() - startedAt > HEALTHY_AFTER_MS ? 1 : child.deaths + 1;
      const pause = Math.min(RESTART_MS.first * 2 ** (child.deaths - 1), RESTART_MS.last);
      await delay(pause, child.stopping.signal);
    }
  }

  async function oneLife(child: Child): Promise<string> {
    const log = openSync(logOf(child.name), "a", 0o600);
    const started = launch(child.recipe, log, child.lives++ === 0);
    closeSync(log);
    const ended = endOf(started);
    const { pid } = started;
    if (pid === undefined) return ended;
    child.process = started;
    reaper.watch(pid, child.recipe.stopSignal);
    lowerPriority(pid, child.recipe.niceness);
    options.onChange(alive());
    const how = await ended;
    child.process = undefined;
    reaper.forget(pid);
    options.onChange(alive());
    return how;
  }

  async function stop(names: readonly string[]): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        const child = children.get(name);
        if (child === undefined) return;
        child.stopping.abort();
        child.process?.kill(child.recipe.stopSignal);
        const patience = setTimeout(() => {
          options.tell(`${name} did not stop within ${STOP_GRACE_MS / 1000} s and is killed.`);
          killGroup(child.process);
        }, STOP_GRACE_MS);
        await child.ended;
        clearTimeout(patience);
      }),
    );
  }

  return {
    add,
    names: () => [...children.keys()],
    deathsInARow: (name) => children.get(name)?.deaths ?? 0,
    logOf,
    async crash(name) {
      const process = children.get(name)?.process;
      if (process === undefined) return;
      const ended = endOf(process);
      process.kill("SIGKILL");
      await ended;
    },
    stop,
    kill() {
      for (const child of children.values()) {
        child.stopping.abort();
        killGroup(child.process);
      }
    },
    async close() {
      clearInterval(logCheck);
      await reaper.end();
    },
  };
}

/** A session of its own: a Ctrl-C at the terminal reaches us alone, and we stop the rest in order. */
function launch(recipe: Recipe, log: number, first: boolean): ChildProcess {
  const stdio: StdioOptions = [recipe.tethered === true ? "pipe" : "ignore", log, log];
  const child = spawn(recipe.command, [...recipe.args], {
    stdio,
    detached: true,
    env: first ? { ...recipe.env, ...recipe.firstLife } : recipe.env,
    ...(recipe.uid === undefined ? {} : { uid: recipe.uid }),
    ...(recipe.gid === undefined ? {} : { gid: recipe.gid }),
  });
  child.stdin?.on("error", () => undefined); // It ended; its exit tells the same.
  return child;
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal === null ? `exit code ${code}` : signal));
  });
}

function killGroup(child: ChildProcess | undefined): void {
  if (child?.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Admission stays quick when the machine is full: whatever works behind it yields (design §6). */
function lowerPriority(pid: number, niceness: number): void {
  if (niceness === 0) return;
  try {
    setPriority(pid, niceness);
  } catch {
    // It has ended already, or the system forbids it; speed under load is all that is lost.
  }
}

function keepPreviousLog(file: string): void {
  if (existsSync(file)) renameSync(file, `${file}.1`);
}

/** The writer appends, so it goes on at the start of the emptied file. */
function boundLog(file: string): void {
  if (!existsSync(file) || statSync(file).size < LOG_LIMIT_BYTES) return;
  copyFileSync(file, `${file}.1`);
  truncateSync(file);
}

// ---- the reaper ---------------------------------------------------------------------------------

interface Reaper {
  watch(pid: number, signal: NodeJS.Signals): void;
  forget(pid: number): void;
  end(): Promise<void>;
}

/** It is replaced when it dies, and told again whom to watch. */
function startReaper(
  script: string,
  alive: () => readonly { pid: number; signal: NodeJS.Signals }[],
): Reaper {
  let ending = false;
  let child = begin();
  let ended = endOf(child);

  function begin(): ChildProcess {
    const started = spawn(process.execPath, [script], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    started.stdin?.on("error", () => undefined); // It ended; its exit tells the same.
    started.once("exit", () => {
      if (ending) return;
      child = begin();
      ended = endOf(child);
      for (const { pid, signal } of alive()) say(`watch ${pid} ${signal}`);
    });
    return started;
  }
  const say = (line: string): void => void child.stdin?.write(`${line}\n`);

  return {
    watch: (pid, signal) => say(`watch ${pid} ${signal}`),
    forget: (pid) => say(`forget ${pid}`),
    async end() {
      ending = true;
      child.stdin?.end();
      await ended;
    },
  };
}
