/**
 * Profile `throughput`: half the CPU of a workflow, at the price of two comforts of Temporal's SDK.
 *
 * - The SDK records a stack for each promise of workflow code, for the "call stack" tab of Temporal's UI.
 *   Without `v8.promiseHooks` it does not, and says so once.
 * - Each entry into workflow code starts a watchdog thread, which ends an endless loop after five seconds.
 *   Without a timeout Node starts none; lint, types and tests must see to it that there is no such loop.
 *
 * Loaded before anything of Temporal. Workflows then also run on the main thread (`debugMode`), which saves
 * the copy of every activation between threads. Measured in docs/decisions/0009.
 */
import v8 from "node:v8";
import vm from "node:vm";

Object.defineProperty(v8, "promiseHooks", { value: undefined });

withoutTimeout(vm.Script.prototype, "runInContext");
withoutTimeout(vm, "runInContext");

function withoutTimeout<Name extends string>(
  owner: Record<Name, (...args: never[]) => unknown>,
  name: Name,
): void {
  const original = owner[name];
  const replaced = function (this: unknown, ...args: unknown[]): unknown {
    const kept = args.map((arg) => (hasTimeout(arg) ? { ...arg, timeout: undefined } : arg));
    return Reflect.apply(original, this, kept);
  };
  Object.defineProperty(owner, name, { value: replaced });
}

const hasTimeout = (arg: unknown): arg is { timeout: unknown } =>
  typeof arg === "object" &&
  arg !== null &&
  Object.getPrototypeOf(arg) === Object.prototype &&
  "timeout" in arg;
