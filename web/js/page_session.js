/**
 * Who is signed in on a page that is only for some: the dashboard and the inbox. Signing in is the chat's own; what begins and
 * ends with it is the page's.
 *
 * @import { Api } from "./api.js"
 * @import { Store } from "./store.js"
 * @import { Saying } from "./texts.js"
 * @import { User, WaysIn } from "./wire.d.ts"
 */

import { Refusal, messageOf } from "./api.js";
import { backoffMs } from "./backoff.js";
import { refusedSignIn, waysIn } from "./coming_in.js";

/**
 * What a page's state says of who is there.
 *
 * @typedef {object} Presence
 * @property {"starting" | "unreachable" | "signed_out" | "forbidden" | "signed_in"} phase
 * @property {Saying | null} signInNotice
 * @property {User | null} user
 */

/** @template {Presence} State */
export class PageSession {
  /**
   * @param {Api} api
   * @param {Store<State>} store
   * @param {object} outside
   * @param {(user: User) => boolean} outside.isFor whether the page is for this person
   * @param {Readonly<Partial<State>>} outside.blank what the state begins with, whoever comes
   * @param {() => void} outside.begin somebody whom the page is for is signed in
   * @param {() => void} outside.end nobody is any more
   * @param {(message: string) => void} outside.tellTabs
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(api, store, outside) {
    this.api = api;
    this.store = store;
    this.outside = outside;
    this.failures = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  async start() {
    this.outside.clearTimer(this.timer);
    try {
      this.begin(await this.api.me());
    } catch (problem) {
      if (problem instanceof Refusal && problem.status === 401) {
        this.show({ phase: "signed_out", signInNotice: null });
        return;
      }
      this.failures += 1;
      this.show({ phase: "unreachable" });
      this.timer = this.outside.setTimer(() => void this.start(), backoffMs(this.failures, this.outside.random));
    }
  }

  /** @returns {Promise<WaysIn>} */
  waysIn() {
    return waysIn(this.api);
  }

  /** @param {string} username @param {string} password */
  signIn(username, password) {
    return this.enter(() => this.api.signIn(username, password));
  }

  /** @param {string} username @param {string} password */
  signUp(username, password) {
    return this.enter(() => this.api.signUp(username, password));
  }

  /** @param {() => Promise<{user: User}>} ask @returns {Promise<Saying | null>} what went wrong */
  async enter(ask) {
    try {
      const { user } = await ask();
      this.begin(user);
      this.outside.tellTabs("signed-in");
      return null;
    } catch (problem) {
      return refusedSignIn(problem);
    }
  }

  /** @returns {Promise<Saying | null>} what went wrong */
  async signOut() {
    try {
      await this.api.signOut();
    } catch (problem) {
      if (!(problem instanceof Refusal && problem.status === 401)) return messageOf(problem);
    }
    this.end(null);
    this.outside.tellTabs("signed-out");
    return null;
  }

  /** Asks whether the sign-in still holds, and the role, after a sign that one of them may not. */
  async check() {
    try {
      const user = await this.api.me();
      const before = this.store.state.user;
      if (before?.id !== user.id || before.role !== user.role) this.begin(user);
    } catch (problem) {
      if (problem instanceof Refusal && problem.status === 401) this.end({ key: "ended" });
    }
  }

  /** @param {Saying | null} notice */
  end(notice) {
    if (this.store.state.phase === "signed_out") return;
    this.outside.end();
    this.show({ ...this.outside.blank, phase: "signed_out", signInNotice: notice, user: null });
  }

  /** @param {User} user */
  begin(user) {
    this.failures = 0;
    const isFor = this.outside.isFor(user);
    this.outside.end();
    this.show({ ...this.outside.blank, phase: isFor ? "signed_in" : "forbidden", signInNotice: null, user });
    if (isFor) this.outside.begin();
  }

  /** @param {Partial<Presence>} patch */
  show(patch) {
    this.store.set(/** @type {Partial<State>} */ (patch));
  }
}
