/**
 * SQL conditions that find what belongs to a message by the ids alone. Those of its attempts and
 * notifications begin like its own (domain/ids.ts), so they are a stretch of the primary key, in the one
 * partition that holds them; by `message_id` every partition would have to be looked through.
 *
 * These ids compare byte by byte (`COLLATE "C"`), and an index of another table on such an id does not.
 * Where one is held against the other, the id says `COLLATE "default"`, or the index is of no use.
 */

/** Over the id of an attempt: it is one of the message whose id the expression `messageId` is. */
export const attemptOf = (messageId: string, id: string): string =>
  `${id} >= 'att_' || substr(${messageId}, 5) || '_' AND ${id} < 'att_' || substr(${messageId}, 5) || '\`'`;

/** Over the submit id of a command or of a take. */
export const submitOf = (messageId: string, id: string): string =>
  `${id} >= 'sub_' || substr(${messageId}, 5) || '_' AND ${id} < 'sub_' || substr(${messageId}, 5) || '\`'`;

/** Over the id of a notification. */
export const notificationOf = (messageId: string, id: string): string =>
  `${id} >= 'evt_' || substr(${messageId}, 5) AND ${id} < 'evt_' || substr(${messageId}, 5) || '\`'`;
