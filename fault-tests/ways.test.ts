import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openWay, type Way } from "./ways.ts";

/** Says back what it hears. */
let echo: Server;
let way: Way;
beforeEach(async () => {
  echo = createServer((socket) => socket.on("error", () => undefined).pipe(socket));
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", () => resolve()));
  way = await openWay({ host: "127.0.0.1", port: (echo.address() as AddressInfo).port });
});
afterEach(() => {
  way.close();
  echo.close();
});

async function open(): Promise<Socket> {
  const socket = connect(way.port, "127.0.0.1").on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

const said = async (socket: Socket): Promise<string> => String((await once(socket, "data"))[0]);

describe("a way", () => {
  it("lets everything through", async () => {
    const socket = await open();
    socket.write("hello");
    expect(await said(socket)).toBe("hello");
    socket.destroy();
  });

  it("that is cut ends what is open and what is opened, until it is healed", async () => {
    const before = await open();
    const ended = once(before, "close");
    way.cut();
    await ended;
    const during = await open();
    await once(during, "close");
    way.heal();
    const after = await open();
    after.write("again");
    expect(await said(after)).toBe("again");
    after.destroy();
  });

  it("that is silent holds back what is said, on old connections and new ones, and loses none of it", async () => {
    const before = await open();
    before.write("one");
    expect(await said(before)).toBe("one");
    way.silence();
    const during = await open();
    before.write("two");
    during.write("three");
    const heard = Promise.all([said(before), said(during)]);
    const first = await Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 200, "silence"))]);
    expect(first).toBe("silence");
    way.heal();
    expect(await heard).toEqual(["two", "three"]);
    before.destroy();
    during.destroy();
  });
});
