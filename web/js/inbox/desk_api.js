/**
 * The agents' routes, one method per route, over the same `Api` as the chat. Raises Refusal or Unreachable.
 *
 * @import { Api } from "../api.js"
 * @import { Listing } from "../wire.d.ts"
 * @import { Canned, InboxItem, InboxList, SaidMessage, ServedConversation } from "./wire.d.ts"
 */

/** @param {string} id */
const part = (id) => encodeURIComponent(id);

export class DeskApi {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
  }

  /** @param {"queued" | "human"} state @param {number} limit @returns {Promise<InboxList>} */
  list(state, limit) {
    return this.api.call("GET", `inbox?state=${state}&limit=${limit}`);
  }

  /** @param {string} id @returns {Promise<InboxItem>} */
  item(id) {
    return this.api.call("GET", `inbox/${part(id)}`);
  }

  /** @param {string} id @param {string | null} cursor @returns {Promise<Listing<SaidMessage>>} */
  messages(id, cursor = null) {
    const more = cursor === null ? "" : `&cursor=${part(cursor)}`;
    return this.api.call("GET", `inbox/${part(id)}/messages?limit=50${more}`);
  }

  /**
   * @param {string} id
   * @param {"take" | "return" | "resolve"} act
   * @returns {Promise<ServedConversation>}
   */
  act(id, act) {
    return this.api.call("POST", `inbox/${part(id)}/${act}`);
  }

  /** Puts it back for the others. @param {string} id @returns {Promise<ServedConversation>} */
  release(id) {
    return this.api.call("POST", `conversations/${part(id)}/handoff`, { body: {} });
  }

  /**
   * @param {string} id
   * @param {string} content
   * @param {string} idempotencyKey
   * @returns {Promise<{message: SaidMessage, conversation: ServedConversation}>}
   */
  answer(id, content, idempotencyKey) {
    return this.api.call("POST", `inbox/${part(id)}/messages`, { body: { content }, idempotencyKey });
  }

  /** @param {string} id */
  type(id) {
    return this.api.call("POST", `inbox/${part(id)}/typing`);
  }

  /** @returns {Promise<Listing<Canned>>} */
  canned() {
    return this.api.call("GET", "canned-answers?limit=200");
  }

  /** @param {string} title @param {string} content @param {string} idempotencyKey @returns {Promise<Canned>} */
  createCanned(title, content, idempotencyKey) {
    return this.api.call("POST", "canned-answers", { body: { title, content }, idempotencyKey });
  }

  /** @param {string} id @param {string} title @param {string} content @returns {Promise<Canned>} */
  changeCanned(id, title, content) {
    return this.api.call("PATCH", `canned-answers/${part(id)}`, { body: { title, content } });
  }

  /** @param {string} id */
  deleteCanned(id) {
    return this.api.call("DELETE", `canned-answers/${part(id)}`);
  }
}
