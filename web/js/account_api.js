/**
 * The REST routes about oneself: live sessions, sign-ins, API keys, password, usage. Used by the settings.
 *
 * @import { Api } from "./api.js"
 * @import { ApiKey, Limit, Listing, LiveSession, SignInPlace, UsageDays } from "./wire.d.ts"
 */

export class AccountApi {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
  }

  /** @returns {Promise<Listing<LiveSession>>} */
  sessions() {
    return this.api.call("GET", "sessions");
  }

  /** Drops what the engine keeps of a conversation; the conversation stays. @param {string} id */
  dropSession(id) {
    return this.api.call("DELETE", `sessions/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string | null} cursor
   * @returns {Promise<Listing<SignInPlace>>}
   */
  signIns(cursor) {
    return this.api.call("GET", `auth/sign-ins?${page(cursor)}`);
  }

  /** @param {string} id */
  endSignIn(id) {
    return this.api.call("DELETE", `auth/sign-ins/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string | null} current null where the account has none yet
   * @param {string} wanted
   */
  changePassword(current, wanted) {
    const body = { new_password: wanted, ...(current === null ? {} : { current_password: current }) };
    return this.api.call("POST", "auth/password", { body });
  }

  /** Deletes the account, with everything in it. @param {string | null} password null where the account has none */
  deleteAccount(password) {
    return this.api.call("POST", "me/deletion", { body: { ...(password === null ? {} : { password }) } });
  }

  /**
   * @param {string | null} cursor
   * @returns {Promise<Listing<ApiKey>>}
   */
  keys(cursor) {
    return this.api.call("GET", `keys?${page(cursor)}`);
  }

  /**
   * @param {string} name
   * @param {number | null} days how long it holds; null: until it is revoked
   * @returns {Promise<ApiKey & {key: string}>} with the key, this once
   */
  makeKey(name, days) {
    return this.api.call("POST", "keys", { body: { name, ...(days === null ? {} : { expires_in_days: days }) } });
  }

  /** @param {string} id */
  revokeKey(id) {
    return this.api.call("DELETE", `keys/${encodeURIComponent(id)}`);
  }

  /** The last days on which something was asked. @returns {Promise<UsageDays>} */
  usage() {
    return this.api.call("GET", "me/usage?group_by=day&limit=30");
  }

  /** @returns {Promise<Listing<Limit>>} */
  limits() {
    return this.api.call("GET", "me/limits");
  }
}

/** @param {string | null} cursor */
function page(cursor) {
  return new URLSearchParams({ limit: "50", ...(cursor === null ? {} : { cursor }) });
}
