/**
 * The conversations of the person who is signed in: what comes from the server ends up in the state here. What the person
 * does begins in `commands.js`.
 *
 * After every new connection the shown conversation is subscribed to and read again, so that what happened meanwhile on
 * another device is there too; what is read and what is streamed may overlap in any way, `transcript.js` sorts it out.
 *
 * @import { Api } from "./api.js"
 * @import { Outbox } from "./outbox.js"
 * @import { Sender } from "./sender.js"
 * @import { LiveSocket, Connection } from "./socket.js"
 * @import { Store } from "./store.js"
 * @import { State } from "./state.js"
 * @import { Saying } from "./texts.js"
 * @import { Transcript } from "./transcript.js"
 * @import { Accepted, Conversation, Frame, Unsent } from "./wire.d.ts"
 */

import { Refusal, messageOf } from "./api.js";
import { withConversation, withKnown, withPage, withoutConversation } from "./conversations.js";
import { withFoundChange, withoutFound } from "./finding.js";
import { newId } from "./ids.js";
import { isFinal, spoken } from "./message.js";
import { Reading } from "./reading.js";
import { GONE, PLAIN } from "./state.js";
import * as transcripts from "./transcript.js";

export class Chat {
  /**
   * @param {Api} api
   * @param {Store<State>} store
   * @param {Outbox} outbox
   * @param {object} outside
   * @param {(chat: Chat) => LiveSocket} outside.makeSocket
   * @param {(chat: Chat) => Sender} outside.makeSender
   * @param {(notice: Saying | null) => void} outside.onSignedOut
   * @param {(conversationId: string | null) => void} outside.showAddress
   * @param {(message: string) => void} outside.tellTabs
   * @param {() => number} outside.now milliseconds
   */
  constructor(api, store, outbox, outside) {
    this.api = api;
    this.store = store;
    this.outbox = outbox;
    this.outside = outside;
    this.socket = outside.makeSocket(this);
    this.sender = outside.makeSender(this);
    this.reading = new Reading(this);
  }

  start() {
    const unsent = this.outbox.messages();
    const thread = unsent.find((one) => one.conversation_id === null)?.thread_id;
    this.store.set({ unsent, ...(thread === undefined ? {} : { threadId: thread }) });
    this.socket.open();
    this.refresh();
    void this.sender.flush();
  }

  stop() {
    this.socket.close();
    this.sender.stop();
  }

  /**
   * Shows a conversation, or a new one.
   *
   * @param {string | null} conversationId
   * @param {string} [threadId] the thread on the screen where it has become this conversation; else another one begins
   * @returns {Promise<void>} when it has been read
   */
  async open(conversationId, threadId = newId()) {
    const { currentId } = this.store.state;
    if (conversationId === currentId) return;
    if (currentId !== null) this.socket.send("conversation.unsubscribe", { conversation_id: currentId });
    this.store.set({ currentId: conversationId, threadId, problem: null, wanted: null });
    if (conversationId === null) return;
    this.socket.send("conversation.subscribe", { conversation_id: conversationId });
    void this.learnOf(conversationId);
    await this.load(conversationId);
  }

  /** Asks for what the list does not tell: archived and temporary conversations are not in it. @param {string} conversationId */
  async learnOf(conversationId) {
    const known = this.store.state.known.get(conversationId);
    if (known && !known.archived && !known.temporary) return;
    await this.readAgain(conversationId);
  }

  /** @param {string} conversationId */
  async readAgain(conversationId) {
    await this.attempt(async () => this.conversationChanged(await this.api.conversation(conversationId)), () => undefined);
  }

  /**
   * @param {string} conversationId
   * @param {string | null} [leaf]
   */
  load(conversationId, leaf = null) {
    return this.reading.load(conversationId, leaf);
  }

  async refreshList() {
    await this.attempt(async () => {
      const page = await this.api.conversations();
      this.know(page.items);
      this.store.set({ list: withPage(this.store.state.list, page, { isFirst: true }) });
    }, () => undefined);
  }

  async loadMoreConversations() {
    const { cursor } = this.store.state.list;
    if (cursor === null) return;
    await this.attempt(async () => {
      const page = await this.api.conversations({ cursor });
      this.know(page.items);
      this.store.set({ list: withPage(this.store.state.list, page, { isFirst: false }) });
    });
  }

  /** @param {Connection} connection */
  connectionChanged(connection) {
    this.store.set({ connection });
    if (connection === "signed_out") this.outside.onSignedOut(null);
  }

  /** @param {Frame} frame */
  receive(frame) {
    const { conversation_id: conversationId, data } = frame;
    if (frame.type === "session.ready") this.connected();
    else if (frame.type === "message.created" && conversationId) this.accepted(conversationId, data);
    else if (frame.type === "conversation.updated" && data["conversation"]) this.conversationChanged(data["conversation"]);
    else if (frame.type === "conversation.updated" && data["deleted"] && conversationId) this.gone(conversationId);
    else if (frame.type === "typing" && conversationId) this.somebodyTypes(conversationId, data["author"]?.name);
    else if (frame.type === "resync_required") this.resync(String(data["response_id"] ?? frame.response_id));
    else if (frame.seq !== undefined && conversationId) this.advance(conversationId, frame);
  }

  /**
   * A person who answers in the model's place is writing; of oneself, on another device, nothing is shown.
   *
   * @param {string} conversationId
   * @param {string | undefined} name
   */
  somebodyTypes(conversationId, name) {
    if (name !== undefined) this.store.set({ typing: { conversationId, name, at: this.outside.now() } });
  }

