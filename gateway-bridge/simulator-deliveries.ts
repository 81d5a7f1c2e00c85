/**
 * Brings what a simulated supplier owes to the connections of its account: when due, within a window, and
 * again until it is answered: at once after a reconnect, else after 60 s (interfaces §6).
 */
import type { DeliverResp } from "./cmpp-codec.ts";
import type { Connection } from "./simulator-connection.ts";
import { deviantReceipt, type Deviations } from "./simulator-deviations.ts";
import type { OwedReceipt, OwedReceipts } from "./simulator-owed.ts";
import type { Timers } from "./simulator-timers.ts";
import type { Witness } from "./simulator-witness.ts";

export interface DeliveryOptions {
  redeliverAfterMs: number;
  /** DELIVERs sent and not yet answered on one connection. */
  deliverWindow: number;
  deviations: () => Deviations;
}

interface InFlight {
  owed: OwedReceipt;
  sentAt: number;
}

const SWEEPS_PER_REDELIVERY = 20;

export class Deliveries {
  readonly #owed: OwedReceipts;
  readonly #witness: Witness;
  readonly #timers: Timers;
  readonly #options: DeliveryOptions;
  /** Connections that are logged in, with their unanswered DELIVERs by Sequence_Id. */
  readonly #inFlight = new Map<Connection, Map<number, InFlight>>();
  /** Due and to be sent as soon as a window has room, oldest first. */
  readonly #ready = new Set<OwedReceipt>();
  /** Waiting for a login, or for the time of redelivery (epoch milliseconds). */
  readonly #stranded = new Map<OwedReceipt, number>();
  #acknowledged = 0;

  constructor(owed: OwedReceipts, witness: Witness, timers: Timers, options: DeliveryOptions) {
    this.#owed = owed;
    this.#witness = witness;
    this.#timers = timers;
    this.#options = options;
    // The connections of an earlier run are gone: every login is another one, and a reconnect.
    for (const receipt of owed.all()) this.#whenDue({ ...receipt, place: "any" });
    this.#sweepLater();
  }

