/**
 * Reads conversations from the server, page by page, into their transcripts. `chat.js` is its only caller beside the commands.
 *
 * @import { Chat } from "./chat.js"
 */

import { Refusal, messageOf } from "./api.js";
import * as transcripts from "./transcript.js";
import { shownPath } from "./tree.js";

/** A page above what is shown, and one of many that are read to get somewhere. */
const EARLIER_LIMIT = 100;
const FAR_LIMIT = 200;

export class Reading {
  /** @param {Chat} chat */
  constructor(chat) {
    this.chat = chat;
  }

  /**
   * Reads the path to the shown leaf, or to `leaf` where another branch is wanted.
   *
   * @param {string} conversationId
   * @param {string | null} leaf
   */
  async load(conversationId, leaf) {
    const { chat } = this;
    const { leafId, newestId } = chat.transcript(conversationId);
    const wanted = leaf ?? (leafId === newestId ? null : leafId);
    await chat.attempt(async () => {
      const listing = await chat.api.messages(conversationId, { leaf: wanted });
      chat.update(conversationId, (transcript) =>
        transcripts.withListing(transcript, listing, { askedAtLeaf: leafId, isNewest: wanted === null }),
      );
      if (chat.store.state.currentId === conversationId) chat.store.set({ problem: null });
      await this.explainFailures(conversationId);
    }, (problem) => this.cannotLoad(conversationId, problem));
  }

  /**
   * @param {string} conversationId
   * @param {number} [limit]
   * @returns {Promise<boolean>} whether there was something, and it came
   */
  async loadEarlier(conversationId, limit = EARLIER_LIMIT) {
    const { chat } = this;
    const cursor = chat.transcript(conversationId).earlierCursor;
    if (cursor === null) return false;
    await chat.attempt(async () => {
      const listing = await chat.api.messages(conversationId, { cursor, limit });
      chat.update(conversationId, (transcript) => transcripts.withEarlier(transcript, listing));
      await this.explainFailures(conversationId);
    });
    return chat.transcript(conversationId).earlierCursor !== cursor;
  }

  /**
   * Reads on until a message is on the path that is shown, whichever branch it is on and however far up.
   *
   * @param {string} conversationId
   * @param {string} messageId
   * @returns {Promise<boolean>} whether it is there
   */
  async reach(conversationId, messageId) {
    const isThere = () => shownPath(this.chat.transcript(conversationId)).some((message) => message.id === messageId);
    if (!isThere()) await this.load(conversationId, messageId);
    while (!isThere()) {
      if (!(await this.loadEarlier(conversationId, FAR_LIMIT))) return false;
    }
    return true;
  }

  /**
   * Reads everything above what is shown, for as long as somebody wants it.
   *
   * @param {string} conversationId
   * @param {() => boolean} isWanted
   */
  async loadAll(conversationId, isWanted) {
    while (isWanted() && (await this.loadEarlier(conversationId, FAR_LIMIT)));
  }

  /**
   * The listing says that an answer failed, not why.
   *
   * @param {string} conversationId
   */
  async explainFailures(conversationId) {
    const { chat } = this;
    for (const message of shownPath(chat.transcript(conversationId))) {
      if (message.status !== "failed" || message.error || message.response_id === null) continue;
      const { error } = await chat.api.response(message.response_id);
      if (error) chat.update(conversationId, (transcript) => transcripts.withMessageChange(transcript, message.id, { error }));
    }
  }

  /**
   * @param {string} conversationId
   * @param {unknown} problem
   */
  cannotLoad(conversationId, problem) {
    const { chat } = this;
    if (problem instanceof Refusal && problem.status === 404) chat.gone(conversationId);
    else if (chat.store.state.currentId === conversationId && !chat.transcript(conversationId).isLoaded) {
      chat.store.set({ problem: messageOf(problem) });
    }
  }
}
