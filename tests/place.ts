/** Where a command of a test works: a folder that some test copy runs from. */
import type { Place } from "../scripts/commands/place.ts";

export const placeIn = (folder: string): Place => ({
  root: folder,
  home: folder,
  prepareOwn: () => Promise.reject(new Error("this test starts no copy")),
});
