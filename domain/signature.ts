/** The sender's name in 【…】 at the head of a text: it is a part of the text and is sent with it. */
const HEAD = /^【[^】]+】/;

/** Undefined where the text begins with none: it goes out under its application's default (A3). */
export const signatureOf = (text: string): string | undefined => HEAD.exec(text)?.[0];

/** What follows the signature. */
export const withoutSignature = (text: string): string => text.replace(HEAD, "");

/** Whether it can stand at the head of a text and be read again there. */
export const isSignature = (text: string): boolean => signatureOf(text) === text;
