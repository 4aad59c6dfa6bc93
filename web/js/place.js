/**
 * Where this tab is: the conversation in the address, and, after a reload, the one that was shown last. A reload that begins
 * in the moment a new conversation gets its address would otherwise land on an empty page.
 */

import { conversationIn, hashOf, settingsIn } from "./route.js";

const KEY = "kvasir.place";

export class Place {
  /**
   * @param {Location} location
   * @param {Pick<Storage, "getItem" | "setItem">} storage of this tab only
   */
  constructor(location, storage) {
    this.location = location;
    this.storage = storage;
  }

  /**
   * @param {boolean} isReload
   * @returns {string | null} the conversation to begin with
   */
  first(isReload) {
    const here = this.current();
    if (here === null && isReload && this.settings() === null) this.show(conversationIn(this.storage.getItem(KEY) ?? ""));
    return this.current();
  }

  current() {
    return conversationIn(this.location.hash);
  }

  /** The page of settings in the address. */
  settings() {
    return settingsIn(this.location.hash);
  }

  /** @param {string | null} conversationId */
  show(conversationId) {
    this.storage.setItem(KEY, hashOf(conversationId));
    if (this.current() !== conversationId || this.settings() !== null) this.location.hash = hashOf(conversationId);
  }
}
