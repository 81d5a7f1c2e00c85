/**
 * The header that a load balancer puts before everything else, to say who really connects: PROXY protocol,
 * version 1 (a line of text) and 2 (binary). Who it names is of no use here; that it is there has to be known
 * beforehand, for what a client sends may not be taken for one (cmpp §14, 24).
 */
export type ProxyHeader =
  | { is: "whole"; rest: Buffer }
  /** More of it has to come. */
  | { is: "incomplete" }
  | { is: "none" };

const V1_START = Buffer.from("PROXY ");
const V1_MOST_BYTES = 107;
const V2_START = Buffer.from("0d0a0d0a000d0a515549540a", "hex");
const V2_HEADER_BYTES = 16;
/** Of addresses and options; more than any balancer sends. */
const V2_MOST_BYTES = 4096;

/** Takes the header off what a connection has sent so far. */
export function takeProxyHeader(bytes: Buffer): ProxyHeader {
  if (beginsLike(bytes, V2_START)) return takeV2(bytes);
  if (beginsLike(bytes, V1_START)) return takeV1(bytes);
  return { is: "none" };
}

function takeV1(bytes: Buffer): ProxyHeader {
  const end = bytes.indexOf("\r\n");
  if (end >= 0 && end + 2 <= V1_MOST_BYTES) return { is: "whole", rest: bytes.subarray(end + 2) };
  return { is: end < 0 && bytes.length < V1_MOST_BYTES ? "incomplete" : "none" };
}

function takeV2(bytes: Buffer): ProxyHeader {
  if (bytes.length < V2_HEADER_BYTES) return { is: "incomplete" };
  const size = V2_HEADER_BYTES + bytes.readUInt16BE(V2_HEADER_BYTES - 2);
  if (size > V2_MOST_BYTES) return { is: "none" };
  return bytes.length < size ? { is: "incomplete" } : { is: "whole", rest: bytes.subarray(size) };
}

/** As far as both reach. */
function beginsLike(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.subarray(0, length).equals(start.subarray(0, length));
}
