/** What the set-up says: a line a step, and on a terminal what is going on right now. */

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const TICK_MS = 120;
/** Without a terminal a step that takes longer than this is announced before it is done. */
const QUIET_MS = 3_000;

/**
 * @param {NodeJS.WriteStream} out where lines go; colours and progress only where it is a terminal
 */
export function reportSteps(out = process.stdout) {
  const live = out.isTTY; // Undefined for a pipe or a file.
  const colour = live && !process.env.NO_COLOR;
  const running = new Map();
  let ticks = 0;
  let timer;

  // Whoever read this may have gone (`npm start | head`); the work goes on.
  out.on("error", (error) => {
    if (error.code !== "EPIPE") throw error;
  });

  const paint = (code, text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);

  function line(text = "") {
    clear();
    out.write(`${text}\n`);
    draw();
  }

  /**
   * Runs `work` under a label; what it answers is shown behind the label, with the time it took. `work` may
   * show how far it is.
   */
  async function step(label, work) {
    const startedAt = Date.now();
    const key = Symbol(label);
    const state = { label, startedAt, detail: "" };
    running.set(key, state);
    timer ??= live ? setInterval(draw, TICK_MS) : undefined;
    timer?.unref();
    const announce = live ? undefined : setTimeout(() => out.write(`… ${label}\n`), QUIET_MS);
    try {
      const detail = await work((soFar) => (state.detail = `: ${soFar}`));
      settle(key, announce);
      line(
        `${paint(32, "✓")} ${label}${typeof detail === "string" ? `: ${detail}` : ""} ${paint(2, took(startedAt))}`,
      );
      return detail;
    } catch (error) {
      settle(key, announce);
      line(`${paint(31, "✗")} ${label} ${paint(2, took(startedAt))}`);
      throw error;
    }
  }

  function settle(key, announce) {
    clearTimeout(announce);
    running.delete(key);
    clear();
    if (running.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function clear() {
    if (live) out.write("\r\x1b[K");
  }

  function draw() {
    if (!live || running.size === 0) return;
    const all = [...running.values()];
    const text = `${all.map(({ label, detail }) => label + detail).join(" · ")} ${took(all[0].startedAt)}`;
    out.write(`\r\x1b[K${SPINNER[ticks++ % SPINNER.length]} ${text.slice(0, (out.columns ?? 80) - 3)}`);
  }

  return { step, line, paint };
}

const took = (startedAt) => `${((Date.now() - startedAt) / 1000).toFixed(1)} s`;

/** The last lines of what a program said, for a person who has to find out why it failed. */
export const lastLines = (text, count = 15) => text.trimEnd().split("\n").slice(-count).join("\n");
