/** Who is at the keyboard, as an audit row names them. */
import { userInfo } from "node:os";

/** A container may run as somebody without a name. */
export function actor(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    return `cli:uid-${process.getuid?.() ?? "unknown"}`;
  }
}
