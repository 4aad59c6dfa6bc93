/**
 * What agents do and see: the lists, the conversation that is open, answers, canned answers. Whatever an event tells is read from
 * the server; an event itself holds nothing that was said.
 *
 * @import { Store } from "../store.js"
 * @import { Saying } from "../texts.js"
 * @import { DeskApi } from "./desk_api.js"
 * @import { DeskState } from "./state.js"
 * @import { Canned, InboxItem } from "./wire.d.ts"
 */

import { Refusal, messageOf } from "../api.js";
import { opening } from "./state.js";

const PAGE_ITEMS = 100;
const TOAST_MS = 8000;
const TYPING_SHOWN_MS = 6000;
const TYPING_TOLD_EVERY_MS = 3000;
const GROWING_READ_MS = 1500;

export class Desk {
  /**
   * @param {DeskApi} api
   * @param {Store<DeskState>} store
   * @param {object} outside
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.nowMs
   * @param {() => string} outside.newId
   * @param {(conversationId: string | null) => void} outside.showAddress
   */
  constructor(api, store, outside) {
    this.api = api;
    this.store = store;
    this.outside = outside;
    this.isReading = false;
    this.readsAgain = false;
    this.lastTypingMs = -Infinity;
    /** @type {number | undefined} */
    this.typingTimer = undefined;
    /** @type {number | undefined} */
    this.growingTimer = undefined;
    /** What is written and not sent, by conversation. @type {Map<string, string>} */
    this.drafts = new Map();
    /** The key under which an answer is sent until it is accepted. @type {Map<string, string>} */
    this.keys = new Map();
  }

  get state() {
    return this.store.state;
  }

  /** @param {string} name @param {Record<string, any>} data */
  heard(name, data) {
    const id = String(data["conversation_id"] ?? "");
    if (name === "ready") {
      this.store.set({ isLive: true });
      void this.readAll();
    } else if (name === "resync_required") void this.readAll();
    else if (name === "conversation.status_changed") {
      void this.readLists();
      if (id === this.state.openedId) void this.readOpened();
    } else if (name === "message.created") {
      if (data["role"] === "user" && id === this.state.openedId) this.store.set({ isTyping: false });
      if (id === this.state.openedId) void this.readMessages();
      else if (data["role"] === "user") this.store.set({ unseen: new Set([...this.state.unseen, id]) });
    } else if (name === "typing" && id === this.state.openedId && !data["author"]) this.personTypes();
  }

  broken() {
    this.store.set({ isLive: false });
  }

  async readAll() {
    await Promise.all([this.readLists(), this.readOpened(), this.readMessages(), this.readCanned()]);
  }

  /** Of many wishes to read the lists at once, one more reading is enough. */
  async readLists() {
    if (this.isReading) {
      this.readsAgain = true;
      return;
    }
    this.isReading = true;
    try {
      const [queued, human] = await Promise.all([this.api.list("queued", PAGE_ITEMS), this.api.list("human", PAGE_ITEMS)]);
      const hasMore = queued.next_cursor !== null || human.next_cursor !== null;
      this.store.set({ queued: queued.items, human: human.items, hasMore, isRead: true, nowMs: this.outside.nowMs() });
    } catch (problem) {
      this.fault(problem);
    } finally {
      this.isReading = false;
    }
    if (this.readsAgain) {
      this.readsAgain = false;
      await this.readLists();
    }
  }

  /** @param {string | null} conversationId */
  open(conversationId) {
    if (conversationId === this.state.openedId) return;
    const known = [...this.state.queued, ...this.state.human].find((item) => item.conversation.id === conversationId);
    const unseen = new Set(this.state.unseen);
    unseen.delete(conversationId ?? "");
    this.store.set({ ...opening(conversationId), opened: known ?? null, unseen });
    this.outside.showAddress(conversationId);
    void this.readOpened();
    void this.readMessages();
  }

  async readOpened() {
    const { openedId } = this.state;
    if (openedId === null) return;
    try {
      const opened = await this.api.item(openedId);
      if (openedId === this.state.openedId) this.store.set({ opened });
    } catch (problem) {
      if (openedId !== this.state.openedId) return;
      if (problem instanceof Refusal && problem.status === 404) {
        // The model has it again, and it is nobody's here.
        this.open(null);
      } else this.fault(problem);
    }
  }

  async readMessages() {
    const { openedId } = this.state;
    if (openedId === null) return;
    this.outside.clearTimer(this.growingTimer);
    try {
      const page = await this.api.messages(openedId);
      if (openedId !== this.state.openedId) return;
      const fresh = page.items.toReversed();
      const oldest = fresh[0]?.id;
      const at = this.state.messages.findIndex((message) => message.id === oldest);
      const before = at > 0 ? this.state.messages.slice(0, at) : [];
      this.store.set({ messages: [...before, ...fresh], earlierCursor: before.length ? this.state.earlierCursor : page.next_cursor });
      const isGrowing = fresh.some((message) => message.status === "in_progress" || message.status === "queued");
      if (isGrowing) this.growingTimer = this.outside.setTimer(() => void this.readMessages(), GROWING_READ_MS);
    } catch (problem) {
      // What is gone is told by `readOpened`.
      if (!(problem instanceof Refusal && problem.status === 404)) this.fault(problem);
    }
  }

