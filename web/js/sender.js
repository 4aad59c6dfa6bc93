/**
 * Sends what is in the outbox: one message at a time, in the order it was written, each until the server has accepted or
 * refused it. A message keeps its `client_message_id` through every try, and a new conversation its idempotency key, so
 * sending twice makes one message.
 *
 * @import { Api } from "./api.js"
 * @import { Outbox } from "./outbox.js"
 * @import { Accepted, Conversation, Unsent } from "./wire.d.ts"
 */

import { Refusal, messageOf } from "./api.js";
import { backoffMs } from "./backoff.js";

/** Refusals that pass by themselves. 500 is one of them a few times: the same words may work after a restart. */
const PASSING_STATUSES = new Set([408, 425, 429, 500, 502, 503, 504]);
const SERVER_ERRORS_MAX = 4;

export class Sender {
  /**
   * @param {Api} api
   * @param {Outbox} outbox
   * @param {object} outside
   * @param {(unsent: Unsent, conversation: Conversation) => void} outside.onConversation
   * @param {(unsent: Unsent, accepted: Accepted) => void} outside.onAccepted
   * @param {() => void} outside.onChange the outbox is another than before
   * @param {() => void} outside.onSignedOut
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(api, outbox, outside) {
    this.api = api;
    this.outbox = outbox;
    this.outside = outside;
    this.isSending = false;
    this.isStopped = false;
    this.failures = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** Sends whatever waits, now. */
  async flush() {
    this.outside.clearTimer(this.timer);
    if (this.isSending || this.isStopped) return;
    this.isSending = true;
    try {
      for (let unsent = this.next(); unsent && !this.isStopped; unsent = this.next()) {
        if (!(await this.send(unsent))) return;
      }
    } finally {
      this.isSending = false;
    }
  }

  stop() {
    this.isStopped = true;
    this.outside.clearTimer(this.timer);
  }

  next() {
    return this.outbox.messages().find((unsent) => unsent.refused === null) ?? null;
  }

  /**
   * @param {Unsent} unsent
   * @returns {Promise<boolean>} whether the next one may be sent
   */
  async send(unsent) {
    try {
      const conversationId = unsent.conversation_id ?? (await this.conversationFor(unsent));
      const { client_message_id, content, parent_id } = unsent;
      const message = { client_message_id, content, ...(parent_id === undefined ? {} : { parent_id }) };
      const accepted = await this.api.createMessage(conversationId, message);
      this.outbox.remove(client_message_id);
      this.failures = 0;
      this.outside.onAccepted({ ...unsent, conversation_id: conversationId }, accepted);
      return true;
    } catch (problem) {
      return this.afterProblem(unsent, problem);
    }
  }

  /**
   * Makes the conversation all messages of a new thread go to. Asked twice, the server answers with the same one.
   *
   * @param {Unsent} unsent
   */
  async conversationFor(unsent) {
    const conversation = await this.api.createConversation(unsent.thread_id, unsent.beginning);
    for (const one of this.outbox.messages()) {
      if (one.conversation_id === null && one.thread_id === unsent.thread_id) {
        this.outbox.put({ ...one, conversation_id: conversation.id });
      }
    }
    this.outside.onConversation(unsent, conversation);
    return conversation.id;
  }

  /**
   * Says at the message what has become of it, unless the person has taken it back meanwhile.
   *
   * @param {Unsent} unsent
   * @param {Partial<Unsent>} change
   */
  note(unsent, change) {
    const stored = this.outbox.messages().find((one) => one.client_message_id === unsent.client_message_id);
    if (stored) this.outbox.put({ ...stored, ...change });
    this.outside.onChange();
  }

  /**
   * @param {Unsent} unsent
   * @param {unknown} problem
   */
  afterProblem(unsent, problem) {
    this.failures += 1;
    if (problem instanceof Refusal) {
      if (problem.status === 401) {
        this.outside.onSignedOut();
        return false;
      }
      const isPassing = PASSING_STATUSES.has(problem.status) && !(problem.status === 500 && this.failures > SERVER_ERRORS_MAX);
      if (!isPassing) {
        this.failures = 0;
        this.note(unsent, { refused: messageOf(problem) });
        return true;
      }
    }
    this.note(unsent, { delayed: messageOf(problem) });
    const retryAfterS = problem instanceof Refusal ? problem.retryAfterS : null;
    const waitMs = Math.max((retryAfterS ?? 0) * 1000, backoffMs(this.failures, this.outside.random));
    this.timer = this.outside.setTimer(() => void this.flush(), waitMs);
    return false;
  }
}
