/**
 * What a person can do with a conversation as a whole: name it, tag it, put it away, keep it, delete it, bring one in.
 *
 * @import { Chat } from "./chat.js"
 * @import { Conversation } from "./wire.d.ts"
 */

import { Refusal } from "./api.js";
import { newId } from "./ids.js";

export const TAGS_MAX = 32;
export const TAG_CHARS_MAX = 64;
const TRIES_MAX = 3;

export class ConversationCommands {
  /** @param {() => Chat} chat of whoever is signed in */
  constructor(chat) {
    this.chatNow = chat;
    /** @type {Promise<void>} changes follow one another, each on the outcome of the one before */
    this.changing = Promise.resolve();
  }

  get chat() {
    return this.chatNow();
  }

  /**
   * @param {Conversation} conversation
   * @param {string} title
   */
  rename(conversation, title) {
    return this.change(conversation, () => ({ title }));
  }

  /**
   * @param {Conversation} conversation
   * @param {readonly string[]} added
   */
  addTags(conversation, added) {
    const shortened = added.map((tag) => [...tag].slice(0, TAG_CHARS_MAX).join("").trim());
    return this.change(conversation, ({ tags }) => ({ tags: [...new Set([...tags, ...shortened])].slice(0, TAGS_MAX) }));
  }

  /**
   * @param {Conversation} conversation
   * @param {string} tag
   */
  removeTag(conversation, tag) {
    return this.change(conversation, ({ tags }) => ({ tags: tags.filter((one) => one !== tag) }));
  }

  /**
   * @param {Conversation} conversation
   * @param {boolean} archived
   */
  async archive(conversation, archived) {
    await this.change(conversation, () => ({ archived }));
    this.chat.store.set({ notice: { key: archived ? "archivedNow" : "unarchivedNow" } });
  }

  /** A temporary conversation stays. @param {Conversation} conversation */
  keep(conversation) {
    return this.change(conversation, () => ({ temporary: false }));
  }

  /** A person is to answer; the model is silent from here on. @param {Conversation} conversation */
  askForPerson(conversation) {
    const { chat } = this;
    return chat.attempt(async () => chat.conversationChanged(await chat.api.askForPerson(conversation.id)));
  }

  /** The model answers again. @param {Conversation} conversation */
  waitNoLonger(conversation) {
    const { chat } = this;
    return chat.attempt(async () => chat.conversationChanged(await chat.api.waitNoLonger(conversation.id)));
  }

  /** @param {Conversation} conversation */
  async remove(conversation) {
    const { chat } = this;
    await chat.attempt(async () => {
      await chat.api.deleteConversation(conversation.id);
      chat.forget(conversation.id);
      chat.outbox.forget(conversation.id);
      chat.outboxChanged();
      if (chat.store.state.currentId === conversation.id) {
        void chat.open(null);
        chat.outside.showAddress(null);
      }
      chat.outside.tellTabs("conversations");
    });
  }

  /**
   * Reads back what an export gave, as a new conversation, and shows it.
   *
   * @param {File} file
   */
  async bringIn(file) {
    const { chat } = this;
    const mediaType = /\.(ndjson|jsonl)$/i.test(file.name) ? "application/x-ndjson" : "application/json";
    await chat.attempt(async () => {
      const conversation = await chat.api.importConversation(file, mediaType, newId());
      chat.conversationChanged(conversation);
      void chat.open(conversation.id);
      chat.outside.showAddress(conversation.id);
      chat.outside.tellTabs("conversations");
    });
  }

  /**
   * @param {Conversation} conversation
   * @param {(newest: Conversation) => Partial<Conversation>} wish
   */
  async change(conversation, wish) {
    const { chat } = this;
    const before = this.changing;
    this.changing = before.then(() =>
      chat.attempt(async () => {
        chat.conversationChanged(await this.changed(conversation.id, wish));
        chat.outside.tellTabs("conversations");
      }),
    );
    await this.changing;
  }

  /**
   * A wish is for one field only, so it is based on the newest version, and on a newer one where another device was quicker.
   *
   * @param {string} id
   * @param {(newest: Conversation) => Partial<Conversation>} wish
   * @param {number} [tries]
   * @returns {Promise<Conversation>}
   */
  async changed(id, wish, tries = TRIES_MAX) {
    const newest = await this.chat.api.conversation(id);
    try {
      return await this.chat.api.changeConversation(id, newest.version, wish(newest));
    } catch (problem) {
      if (tries > 1 && problem instanceof Refusal && problem.status === 412) return this.changed(id, wish, tries - 1);
      throw problem;
    }
  }
}
