/**
 * Everything that the connections of one supplier account share, and what becomes of it when a person
 * edits the supplier while the gateway runs.
 */
import { isDeepStrictEqual } from "node:util";
import type { SupplierRow } from "../db/connections.ts";
import type { CommandInHand } from "./command-queue.ts";
import { CommandQueue } from "./command-queue.ts";
import { createPace } from "./pace.ts";
import { type Supplier, type SupplierProfile, supplierProfile } from "./supplier.ts";

/** What an edit asks of connections that are up. */
export type Edit = "nothing" | "renew_connections";

export class SupplierLink {
  readonly id: string;
  readonly queue = new CommandQueue();
  /** This process's share of the account's rate: that of the slots which it owns. */
  readonly pace = createPace(0, () => performance.now());
  /** Commands read and not acknowledged, by submit id. */
  readonly inHand = new Map<string, CommandInHand>();
  /** Connections that can write. */
  readonly lanes = new Set<object>();
  readonly #owned = new Set<number>();
  /** Slots that this process may own, so that others get theirs. */
  #most = Number.POSITIVE_INFINITY;
  #perSecond = 0;
  #row: SupplierRow;
  #supplier: Supplier | undefined;
  #refusal: string | null = null;

  constructor(row: SupplierRow) {
    this.id = row.id;
    this.#row = row;
    this.#read(row);
  }

  /** Undefined until its profile has been valid once; from then on the last valid one. */
  get supplier(): Supplier | undefined {
    return this.#supplier;
  }

  /** Why the stored profile does not count; names fields and never their values. */
  get refusal(): string | null {
    return this.#refusal;
  }

  get channelIds(): readonly string[] {
    return this.#row.channelIds;
  }

  /** Connections that the account should have; one, to show why, where there is no valid profile yet. */
  get connections(): number {
    return this.#supplier?.profile.connections ?? 1;
  }

  /** Whether commands may be read: where nothing of the rate is ours they are another process's to write. */
  get canWrite(): boolean {
    return this.lanes.size > 0 && this.#perSecond > 0;
  }

  /** To be told what is stored now. A profile that is not valid is refused, and the old one stays. */
  edit(row: SupplierRow): Edit {
    if (isDeepStrictEqual(row, this.#row)) return "nothing";
    this.#row = row;
    const before = this.#supplier;
    this.#read(row);
    this.#share();
    return before === undefined || this.#supplier === undefined || sameConnection(before, this.#supplier)
      ? "nothing"
      : "renew_connections";
  }

  /** So many processes share the slots now. Answers how many this one may own. */
  shareWith(processes: number): number {
    this.#most = Math.ceil(this.connections / processes);
    return this.#most;
  }

  mayOwn(slot: number): boolean {
    return this.#owned.has(slot) || this.#owned.size < this.#most;
  }

  own(slot: number): void {
    this.#owned.add(slot);
    this.#share();
  }

  disown(slot: number): void {
    this.#owned.delete(slot);
    this.#share();
  }

  #read(row: SupplierRow): void {
    const read = supplierProfile.safeParse(row.profile);
    this.#refusal = read.success ? null : `profile_invalid: ${read.error.issues.map(fieldOf).join(", ")}`;
    if (read.success) {
      this.#supplier = { id: row.id, name: row.name, secret: row.secret, profile: read.data };
    }
  }

  /** However the slots are spread over processes, their shares add up to the account's rate (B5). */
  #share(): void {
    const profile = this.#supplier?.profile;
    if (profile === undefined) return;
    let share = 0;
    for (const slot of this.#owned) share += shareOf(profile, slot);
    this.#perSecond = share;
    this.pace.resize(share);
  }
}

function shareOf({ ratePerSecond, connections }: SupplierProfile, slot: number): number {
  if (slot >= connections) return 0;
  const upTo = (slots: number): number => Math.floor((ratePerSecond * slots) / connections);
  return upTo(slot + 1) - upTo(slot);
}

/** The rest of a profile counts from the next write on. */
const OF_A_CONNECTION = [
  "host",
  "port",
  "version",
  "spId",
  "shortLogin",
  "window",
  "responseTimeoutMs",
  "connectTimeoutMs",
  "heartbeatIdleMs",
  "heartbeatTimeoutMs",
] as const satisfies (keyof SupplierProfile)[];

const sameConnection = (a: Supplier, b: Supplier): boolean =>
  a.secret === b.secret && OF_A_CONNECTION.every((field) => a.profile[field] === b.profile[field]);

const fieldOf = (issue: { path: PropertyKey[]; code?: string | undefined }): string =>
  issue.path.length > 0 ? issue.path.map(String).join(".") : (issue.code ?? "profile");
