/**
 * Who is signed in on this page: finds out at the start, signs in and out, and gives the signed-in person a `Chat`.
 *
 * @import { Api } from "./api.js"
 * @import { Chat } from "./chat.js"
 * @import { Store } from "./store.js"
 * @import { State } from "./state.js"
 * @import { User, WaysIn } from "./wire.d.ts"
 */

import { Refusal } from "./api.js";
import { backoffMs } from "./backoff.js";
import { EMPTY_LIST } from "./conversations.js";
import { newId } from "./ids.js";

export const ENDED_NOTICE = "Your sign-in has ended. Sign in again to go on.";
const EXPIRED_NOTICE =
  "This sign-in link has been used or is too old. Each link works once. Restart the server for a new one, or sign in with your password.";

const OIDC_NOTICE = "Signing in over there did not work. Try again, or ask an administrator: the server's log has the reason.";

/** What the page's query string says about a way in that has failed. @type {Record<string, string>} */
const NOTICES = { expired: EXPIRED_NOTICE, "oidc-failed": OIDC_NOTICE };

export class Session {
  /**
   * @param {Api} api
   * @param {Store<State>} store
   * @param {object} outside
   * @param {(user: User, session: Session) => Chat} outside.makeChat
   * @param {(message: string) => void} outside.tellTabs
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(api, store, outside) {
    this.api = api;
    this.store = store;
    this.outside = outside;
    /** @type {Chat | null} */
    this.chat = null;
    this.failures = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** @param {string} query the page's query string, which says how a sign-in link went */
  async start(query) {
    const failed = new URLSearchParams(query).get("signin") ?? "";
    this.outside.clearTimer(this.timer);
    try {
      this.begin(await this.api.me());
      if (failed === "expired") this.store.set({ notice: "That sign-in link was used before, but you are still signed in." });
    } catch (problem) {
      if (problem instanceof Refusal && problem.status === 401) {
        this.store.set({ phase: "signed_out", signInNotice: NOTICES[failed] ?? null });
      } else {
        this.failures += 1;
        this.store.set({ phase: "unreachable" });
        this.timer = this.outside.setTimer(() => void this.start(query), backoffMs(this.failures, this.outside.random));
      }
    }
  }

  /**
   * @param {string} username
   * @param {string} password
   * @returns {Promise<string | null>} what went wrong, in words
   */
  signIn(username, password) {
    return this.enter(() => this.api.signIn(username, password));
  }

  /**
   * @param {string} username
   * @param {string} password
   * @returns {Promise<string | null>} what went wrong, in words
   */
  signUp(username, password) {
    return this.enter(() => this.api.signUp(username, password));
  }

  /** How people come in here; a server that cannot be asked has a password field all the same. @returns {Promise<WaysIn>} */
  async waysIn() {
    try {
      return await this.api.waysIn();
    } catch {
      return { signup: "closed", oidc: null };
    }
  }

  /**
   * @param {() => Promise<{user: User}>} ask
   * @returns {Promise<string | null>} what went wrong, in words
   */
  async enter(ask) {
    try {
      const { user } = await ask();
      this.begin(user);
      this.outside.tellTabs("signed-in");
      return null;
    } catch (problem) {
      if (!(problem instanceof Refusal)) return "The server cannot be reached. Try again in a moment.";
      if (problem.status === 401) return "The name or the password is not right.";
      if (problem.status === 429) return `Too many tries. Wait ${problem.retryAfterS ?? 60} seconds, then try again.`;
      return problem.detail;
    }
  }

  async signOut() {
    // The server closes the socket as soon as the sign-in is gone; that may be noticed before the reply comes.
    const chat = this.chat;
    try {
      await this.api.signOut();
    } catch (problem) {
      if (!(problem instanceof Refusal && problem.status === 401)) {
        this.store.set({ notice: "You are still signed in: the server cannot be reached. Try again." });
        return;
      }
    }
    chat?.outbox.clear();
    // The next to sign in here may be somebody else.
    chat?.outside.showAddress(null);
    this.end(null);
    this.store.set({ currentId: null, threadId: newId(), signInNotice: null });
    this.outside.tellTabs("signed-out");
  }

  /** Asks whether the sign-in still holds, after a sign that it may not. */
  async check() {
    try {
      const user = await this.api.me();
      if (this.store.state.user?.id !== user.id) this.begin(user);
    } catch (problem) {
      if (problem instanceof Refusal && problem.status === 401) this.end(ENDED_NOTICE);
    }
  }

  /** @param {string | null} notice */
  end(notice) {
    if (this.store.state.phase === "signed_out") return;
    this.chat?.stop();
    this.chat = null;
    this.store.set({
      phase: "signed_out",
      signInNotice: notice,
      user: null,
      list: EMPTY_LIST,
      transcripts: new Map(),
      unsent: [],
      problem: null,
      notice: null,
    });
  }

  /** @param {User} user */
  begin(user) {
    this.chat?.stop();
    this.failures = 0;
    this.store.set({ phase: "signed_in", signInNotice: null, user });
    this.chat = this.outside.makeChat(user, this);
    this.chat.start();
  }
}
