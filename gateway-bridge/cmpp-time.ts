/**
 * CMPP writes times as Beijing wall-clock digits without a zone (cmpp §4.1, §5). China keeps UTC+8 all
 * year, so the offset is a constant.
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
  const { year, month, day, hour, minute } = beijingClock(at);
  return [year % 100, month, day, hour, minute].map(twoDigits).join("");
}

/** Zeros, blanks, non-digits and dates that do not exist are null: the arrival time is what we have then. */
export function parseReceiptTime(digits: string): Date | null {
  const found = /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(digits);
  if (found === null) return null;
  const [year, month, day, hour, minute] = found.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const at = new Date(Date.UTC(2000 + year, month - 1, day, hour, minute) - BEIJING_OFFSET_MS);
  return receiptTime(at) === digits ? at : null;
}

const twoDigits = (value: number): string => String(value).padStart(2, "0");
