/** What lists and people other than the customer see of a number or a text: enough to tell two apart. */
import { signatureOf } from "./signature.ts";

/** 138****1234. A shorter one shows its last two digits. */
export const maskedNumber = (number: string): string =>
  number.length < 11 ? `****${number.slice(-2)}` : `${number.slice(0, 3)}****${number.slice(-4)}`;

/** The sender's name, which is on file anyway. */
export const maskedText = (text: string): string => `${signatureOf(text) ?? ""}…`;
