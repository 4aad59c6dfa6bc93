/**
 * Who is signed in on this page: finds out at the start, signs in and out, and gives the signed-in person a `Chat`.
 *
 * @import { Api } from "./api.js"
 * @import { Chat } from "./chat.js"
 * @import { Store } from "./store.js"
 * @import { State } from "./state.js"
 * @import { Saying } from "./texts.js"
 * @import { User, WaysIn } from "./wire.d.ts"
 */

import { AccountApi } from "./account_api.js";
import { Refusal, messageOf } from "./api.js";
import { backoffMs } from "./backoff.js";
import { refusedSignIn, waysIn } from "./coming_in.js";
import { EMPTY_LIST } from "./conversations.js";
import { newId } from "./ids.js";
import { PLAIN } from "./state.js";

/** @type {Saying} */
export const ENDED_NOTICE = Object.freeze({ key: "ended" });

/** What the page's query string says about a way in that has failed. @type {Record<string, Saying>} */
const NOTICES = { expired: { key: "linkExpired" }, "oidc-failed": { key: "oidcFailed" } };

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
      if (failed === "expired") this.store.set({ notice: { key: "linkUsedStillIn" } });
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
   * @returns {Promise<Saying | null>} what went wrong
   */
  signIn(username, password) {
    return this.enter(() => this.api.signIn(username, password));
  }

  /**
   * @param {string} username
   * @param {string} password
   * @returns {Promise<Saying | null>} what went wrong
   */
  signUp(username, password) {
    return this.enter(() => this.api.signUp(username, password));
  }

  /** How people come in here. @returns {Promise<WaysIn>} */
  waysIn() {
    return waysIn(this.api);
  }

  /**
   * @param {() => Promise<{user: User}>} ask
   * @returns {Promise<Saying | null>} what went wrong
   */
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

  async signOut() {
    // The server closes the socket as soon as the sign-in is gone; that may be noticed before the reply comes.
    const chat = this.chat;
    try {
      await this.api.signOut();
    } catch (problem) {
      if (!(problem instanceof Refusal && problem.status === 401)) {
        this.store.set({ notice: { key: "stillSignedIn" } });
        return;
      }
    }
    this.leave(chat, null);
  }

  /** @param {string | null} password null where the account has none @returns {Promise<Saying | null>} what went wrong */
  async deleteAccount(password) {
    const chat = this.chat;
    try {
      await new AccountApi(this.api).deleteAccount(password);
    } catch (problem) {
      return messageOf(problem);
    }
    this.leave(chat, { key: "accountDeleted" });
    return null;
  }

  /** The next to sign in here may be somebody else. @param {Chat | null} chat of whoever leaves @param {Saying | null} notice */
  leave(chat, notice) {
    chat?.outbox.clear();
    chat?.outside.showAddress(null);
    this.end(notice);
    this.store.set({ currentId: null, threadId: newId(), signInNotice: notice });
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

  /** @param {Saying | null} notice */
  end(notice) {
    if (this.store.state.phase === "signed_out") return;
    this.chat?.stop();
    this.chat = null;
    this.store.set({
      phase: "signed_out",
      signInNotice: notice,
      user: null,
      list: EMPTY_LIST,
      known: new Map(),
      found: null,
      settings: null,
      beginning: PLAIN,
      personas: [],
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
