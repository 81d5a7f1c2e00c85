/**
 * The load run itself, as `npx waybill load` does it: the smoke tier and tier 20 with every clause of rules L.
 * Timings are reported and not asserted: this machine may be doing anything else.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

interface TierLine {
  tier: string;
  sent: number;
  ratePerSecond: number;
  acceptMs: object;
  cpuMsPerMessage: { total: number };
  checks: Record<string, boolean>;
  findings: string[];
}

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TIERS = ["smoke", "20"];
const TIMEOUT_MS = 300_000;

test(
  "the smoke tier and tier 20 hold every clause of rules L (timings aside)",
  async () => {
    const { lines, said } = await load(
      `--tiers ${TIERS.join(",")} --seconds 6 --saturation 0 --fates mix --long-share 0.2 --json`,
    );
    const tiers = lines.slice(0, -1) as unknown as TierLine[];
    expect(
      tiers.map(({ tier }) => tier),
      said,
    ).toEqual(TIERS);
    for (const { tier, sent, ratePerSecond, acceptMs, cpuMsPerMessage, checks, findings } of tiers) {
      console.log(
        `tier ${tier}: ${sent} sent, ${ratePerSecond} first submits/s, accept ${JSON.stringify(acceptMs)}, ${cpuMsPerMessage.total} CPU-ms a message`,
      );
      const { rate_kept: _timing, ...others } = checks;
      expect(
        Object.keys(others).filter((name) => others[name] !== true),
        findings.join("\n"),
      ).toEqual([]);
      for (const clause of ["L1", "L2", "L3", "L4", "L5", "L6", "L7"]) {
        expect(Object.keys(others).some((name) => name.startsWith(`${clause}_`))).toBe(true);
      }
    }
    expect(lines.at(-1)).toMatchObject({
      saturatedPerSecond: null,
      floorPerSecond: null,
      ratioToFloor: null,
    });
  },
  TIMEOUT_MS,
);

async function load(options: string): Promise<{ lines: object[]; said: string }> {
  const child = spawn(process.execPath, ["scripts/waybill.mjs", "load", ...options.split(" ")], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [printed, said] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (printed += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  await once(child, "close");
  return {
    lines: printed
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object),
    said,
  };
}
