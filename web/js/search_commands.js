/**
 * What a person can do to find something again: search in all conversations, narrow the list, go to what was found.
 *
 * @import { Chat } from "./chat.js"
 * @import { Wanted } from "./finding.js"
 */

import { askingFor, looking, withFoundPage } from "./finding.js";

export class SearchCommands {
  /** @param {() => Chat} chat of whoever is signed in */
  constructor(chat) {
    this.chatNow = chat;
  }

  get chat() {
    return this.chatNow();
  }

  /** Shows what is wanted instead of the list, or the list again. @param {Partial<Wanted>} change */
  async look(change) {
    const { store } = this.chat;
    const before = store.state.found;
    const { query = "", tag = null, archived = false } = { ...before, ...change };
    store.set({ found: looking(before, { query, tag, archived }) });
    await this.ask({ isFirst: true });
  }

  more() {
    return this.ask({ isFirst: false });
  }

  /** @param {{isFirst: boolean}} options */
  async ask({ isFirst }) {
    const { chat } = this;
    const asked = chat.store.state.found;
    if (asked === null) return;
    const isStillWanted = () => {
      const { found } = chat.store.state;
      return found !== null && found.query === asked.query && found.tag === asked.tag && found.archived === asked.archived;
    };
    await chat.attempt(
      async () => {
        const page = await chat.api.conversations({ ...askingFor(asked), cursor: isFirst ? null : asked.cursor });
        const { found } = chat.store.state;
        if (found === null || !isStillWanted()) return;
        chat.know(page.items);
        chat.store.set({ found: withFoundPage(found, page, { isFirst }) });
      },
      (problem) => {
        const { found } = chat.store.state;
        if (found !== null && isStillWanted()) chat.store.set({ found: { ...found, isBusy: false } });
        chat.tell(problem);
      },
    );
  }

  /**
   * Shows a conversation at a message of it, wherever in it that is.
   *
   * @param {string} conversationId
   * @param {string} messageId
   */
  async goTo(conversationId, messageId) {
    const { chat } = this;
    if (chat.store.state.currentId !== conversationId) {
      const isRead = chat.open(conversationId);
      chat.outside.showAddress(conversationId);
      await isRead;
    }
    if (await chat.reading.reach(conversationId, messageId)) chat.store.set({ wanted: { messageId, isFocusWanted: true } });
  }
}
