/**
 * What was said in the conversation that is shown: the chat's own transcript, read through the visitors' door.
 *
 * @import { Door } from "./door.js"
 * @import { Frame, Message } from "../js/wire.d.ts"
 */

import { isFinal } from "../js/message.js";
import { emptyTranscript, resumePoints, withAccepted, withEarlier, withForgotten, withFrame, withListing } from "../js/transcript.js";
import { shownPath } from "../js/tree.js";

export class Thread {
  /** @param {Door} door */
  constructor(door) {
    this.door = door;
    this.transcript = emptyTranscript("");
  }

  /** The messages that are shown, the oldest first. @returns {Message[]} */
  get messages() {
    return shownPath(this.transcript);
  }

  get hasEarlier() {
    return this.transcript.earlierCursor !== null;
  }

  get isLoaded() {
    return this.transcript.isLoaded;
  }

  get resumePoints() {
    return resumePoints(this.transcript);
  }

  /** The answer that is being made. */
  get running() {
    return this.messages.find((message) => message.role === "assistant" && !isFinal(message));
  }

  /** What a rating is of. */
  get lastAnswer() {
    return this.messages.findLast((message) => message.role === "assistant" && isFinal(message));
  }

  /** Another conversation, or none. @param {string} conversationId @param {boolean} isNew nothing was said in it */
  show(conversationId, isNew) {
    this.transcript = { ...emptyTranscript(conversationId), isLoaded: isNew };
  }

  /** Reads what is stored: something may have happened that no frame told. Raises Refused. @param {string} conversationId */
  async read(conversationId) {
    if (this.transcript.conversationId !== conversationId) this.show(conversationId, false);
    const askedAtLeaf = this.transcript.leafId;
    const listing = await this.door.messages(conversationId);
    if (this.transcript.conversationId !== conversationId) return;
    this.transcript = withListing(this.transcript, listing, { askedAtLeaf, isNewest: true });
  }

  /** Raises Refused. */
  async readEarlier() {
    const { earlierCursor, conversationId } = this.transcript;
    if (earlierCursor === null) return;
    const listing = await this.door.messages(conversationId, earlierCursor);
    if (this.transcript.conversationId === conversationId) this.transcript = withEarlier(this.transcript, listing);
  }

  /** @param {Record<string, any>} data */
  accepted(data) {
    this.transcript = withAccepted(this.transcript, data, { isMine: true });
  }

  /** @param {Frame} frame @returns {boolean} whether frames before it are missing */
  advance(frame) {
    const { transcript, gap } = withFrame(this.transcript, frame);
    this.transcript = transcript;
    return gap;
  }

  /** The server cannot go on from where this answer was read up to. @param {string} responseId */
  forget(responseId) {
    this.transcript = withForgotten(this.transcript, responseId);
  }
}
