/**
 * How a visitor comes in: by the site's signed word, by the key that this browser has kept, or as somebody new. No DOM.
 *
 * @import { Door } from "./door.js"
 * @import { Memory } from "./memory.js"
 * @import { SignIn } from "./wire.d.ts"
 */

import { Refused } from "./door.js";

export class Entrance {
  /**
   * @param {Door} door
   * @param {Memory} memory
   */
  constructor(door, memory) {
    this.door = door;
    this.memory = memory;
    /** What the site has signed; empty for an anonymous visitor. */
    this.visitorToken = "";
  }

  /** Raises Refused. */
  async enter() {
    const key = this.memory.visitorKey;
    if (this.visitorToken) {
      await this.door.enter({ token: this.visitorToken });
      return;
    }
    try {
      this.known(await this.door.enter(key === null ? {} : { visitor_key: key }));
    } catch (problem) {
      if (key === null || !(problem instanceof Refused) || problem.code !== "visitor_key_refused") throw problem;
      // Forgotten at the server: a new beginning.
      this.memory.visitorKey = null;
      this.known(await this.door.enter({}));
    }
  }

  /** @param {SignIn} signedIn */
  known(signedIn) {
    if (signedIn.visitor_key !== null) this.memory.visitorKey = signedIn.visitor_key;
  }
}

/**
 * Why nobody can come in, as it is told, and in how long it is worth another try; null: not without a person.
 *
 * @param {unknown} problem
 * @returns {{reason: "signed_out" | "stranger" | "turned_away" | "busy" | "unreachable", againMs: number | null}}
 */
export function refusalOf(problem) {
  const { status, code, retryAfterS } = problem instanceof Refused ? problem : new Refused(0, "unknown", null);
  const againMs = (retryAfterS ?? 0) * 1000 || 5000;
  if (code === "visitor_token_required") return { reason: "stranger", againMs: null };
  if (status === 401) return { reason: "signed_out", againMs: null };
  if (status === 403 || status === 404) return { reason: "turned_away", againMs: null };
  return { reason: status === 429 ? "busy" : "unreachable", againMs };
}
