/**
 * CMPP writes times as wall-clock digits without a zone, of Beijing unless a supplier's clocks stand
 * elsewhere (cmpp §4.1, §5). China keeps UTC+8 all year, so that offset is a constant.
 */
const BEIJING_OFFSET_MS = 8 * 3_600_000;

/** The parts of a Beijing wall clock, `month` from 1. */
export function beijingClock(at: Date) {
  const shifted = new Date(at.getTime() + BEIJING_OFFSET_MS);
  return {
    year: shifted.getUTCFullYear(),
    month: shifted.getUTCMonth() + 1,
    day: shifted.getUTCDate(),
    hour: shifted.getUTCHours(),
    minute: shifted.getUTCMinutes(),
    second: shifted.getUTCSeconds(),
  };
}

/** MMDDHHMMSS, ten digits with their leading zero: digest and field of CONNECT take the same string. */
export function loginTimestamp(at: Date): string {
  const { month, day, hour, minute, second } = beijingClock(at);
  return [month, day, hour, minute, second].map(twoDigits).join("");
}

/** YYMMDDHHMM of a receipt; an unknown time is written as zeros. */
export function receiptTime(at: Date | null): string {
  if (at === null) return "0000000000";
  return shown(at.getTime() + BEIJING_OFFSET_MS);
}

/**
 * Zeros, blanks, non-digits, and times that no clock of that zone shows are null: the arrival time is what
 * we have then.
 */
export function parseReceiptTime(digits: string, timeZone: string = BEIJING): Date | null {
  const key = `${digits} ${timeZone}`;
  let at = lately.get(key);
  if (at === undefined) {
    at = readTime(digits, timeZone);
    if (lately.size >= LATELY) lately.clear();
    lately.set(key, at);
  }
  return at;
}

/** Receipts of one minute tell the same time: reading it for each took 15 % of a busy gateway's CPU. */
const lately = new Map<string, Date | null>();
const LATELY = 64;

function readTime(digits: string, timeZone: string): Date | null {
  if (!/^\d{10}$/.test(digits)) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0] = digits.match(/\d\d/g)?.map(Number) ?? [];
  const wall = Date.UTC(2000 + year, month - 1, day, hour, minute);
  const at = new Date(wall - offsetMs(timeZone, wall - offsetMs(timeZone, wall)));
  return shown(at.getTime() + offsetMs(timeZone, at.getTime())) === digits ? at : null;
}

export function isTimeZone(name: string): boolean {
  try {
    clockOf(name);
    return true;
  } catch {
    return false;
  }
}

const BEIJING = "Asia/Shanghai";
const clocks = new Map<string, Intl.DateTimeFormat>();

function clockOf(timeZone: string): Intl.DateTimeFormat {
  const known = clocks.get(timeZone);
  if (known !== undefined) return known;
  const clock = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset", year: "numeric" });
  clocks.set(timeZone, clock);
  return clock;
}

/** What the clocks of a zone are ahead of UTC at an instant. */
function offsetMs(timeZone: string, at: number): number {
  if (timeZone === BEIJING) return BEIJING_OFFSET_MS;
  const name =
    clockOf(timeZone)
      .formatToParts(at)
      .find((part) => part.type === "timeZoneName")?.value ?? "";
  const [, sign, hours, minutes] = /GMT([+-])(\d\d):(\d\d)/.exec(name) ?? [];
  const ms = (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
  return sign === "-" ? -ms : ms;
}

/** YYMMDDHHMM of an instant that was moved by its zone's offset. */
function shown(wall: number): string {
  const clock = new Date(wall);
  return [
    clock.getUTCFullYear() % 100,
    clock.getUTCMonth() + 1,
    clock.getUTCDate(),
    clock.getUTCHours(),
    clock.getUTCMinutes(),
  ]
    .map(twoDigits)
    .join("");
}

const twoDigits = (value: number): string => String(value).padStart(2, "0");
