/**
 * What a supplier is like, as data: protocol version, login, pace, and the quirks in which suppliers
 * differ. Stored in `suppliers.profile`; an unknown key is an error.
 */
import { z } from "zod";

export const supplierProfile = z.strictObject({
  host: z.string().min(1),
  port: z.int().min(1).max(65535),
  version: z.enum(["2.0", "3.0"]),
  /** Source_Addr: six characters. */
  spId: z.string().min(1).max(6),
  serviceId: z.string().max(10).default(""),
  /** Msg_src where it differs from the login (cmpp §14, 10). */
  msgSrc: z.string().max(6).optional(),
  connections: z.int().min(1).max(16).default(1),
  /** Submits sent and not yet answered on one connection (cmpp §1). */
  window: z.int().min(1).max(512).default(16),
  /** Parts a second over all connections of the account (B5). */
  ratePerSecond: z.int().min(1).max(10_000).default(200),
  responseTimeoutMs: z.int().min(100).default(10_000),
  connectTimeoutMs: z.int().min(100).default(10_000),
  /** Silence after which an ACTIVE_TEST is sent. */
  heartbeatIdleMs: z.int().min(100).default(30_000),
  heartbeatTimeoutMs: z.int().min(100).default(10_000),
  /** Results that say "slower" and take nothing (D, cmpp §11). */
  throttleResults: z.array(z.int()).default([8]),
  throttleBackoffMs: z.int().min(1).default(1_000),
});
export type SupplierProfile = z.infer<typeof supplierProfile>;

export interface Supplier {
  id: string;
  name: string;
  secret: string;
  profile: SupplierProfile;
}
