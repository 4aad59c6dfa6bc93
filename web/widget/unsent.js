/**
 * What the visitor has typed and the server has not accepted yet, in the order in which it was typed. Sent with an id of its own, again
 * after every reconnect, it arrives once.
 *
 * @import { LiveSocket } from "../js/socket.js"
 * @import { Memory } from "./memory.js"
 * @import { Waiting } from "./wire.d.ts"
 */

export class Unsent {
  /**
   * @param {Memory} memory
   * @param {() => void} changed
   */
  constructor(memory, changed) {
    this.memory = memory;
    this.changed = changed;
    this.list = memory.waiting;
    /** What is on its way, by the id of its frame. @type {Map<string, string>} */
    this.sent = new Map();
  }

  /** @param {string} clientMessageId @param {string} content */
  add(clientMessageId, content) {
    this.keep([...this.list, { client_message_id: clientMessageId, content, refused: null }]);
  }

  /** A new connection knows nothing of what was sent on the one before. */
  disconnected() {
    this.sent.clear();
  }

  /** @param {LiveSocket} socket @param {string} conversationId */
  sendOn(socket, conversationId) {
    const underWay = new Set(this.sent.values());
    for (const { client_message_id, content, refused } of this.list) {
      if (refused !== null || underWay.has(client_message_id)) continue;
      socket.send("message.create", { conversation_id: conversationId, content, client_message_id });
      this.sent.set(String(socket.lastId), client_message_id);
    }
  }

  /** @param {string} clientMessageId */
  accepted(clientMessageId) {
    this.keep(this.list.filter((item) => item.client_message_id !== clientMessageId));
  }

  /** The server has refused a frame. @param {string} frameId @param {string} code */
  refused(frameId, code) {
    const clientMessageId = this.sent.get(frameId);
    if (clientMessageId === undefined) return;
    this.sent.delete(frameId);
    const isBusy = code === "quota_exceeded" || code.startsWith("too_many") || code.startsWith("queue");
    this.mark(clientMessageId, isBusy ? "busy" : "not_sent");
  }

  /** @param {string} reason */
  refuseAll(reason) {
    this.keep(this.list.map((item) => ({ ...item, refused: item.refused ?? reason })));
  }

  /** @param {string} clientMessageId */
  again(clientMessageId) {
    this.mark(clientMessageId, null);
  }

  /** @param {string} clientMessageId @param {string | null} refused */
  mark(clientMessageId, refused) {
    this.keep(this.list.map((item) => (item.client_message_id === clientMessageId ? { ...item, refused } : item)));
  }

  /** @param {Waiting[]} list */
  keep(list) {
    this.list = list;
    this.memory.waiting = list;
    this.changed();
  }
}