  connected() {
    const { currentId } = this.store.state;
    if (currentId !== null) this.socket.send("conversation.subscribe", { conversation_id: currentId });
    this.refresh();
    void this.sender.flush();
  }

  /** Reads again what is shown: something may have happened that no frame told this page. */
  refresh() {
    const { currentId } = this.store.state;
    if (currentId !== null) void this.load(currentId);
    void this.refreshList().then(() => (currentId === null ? undefined : this.learnOf(currentId)));
  }

  /**
   * @param {string} conversationId
   * @param {Frame} frame
   */
  advance(conversationId, frame) {
    const before = this.transcript(conversationId);
    const { transcript, gap } = transcripts.withFrame(before, frame);
    if (gap) {
      this.socket.reconnect();
      return;
    }
    this.update(conversationId, () => transcript);
    const id = transcript.messageOfResponse.get(frame.response_id ?? "") ?? "";
    const [was, is] = [before.messages.get(id), transcript.messages.get(id)];
    const hasEnded = was && is && !isFinal(was) && isFinal(is);
    if (hasEnded && this.store.state.currentId === conversationId) this.store.set({ announcement: spoken(is) });
  }

  /**
   * A message or an answer that the server has begun, whoever asked for it.
   *
   * @param {string} conversationId
   * @param {Partial<Accepted> & {client_message_id?: string | null}} accepted
   * @param {{isMine: boolean}} [options] whether this page asked for it
   */
  accepted(conversationId, accepted, options = { isMine: false }) {
    if (accepted.client_message_id) {
      this.outbox.remove(accepted.client_message_id);
      this.outboxChanged();
    }
    this.update(conversationId, (transcript) => transcripts.withAccepted(transcript, accepted, options));
    const { typing } = this.store.state;
    if (accepted.message?.author && typing?.conversationId === conversationId) this.store.set({ typing: null });
    // A conversation is named by its first message, and that may have been stored before the socket follows the conversation.
    if (this.store.state.known.get(conversationId)?.title === "") void this.readAgain(conversationId);
  }

  /** @param {Conversation} conversation */
  conversationChanged(conversation) {
    const { list, found } = this.store.state;
    this.know([conversation]);
    this.store.set({ list: withConversation(list, conversation), found: withFoundChange(found, conversation) });
  }

  /** @param {readonly Conversation[]} conversations */
  know(conversations) {
    this.store.set({ known: withKnown(this.store.state.known, conversations) });
  }

  async learnPersonas() {
    await this.attempt(async () => this.store.set({ personas: (await this.api.personas()).items }), () => undefined);
  }

  /**
   * The first message of a new thread has got its conversation.
   *
   * @param {Unsent} unsent
   * @param {Conversation} conversation
   */
  conversationMade(unsent, conversation) {
    const { currentId, threadId } = this.store.state;
    this.outboxChanged();
    this.conversationChanged(conversation);
    if (currentId !== null || threadId !== unsent.thread_id) return;
    this.outbox.putDraft(conversation.id, this.outbox.draft(null));
    this.outbox.putDraft(null, "");
    // It is empty, and known to be: nothing has to be waited for.
    this.update(conversation.id, (transcript) => ({ ...transcript, isLoaded: true }));
    this.store.set({ beginning: PLAIN });
    void this.open(conversation.id, threadId);
    this.outside.showAddress(conversation.id);
  }

  outboxChanged() {
    this.store.set({ unsent: this.outbox.messages() });
  }

  /**
   * The server cannot go on from where this page stopped reading an answer: what is stored decides.
   *
   * @param {string} responseId
   */
  resync(responseId) {
    for (const [conversationId, transcript] of this.store.state.transcripts) {
      if (!transcript.messageOfResponse.has(responseId)) continue;
      this.update(conversationId, (one) => transcripts.withForgotten(one, responseId));
      void this.load(conversationId);
    }
  }

  resumePoints() {
    const { currentId } = this.store.state;
    return currentId === null ? [] : transcripts.resumePoints(this.transcript(currentId));
  }

  /**
   * Deleted, here or on another device.
   *
   * @param {string} conversationId
   */
  gone(conversationId) {
    this.forget(conversationId);
    if (this.store.state.currentId === conversationId) this.store.set({ problem: GONE });
  }

  /** @param {string} conversationId */
  forget(conversationId) {
    const { list, found } = this.store.state;
    const [transcripts, known] = [new Map(this.store.state.transcripts), new Map(this.store.state.known)];
    transcripts.delete(conversationId);
    known.delete(conversationId);
    this.store.set({ transcripts, known, list: withoutConversation(list, conversationId), found: withoutFound(found, conversationId) });
  }

  /**
   * Does something that may be refused or not arrive. Without `otherwise` the person is told.
   *
   * @param {() => Promise<unknown>} action
   * @param {(problem: unknown) => void} [otherwise]
   */
  async attempt(action, otherwise = (problem) => this.tell(problem)) {
    try {
      await action();
    } catch (problem) {
      if (problem instanceof Refusal && problem.status === 401) this.outside.onSignedOut(null);
      else otherwise(problem);
    }
  }

  /** @param {unknown} problem */
  tell(problem) {
    this.store.set({ notice: messageOf(problem) });
  }

  /** @param {string} conversationId */
  transcript(conversationId) {
    return this.store.state.transcripts.get(conversationId) ?? transcripts.emptyTranscript(conversationId);
  }

  /**
   * @param {string} conversationId
   * @param {(transcript: Transcript) => Transcript} change
   */
  update(conversationId, change) {
    const next = change(this.transcript(conversationId));
    this.store.set({ transcripts: new Map(this.store.state.transcripts).set(conversationId, next) });
  }
}
