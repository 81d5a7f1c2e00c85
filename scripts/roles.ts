/** The processes that make up Waybill (design §2). */

/** In the order in which they are listed. */
export const ROLES = ["api", "attempts", "results", "notifier", "sweeper", "gateway", "simulator"] as const;
export type Role = (typeof ROLES)[number];
