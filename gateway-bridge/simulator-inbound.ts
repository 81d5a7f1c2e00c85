/**
 * Texts that recipients send through one simulated supplier, when somebody asks for them: `POST
 * <logUrl>/inbound`. Sent until they are answered, at once after a reconnect, else after the time of
 * redelivery. Kept in memory alone: who wanted one asks again.
 */
import iconv from "iconv-lite";
import { z } from "zod";
import type { Deliver, DeliverResp } from "./cmpp-codec.ts";
import type { Connection } from "./simulator-connection.ts";
import type { Timers } from "./simulator-timers.ts";

const byte = z.int().min(0).max(255);
const printable = z.string().regex(/^[\x20-\x7e]{1,21}$/);

export const inboundRequest = z
  .strictObject({
    /** The handset, and the number that it writes to. */
    from: printable,
    to: printable,
    text: z.string().optional(),
    /** In the place of a text. */
    contentHex: z
      .string()
      .regex(/^(?:[0-9a-f]{2})*$/i)
      .optional(),
    /** 0 ASCII, 8 UCS2, 15 GB18030; by the text where it is not said. */
    msgFmt: byte.optional(),
    reference: z.int().min(0).max(0xffff).default(0),
    referenceBits: z.union([z.literal(8), z.literal(16)]).default(8),
    /** Only these parts of a long text. */
    only: z.array(byte).optional(),
    /** TP_udhi of a long text; some suppliers write 0x40 (cmpp §14, 4). */
    udhi: byte.default(1),
    /** How often the supplier sends it under one Msg_Id, answered or not. */
    times: z.int().min(1).max(10).default(1),
  })
  .refine((it) => (it.text === undefined) !== (it.contentHex === undefined));
export type InboundRequest = z.output<typeof inboundRequest>;

type Text = Omit<Deliver, "command" | "sequenceId">;

const CONTENT_BYTES = 140;

export class InboundTexts {
  readonly #timers: Timers;
  readonly #redeliverAfterMs: number;
  /** Connections that are logged in, with their unanswered DELIVERs by Sequence_Id. */
  readonly #inFlight = new Map<Connection, Map<number, Text>>();
  readonly #waiting: Text[] = [];

  constructor(timers: Timers, redeliverAfterMs: number) {
    this.#timers = timers;
    this.#redeliverAfterMs = redeliverAfterMs;
  }

  /** Answers the Msg_Ids of what is sent, in order. */
  add(request: InboundRequest, newId: () => string): string[] {
    const texts = textsOf(request, newId);
    for (let i = 0; i < request.times; i++) this.#waiting.push(...texts);
    this.pump();
    return texts.map((text) => text.msgId);
  }

  loggedIn(connection: Connection): void {
    this.#inFlight.set(connection, new Map());
    this.pump();
  }

  closed(connection: Connection): void {
    this.#waiting.push(...(this.#inFlight.get(connection)?.values() ?? []));
    this.#inFlight.delete(connection);
    this.pump();
  }

  /** False where the answer is to something else. */
  answered(connection: Connection, { sequenceId, result }: DeliverResp): boolean {
    const inFlight = this.#inFlight.get(connection);
    const text = inFlight?.get(sequenceId);
    if (inFlight === undefined || text === undefined) return false;
    inFlight.delete(sequenceId);
    if (result !== 0) this.#timers.after(this.#redeliverAfterMs, () => this.#again(text));
    return true;
  }

  #again(text: Text): void {
    this.#waiting.push(text);
    this.pump();
  }

  /** Spread over the connections: the parts of a text need not come over one. */
  pump(): void {
    const connections = [...this.#inFlight.keys()].filter((connection) => connection.reachable);
    if (connections.length === 0) return;
    for (const [at, text] of this.#waiting.splice(0).entries()) {
      const connection = connections[at % connections.length];
      if (connection !== undefined) this.#send(text, connection);
    }
  }

  #send(text: Text, connection: Connection): void {
    const sequenceId = connection.nextSequenceId();
    this.#inFlight.get(connection)?.set(sequenceId, text);
    connection.send({ command: "deliver", sequenceId, ...text });
    this.#timers.after(this.#redeliverAfterMs, () => {
      if (this.#inFlight.get(connection)?.delete(sequenceId) === true) this.#again(text);
    });
  }
}

/** Cut by bytes alone, as careless handsets do: receivers have to join before they read (cmpp §8). */
function textsOf(request: InboundRequest, newId: () => string): Text[] {
  const { msgFmt, content } = contentOf(request);
  const header = request.referenceBits === 8 ? 6 : 7;
  const room = CONTENT_BYTES - header - (msgFmt === 8 ? header % 2 : 0);
  const total = content.length <= CONTENT_BYTES ? 1 : Math.ceil(content.length / room);
  const numbers = Array.from({ length: total }, (_, at) => at + 1);
  const wanted = numbers.filter((number) => request.only?.includes(number) ?? true);
  return wanted.map((number) => ({
    msgId: newId(),
    destId: request.to,
    serviceId: "",
    tpPid: 0,
    udhi: total === 1 ? 0 : request.udhi,
    msgFmt,
    sourceNumber: request.from,
    sourceType: 0,
    registeredDelivery: 0,
    content:
      total === 1
        ? content
        : Buffer.concat([
            headerOf(request, total, number),
            content.subarray((number - 1) * room, number * room),
          ]),
    linkId: "",
  }));
}

const headerOf = ({ reference, referenceBits }: InboundRequest, total: number, number: number): Buffer =>
  referenceBits === 8
    ? Buffer.from([5, 0, 3, reference & 0xff, total, number])
    : Buffer.from([6, 8, 4, reference >> 8, reference & 0xff, total, number]);

function contentOf({ text = "", contentHex, msgFmt }: InboundRequest): { msgFmt: number; content: Buffer } {
  const format = msgFmt ?? (/^[\x20-\x7e\r\n]*$/.test(text) ? 0 : 8);
  if (contentHex !== undefined) return { msgFmt: msgFmt ?? 4, content: Buffer.from(contentHex, "hex") };
  if (format === 15) return { msgFmt: format, content: iconv.encode(text, "gb18030") };
  if (format === 8) return { msgFmt: format, content: Buffer.from(text, "utf16le").swap16() };
  return { msgFmt: format, content: Buffer.from(text, "latin1") };
}
