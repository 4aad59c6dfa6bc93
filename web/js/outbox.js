/**
 * Messages the server has not accepted yet, and words that were typed but not sent. They live in local storage, so that they
 * outlast a lost connection, a reload and a crash. One key per message: two tabs never overwrite each other's.
 *
 * Keys carry the user's id; what one person typed is never sent by another who signs in on the same machine.
 *
 * @import { Unsent } from "./wire.d.ts"
 */

export class Outbox {
  /**
   * @param {Pick<Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">} storage
   * @param {string} userId
   */
  constructor(storage, userId) {
    this.storage = storage;
    this.prefix = `kvasir.${userId}.`;
  }

  /** Every message that waits or was refused, in the order it was written. @returns {Unsent[]} */
  messages() {
    return this.keys("unsent.")
      .map((key) => parsed(this.storage.getItem(key)))
      .filter((unsent) => unsent !== null)
      .sort((a, b) => a.created_at - b.created_at || (a.client_message_id < b.client_message_id ? -1 : 1));
  }

  /** @param {Unsent} unsent */
  put(unsent) {
    this.storage.setItem(`${this.prefix}unsent.${unsent.client_message_id}`, JSON.stringify(unsent));
  }

  /** @param {string} clientMessageId */
  remove(clientMessageId) {
    this.storage.removeItem(`${this.prefix}unsent.${clientMessageId}`);
  }

  /** @param {string | null} conversationId null: the new conversation */
  draft(conversationId) {
    return this.storage.getItem(`${this.prefix}draft.${conversationId ?? "new"}`) ?? "";
  }

  /**
   * @param {string | null} conversationId
   * @param {string} text
   */
  putDraft(conversationId, text) {
    const key = `${this.prefix}draft.${conversationId ?? "new"}`;
    if (text === "") this.storage.removeItem(key);
    else this.storage.setItem(key, text);
  }

  /**
   * What was typed for a conversation goes with it.
   *
   * @param {string} conversationId
   */
  forget(conversationId) {
    for (const key of this.keys(`draft.${conversationId}`)) this.storage.removeItem(key);
    for (const one of this.messages()) if (one.conversation_id === conversationId) this.remove(one.client_message_id);
  }

  /** Forgets all of this person's words, when they sign out. */
  clear() {
    for (const key of this.keys("")) this.storage.removeItem(key);
  }

  /** @param {string} kind */
  keys(kind) {
    const keys = Array.from({ length: this.storage.length }, (_, index) => this.storage.key(index) ?? "");
    return keys.filter((key) => key.startsWith(this.prefix + kind));
  }
}

/**
 * @param {string | null} text
 * @returns {Unsent | null}
 */
function parsed(text) {
  try {
    const unsent = JSON.parse(text ?? "null");
    return typeof unsent?.client_message_id === "string" && typeof unsent.content === "string" ? unsent : null;
  } catch {
    return null;
  }
}
