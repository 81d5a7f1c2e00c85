/** What the bundle holds; nothing else is exported here. */
export { attempt } from "./attempt.ts";
