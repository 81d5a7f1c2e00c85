/**
 * Msg_Id as its issuer makes it (cmpp §10). Whoever receives one takes it as 16 opaque hex characters:
 * many suppliers fill the eight bytes in their own way.
 */
import { beijingClock } from "./cmpp-time.ts";

export const NO_MSG_ID = "0000000000000000";

export interface MsgIdParts {
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  /** 22 bits. */
  gateway: number;
  /** 16 bits. */
  sequence: number;
}

/** 16 lower-case hex characters. */
export function msgIdFrom(parts: MsgIdParts): string {
  const fields: [number, bigint][] = [
    [parts.month, 4n],
    [parts.day, 5n],
    [parts.hour, 5n],
    [parts.minute, 6n],
    [parts.second, 6n],
    [parts.gateway, 22n],
    [parts.sequence, 16n],
  ];
  let id = 0n;
  for (const [value, bits] of fields) {
    if (BigInt(value) >> bits !== 0n) throw new RangeError("a part of a Msg_Id is out of its range");
    id = (id << bits) | BigInt(value);
  }
  return id.toString(16).padStart(16, "0");
}

/**
 * Issues ids that are unique for one gateway code: at most 65,536 a second, then it borrows from the
 * next one, and a clock that goes back changes nothing.
 */
export class MsgIdSource {
  readonly #gateway: number;
  readonly #now: () => number;
  #second = 0;
  #sequence = 0;
  /** The id without its sequence, kept because it changes once a second. */
  #prefix = "";

  constructor(gateway: number, now: () => number = Date.now) {
    this.#gateway = gateway;
    this.#now = now;
  }

  next(): string {
    const second = Math.floor(this.#now() / 1000);
    if (second > this.#second) this.#begin(second);
    else if (this.#sequence > 0xffff) this.#begin(this.#second + 1);
    return this.#prefix + (this.#sequence++).toString(16).padStart(4, "0");
  }

  #begin(second: number): void {
    this.#second = second;
    this.#sequence = 0;
    const clock = beijingClock(new Date(second * 1000));
    this.#prefix = msgIdFrom({ ...clock, gateway: this.#gateway, sequence: 0 }).slice(0, 12);
  }
}