  stats(): { receiptsOwed: number; receiptsAcknowledged: number } {
    return { receiptsOwed: this.#owed.count, receiptsAcknowledged: this.#acknowledged };
  }

  /** Receipts of one SUBMIT; those due at the same time leave in one write. */
  add(receipts: OwedReceipt[]): void {
    for (const receipt of receipts) this.#owed.add(receipt);
    for (const [dueAt, together] of byDueTime(receipts)) {
      this.#timers.after(dueAt - Date.now(), () => {
        for (const receipt of together) this.#becomeDue(receipt);
        this.pump();
      });
    }
  }

  loggedIn(connection: Connection): void {
    this.#inFlight.set(connection, new Map());
    for (const receipt of this.#stranded.keys()) this.#ready.add(receipt);
    this.#stranded.clear();
    this.pump();
  }

  closed(connection: Connection): void {
    for (const { owed, sentAt } of this.#inFlight.get(connection)?.values() ?? []) {
      this.#stranded.set(owed, sentAt + this.#options.redeliverAfterMs);
    }
    this.#inFlight.delete(connection);
    this.pump();
  }

  /** Matched by Sequence_Id: clients are known to put another Msg_Id in (cmpp §14, 17). */
  answered(connection: Connection, pdu: DeliverResp): void {
    const inFlight = this.#inFlight.get(connection);
    const delivery = inFlight?.get(pdu.sequenceId);
    if (inFlight === undefined || delivery === undefined) return;
    inFlight.delete(pdu.sequenceId);
    if (pdu.result === 0) {
      this.#owed.acknowledge(delivery.owed);
      this.#acknowledged++;
    } else {
      this.#stranded.set(delivery.owed, delivery.sentAt + this.#options.redeliverAfterMs);
    }
    this.pump();
  }

  /** Sends what is ready, as far as there is room. */
  pump(): void {
    if (this.#inFlight.size === 0) return;
    for (const receipt of this.#ready) {
      const connection = this.#choose(receipt);
      if (connection === "full" && receipt.place === "other_connection") continue;
      if (connection === "full") return;
      this.#ready.delete(receipt);
      if (connection === "none") this.#strand(receipt);
      else this.#send(receipt, connection);
    }
  }

  #whenDue(receipt: OwedReceipt): void {
    this.#timers.after(receipt.dueAt - Date.now(), () => {
      this.#becomeDue(receipt);
      this.pump();
    });
  }

  #becomeDue(receipt: OwedReceipt): void {
    if (receipt.place === "after_login" && !this.#loginSince(receipt)) this.#strand(receipt);
    else this.#ready.add(receipt);
  }

  #loginSince(receipt: OwedReceipt): boolean {
    return [...this.#inFlight.keys()].some((connection) => connection.loggedInAt > receipt.submittedAt);
  }

  /** The submit's own connection where it may, else the one with the fewest unanswered. */
  #choose(receipt: OwedReceipt): Connection | "full" | "none" {
    let best: Connection | undefined;
    let fewest = Infinity;
    let mayHaveRoomLater = false;
    for (const [connection, inFlight] of this.#inFlight) {
      const own = connection.id === receipt.connection;
      if (own && receipt.place === "other_connection") continue;
      mayHaveRoomLater = true;
      const load = own ? -1 : inFlight.size;
      if (!connection.reachable || inFlight.size >= this.#window || load >= fewest) continue;
      best = connection;
      fewest = load;
    }
    return best ?? (mayHaveRoomLater ? "full" : "none");
  }

  #send(receipt: OwedReceipt, connection: Connection): void {
    const sequenceId = connection.nextSequenceId();
    const at = Date.now();
    this.#inFlight.get(connection)?.set(sequenceId, { owed: receipt, sentAt: at });
    this.#witness.recordReceipt({
      at: new Date(at).toISOString(),
      connection: connection.id,
      sequenceId,
      msgId: receipt.msgId,
      deliverMsgId: receipt.deliverMsgId,
      to: receipt.to,
      srcId: receipt.srcId,
      stat: receipt.stat,
    });
    connection.send({
      command: "deliver",
      sequenceId,
      msgId: receipt.deliverMsgId,
      destId: receipt.srcId,
      serviceId: receipt.serviceId,
      tpPid: 0,
      udhi: 0,
      msgFmt: 0,
      sourceNumber: receipt.to,
      sourceType: 0,
      registeredDelivery: 1,
      content: deviantReceipt(
        { ...receipt, doneAt: at, number: receipt.to, smscSequence: sequenceId },
        connection.version,
        this.#options.deviations(),
      ),
      linkId: "",
    });
  }

  get #window(): number {
    return this.#options.deviations().floods === true ? Infinity : this.#options.deliverWindow;
  }

  #strand(receipt: OwedReceipt): void {
    this.#stranded.set(receipt, Date.now() + this.#options.redeliverAfterMs);
  }

  #sweepLater(): void {
    this.#timers.after(this.#options.redeliverAfterMs / SWEEPS_PER_REDELIVERY, () => {
      this.#sweep(Date.now());
      this.#sweepLater();
    });
  }

  #sweep(now: number): void {
    for (const [receipt, at] of this.#stranded) {
      if (at > now) continue;
      this.#stranded.delete(receipt);
      this.#ready.add({ ...receipt, place: "any" });
    }
    for (const inFlight of this.#inFlight.values()) {
      for (const [sequenceId, { owed, sentAt }] of inFlight) {
        if (sentAt + this.#options.redeliverAfterMs > now) break;
        inFlight.delete(sequenceId);
        this.#ready.add(owed);
      }
    }
    this.pump();
  }
}

function byDueTime(receipts: OwedReceipt[]): Map<number, OwedReceipt[]> {
  const groups = new Map<number, OwedReceipt[]>();
  for (const receipt of receipts) {
    const group = groups.get(receipt.dueAt);
    if (group === undefined) groups.set(receipt.dueAt, [receipt]);
    else group.push(receipt);
  }
  return groups;
}
