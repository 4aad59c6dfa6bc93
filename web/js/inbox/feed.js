/**
 * The inbox's event stream: opens it, opens it again when it breaks, and says what it brings. What happened meanwhile is read anew
 * after every `ready`.
 */

import { backoffMs } from "../backoff.js";

/** What the server sends. */
const EVENTS = ["ready", "conversation.status_changed", "message.created", "typing", "resync_required"];

export class InboxFeed {
  /**
   * @param {object} outside
   * @param {() => Pick<EventSource, "addEventListener" | "close">} outside.open
   * @param {(name: string, data: Record<string, any>) => void} outside.onEvent
   * @param {() => void} outside.onBroken the stream broke: it may be that the sign-in has ended
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(outside) {
    this.outside = outside;
    /** @type {Pick<EventSource, "addEventListener" | "close"> | null} */
    this.stream = null;
    this.isStopped = true;
    this.failures = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  start() {
    this.isStopped = false;
    this.outside.clearTimer(this.timer);
    this.stream?.close();
    const stream = this.outside.open();
    this.stream = stream;
    for (const name of EVENTS) {
      stream.addEventListener(name, (event) => {
        if (this.stream !== stream) return;
        this.failures = 0;
        this.outside.onEvent(name, JSON.parse(/** @type {MessageEvent} */ (event).data));
      });
    }
    stream.addEventListener("error", () => this.stream === stream && this.broken());
  }

  stop() {
    this.isStopped = true;
    this.outside.clearTimer(this.timer);
    this.stream?.close();
    this.stream = null;
  }

  /** The network or the page is back: do not wait for the next try. */
  awaken() {
    if (!this.isStopped && this.stream === null) this.start();
  }

  broken() {
    this.stream?.close();
    this.stream = null;
    this.failures += 1;
    this.outside.onBroken();
    // The stream of somebody whose sign-in has ended is stopped by that.
    if (!this.isStopped) this.timer = this.outside.setTimer(() => this.start(), backoffMs(this.failures, this.outside.random));
  }
}
