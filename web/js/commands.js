/**
 * What a person can do: each method is one button or key. Everything that writes goes over REST, with an id that makes a
 * second try harmless.
 *
 * @import { Chat } from "./chat.js"
 * @import { Beginning, Message, Rated, Unsent } from "./wire.d.ts"
 */

import { ConversationCommands } from "./conversation_commands.js";
import { newId } from "./ids.js";
import { SearchCommands } from "./search_commands.js";
import { GONE, PLAIN, unsentHere } from "./state.js";
import { withLeaf, withMessageChange } from "./transcript.js";
import { newestBelow } from "./tree.js";

const TYPING_EVERY_MS = 3000;

export class Commands {
  /**
   * @param {() => Chat | null} chat
   * @param {() => number} now milliseconds
   */
  constructor(chat, now) {
    this.chatOrNull = chat;
    this.now = now;
    /** @type {Set<string>} questions that another answer has just been asked for */
    this.regenerating = new Set();
    this.typedAt = 0;
    this.conversations = new ConversationCommands(() => this.chat);
    this.search = new SearchCommands(() => this.chat);
  }

  get chat() {
    const chat = this.chatOrNull();
    if (!chat) throw new Error("nobody is signed in");
    return chat;
  }

  get state() {
    return this.chat.store.state;
  }

  /** @param {string} content */
  send(content) {
    if (this.state.problem === GONE) this.open(null);
    const { currentId } = this.state;
    const { leafId, newestId } = currentId === null ? { leafId: null, newestId: null } : this.chat.transcript(currentId);
    // At the newest end the server knows best what comes before; on an older branch the page says so.
    return this.enqueue(content, leafId === newestId ? undefined : leafId);
  }

  /**
   * Another wording of a message of the user: a branch beside it.
   *
   * @param {Message} message
   * @param {string} content
   */
  edit(message, content) {
    return this.enqueue(content, message.parent_id);
  }

  /**
   * @param {string} content
   * @param {string | null | undefined} parentId
   * @returns {boolean} whether the words are safe
   */
  enqueue(content, parentId) {
    const { outbox, store, sender } = this.chat;
    const { currentId, threadId } = this.state;
    // The time is the order, so two messages of one moment must not have the same.
    const lastAt = outbox.messages().at(-1)?.created_at ?? 0;
    /** @type {Unsent} */
    const unsent = {
      client_message_id: newId(),
      conversation_id: currentId,
      thread_id: threadId,
      // All of one thread go into one conversation, which the first of them begins.
      ...(currentId === null ? { beginning: unsentHere(this.state)[0]?.beginning ?? this.state.beginning } : {}),
      ...(parentId === undefined ? {} : { parent_id: parentId }),
      // Half of a character, as some programs leave on the clipboard, is none, and no server could store it.
      content: content.replace(/\p{Surrogate}/gu, "\ufffd"),
      created_at: Math.max(this.now(), lastAt + 1),
      refused: null,
    };
    try {
      outbox.put(unsent);
    } catch {
      store.set({ notice: { key: "storageFull" } });
      return false;
    }
    this.chat.outboxChanged();
    void sender.flush();
    return true;
  }

  /** @param {Unsent} unsent */
  resend(unsent) {
    this.chat.outbox.put({ ...unsent, refused: null });
    this.chat.outboxChanged();
    void this.chat.sender.flush();
  }

  /** @param {Unsent} unsent */
  discard(unsent) {
    this.chat.outbox.remove(unsent.client_message_id);
    this.chat.outboxChanged();
  }

  /** @param {Message} answer */
  async regenerate(answer) {
    const { currentId } = this.state;
    const parentId = answer.parent_id;
    // The second press of a double click is not a wish for two more answers.
    if (currentId === null || parentId === null || this.regenerating.has(parentId)) return;
    const key = newId();
    this.regenerating.add(parentId);
    await this.chat.attempt(async () => {
      this.chat.accepted(currentId, await this.chat.api.regenerate(currentId, parentId, key), { isMine: true });
    });
    this.regenerating.delete(parentId);
  }