  async readEarlier() {
    const { openedId, earlierCursor, messages } = this.state;
    if (openedId === null || earlierCursor === null) return;
    try {
      const page = await this.api.messages(openedId, earlierCursor);
      if (openedId !== this.state.openedId) return;
      this.store.set({ messages: [...page.items.toReversed(), ...messages], earlierCursor: page.next_cursor });
    } catch (problem) {
      this.fault(problem);
    }
  }

  async readCanned() {
    try {
      this.store.set({ canned: (await this.api.canned()).items });
    } catch (problem) {
      this.fault(problem);
    }
  }

  /** @param {"take" | "return" | "resolve" | "release"} act */
  async act(act) {
    const { openedId } = this.state;
    if (openedId === null || this.state.isBusy) return;
    this.store.set({ isBusy: true });
    try {
      const conversation = await (act === "release" ? this.api.release(openedId) : this.api.act(openedId, act));
      const { opened } = this.state;
      if (opened?.conversation.id === openedId) this.store.set({ opened: { ...opened, conversation } });
      this.toast({ key: `done.${act}` });
      if (act !== "take") this.open(null);
    } catch (problem) {
      this.fault(problem);
      // Somebody else was faster: show how it is now.
      await this.readOpened();
    } finally {
      this.store.set({ isBusy: false });
    }
    await Promise.all([this.readLists(), this.readMessages()]);
  }

  /** @param {string} text @returns {Promise<boolean>} whether it was accepted */
  async answer(text) {
    const { openedId } = this.state;
    if (openedId === null) return false;
    const key = this.keys.get(openedId) ?? this.outside.newId();
    this.keys.set(openedId, key);
    try {
      const { message, conversation } = await this.api.answer(openedId, text, key);
      this.keys.delete(openedId);
      this.lastTypingMs = -Infinity;
      const { opened, messages } = this.state;
      if (openedId !== this.state.openedId || !opened) return true;
      const isNew = !messages.some((known) => known.id === message.id);
      this.store.set({ opened: { ...opened, conversation }, ...(isNew ? { messages: [...messages, message] } : {}) });
      return true;
    } catch (problem) {
      // A refused request may be worded anew under a key of its own; one without an answer is the same request.
      if (problem instanceof Refusal) this.keys.delete(openedId);
      this.fault(problem);
      await this.readOpened();
      return false;
    }
  }

  /** The agent writes: the person is shown it. */
  type() {
    const { opened } = this.state;
    const now = this.outside.nowMs();
    if (opened?.conversation.state !== "human" || now - this.lastTypingMs < TYPING_TOLD_EVERY_MS) return;
    this.lastTypingMs = now;
    // Nothing depends on it.
    this.api.type(opened.conversation.id).catch(() => undefined);
  }

  personTypes() {
    this.outside.clearTimer(this.typingTimer);
    this.store.set({ isTyping: true });
    this.typingTimer = this.outside.setTimer(() => this.store.set({ isTyping: false }), TYPING_SHOWN_MS);
  }

  /** @param {Canned | null} canned the one to change @param {string} title @param {string} content @returns {Promise<boolean>} */
  async saveCanned(canned, title, content) {
    try {
      if (canned) await this.api.changeCanned(canned.id, title, content);
      else await this.api.createCanned(title, content, this.outside.newId());
    } catch (problem) {
      this.fault(problem);
      return false;
    }
    await this.readCanned();
    return true;
  }

  /** @param {Canned} canned */
  async deleteCanned(canned) {
    try {
      await this.api.deleteCanned(canned.id);
    } catch (problem) {
      this.fault(problem);
    }
    await this.readCanned();
  }

  /** @param {InboxItem} item */
  isMine(item) {
    return item.conversation.state === "human" && item.conversation.agent?.id === this.state.user?.id;
  }

  /** @param {unknown} problem */
  fault(problem) {
    this.toast(messageOf(problem), true);
  }

  /** @param {Saying} saying */
  toast(saying, isFault = false) {
    const id = this.outside.newId();
    this.store.set({ toasts: [...this.state.toasts.slice(-2), { id, saying, isFault }] });
    this.outside.setTimer(() => this.dismiss(id), TOAST_MS);
  }

  /** @param {string} id */
  dismiss(id) {
    this.store.set({ toasts: this.state.toasts.filter((toast) => toast.id !== id) });
  }
}
