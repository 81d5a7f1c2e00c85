/** A mistake that a person can do something about: its message is the whole answer, no stack. */
export class Trouble extends Error {
  override readonly name = "Trouble";
}