  /** @param {Message} answer */
  async stop(answer) {
    const id = answer.response_id;
    if (id !== null) await this.chat.attempt(() => this.chat.api.cancel(id));
  }

  /**
   * Shown at once, and taken back where the server does not take it.
   *
   * @param {Message} answer
   * @param {Rated | null} rated null takes a rating back
   */
  async rate(answer, rated) {
    const { currentId } = this.state;
    if (currentId === null) return;
    const show = (/** @type {Rated | null} */ feedback) =>
      this.chat.update(currentId, (transcript) => withMessageChange(transcript, answer.id, { feedback }));
    const before = answer.feedback ?? null;
    show(rated);
    await this.chat.attempt(
      () => this.chat.api.rate(answer.id, rated),
      (problem) => {
        show(before);
        this.chat.tell(problem);
      },
    );
  }

  /** @param {string} messageId one of several siblings, whose branch is to be shown */
  async showBranch(messageId) {
    const { currentId } = this.state;
    if (currentId === null) return;
    const { leafId, isKnown } = newestBelow(this.chat.transcript(currentId), messageId);
    if (isKnown) this.chat.update(currentId, (transcript) => withLeaf(transcript, leafId));
    await this.chat.load(currentId, messageId);
  }

  async loadEarlier() {
    const { currentId } = this.state;
    if (currentId !== null) await this.chat.reading.loadEarlier(currentId);
  }

  /**
   * Reads all of the shown conversation, for as long as that is wanted.
   *
   * @param {() => boolean} isWanted
   */
  async loadAll(isWanted) {
    const { currentId } = this.state;
    if (currentId !== null) await this.chat.reading.loadAll(currentId, () => isWanted() && this.state.currentId === currentId);
  }

  /**
   * Puts a message of the shown path into sight.
   *
   * @param {string} messageId
   * @param {{isFocusWanted: boolean}} options
   */
  want(messageId, { isFocusWanted }) {
    this.chat.store.set({ wanted: { messageId, isFocusWanted } });
  }

  async loadMoreConversations() {
    await this.chat.loadMoreConversations();
  }

  /** @param {string | null} conversationId */
  open(conversationId) {
    if (conversationId === null && this.state.currentId !== null) this.chat.store.set({ beginning: PLAIN });
    void this.chat.open(conversationId);
    this.chat.store.set({ settings: null });
    this.chat.outside.showAddress(conversationId);
  }

  /** What the new chat on the screen is going to be. @param {Partial<Beginning>} change */
  begin(change) {
    this.chat.store.set({ beginning: { ...this.state.beginning, ...change } });
  }

  learnPersonas() {
    return this.chat.learnPersonas();
  }

  /** @param {string} conversationId */
  learnOf(conversationId) {
    return this.chat.learnOf(conversationId);
  }

  /** Something of the settings: where it is refused, the person is told. @param {() => Promise<unknown>} action */
  attempt(action) {
    return this.chat.attempt(action);
  }

  /** Tells the person who answers that something is being written, every few seconds. */
  typing() {
    const { currentId, known } = this.state;
    const now = this.now();
    if (currentId === null || known.get(currentId)?.state !== "human" || now - this.typedAt < TYPING_EVERY_MS) return;
    this.typedAt = now;
    this.chat.socket.send("typing", { conversation_id: currentId });
  }

  /** @param {string | null} conversationId */
  draft(conversationId) {
    return this.chat.outbox.draft(conversationId);
  }

  /**
   * @param {string | null} conversationId
   * @param {string} text
   */
  putDraft(conversationId, text) {
    try {
      this.chat.outbox.putDraft(conversationId, text);
    } catch {
      // A full storage only means that this draft does not outlast a reload.
    }
  }

  /** Another wording of a message that is being written, or "". @param {Message} message */
  wording(message) {
    return this.draft(`${this.state.currentId}.${message.id}`);
  }

  /**
   * @param {Message} message
   * @param {string} text
   */
  putWording(message, text) {
    this.putDraft(`${this.state.currentId}.${message.id}`, text);
  }

  dismissNotice() {
    this.chat.store.set({ notice: null });
  }
}
