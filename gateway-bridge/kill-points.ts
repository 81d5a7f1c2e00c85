/**
 * Where tests end the process with kill -9, to prove what a crash there leaves behind (C3, I). Named by
 * WAYBILL_KILL_POINT, read once; where it is not set a point costs one comparison.
 */
export type KillPoint =
  | "command_read"
  | "take_committed"
  | "half_frame_written"
  | "all_written"
  | "response_read"
  | "result_committed"
  | "stream_acked";

const armed = process.env["WAYBILL_KILL_POINT"];

export const isArmed = (point: KillPoint): boolean => armed === point;

/** Does not return where the point is armed: nothing is flushed, closed or told. */
export function reach(point: KillPoint): void {
  if (armed === point) process.kill(process.pid, "SIGKILL");
}
