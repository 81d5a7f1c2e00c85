/** The network between a role and a server, through a listener of ours on which it can be cut or go silent. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface Way {
  readonly port: number;
  /** Connections end at once and none is to be had, until `heal`. */
  cut(): void;
  /** Nothing gets through and nothing ends, as when a cable is pulled, until `heal`. */
  silence(): void;
  heal(): void;
  close(): void;
}

/** Opens a way to a port of this machine. */
export async function openWay(to: { host: string; port: number }): Promise<Way> {
  const near = new Set<Socket>();
  const far = new Set<Socket>();
  let state: "open" | "cut" | "silent" = "open";
  /** Those that came while it was silent. */
  const held = new Set<Socket>();

  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.on("error", () => undefined);
    if (state === "cut") socket.destroy();
    else if (state === "silent") held.add(socket.once("close", () => held.delete(socket)));
    else join(socket);
  });

  function join(socket: Socket): void {
    const other = connect(to);
    other.on("error", () => undefined);
    tie(socket, other, near);
    tie(other, socket, far);
    socket.resume();
  }

  /** By hand and not by pipe: a pipe would undo a pause of its own accord. */
  function tie(from: Socket, into: Socket, set: Set<Socket>): void {
    set.add(from);
    from.on("data", (chunk) => {
      if (!into.write(chunk)) from.pause();
    });
    into.on("drain", () => {
      if (state === "open") from.resume();
    });
    from.once("end", () => into.end());
    from.once("close", () => {
      set.delete(from);
      into.destroy();
    });
  }

  const all = (): Socket[] => [...near, ...far];
  await listening(server);
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      state = "cut";
      for (const socket of [...all(), ...held]) socket.destroy();
    },
    silence() {
      state = "silent";
      for (const socket of all()) socket.pause();
    },
    heal() {
      state = "open";
      for (const socket of all()) socket.resume();
      for (const socket of held) join(socket);
      held.clear();
    },
    close() {
      server.close();
      for (const socket of [...all(), ...held]) socket.destroy();
    },
  };
}

const listening = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
