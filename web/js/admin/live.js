/**
 * The server's numbers, once a second: opens the event stream, opens it again when it breaks, and knows when what is shown is old.
 * It owns the stream, and not what the numbers mean.
 *
 * @import { Stats } from "./wire.d.ts"
 */

import { backoffMs } from "../backoff.js";

/** Without an event for so long the numbers are called old, and the stream is opened again. */
export const STALE_MS = 4000;

/** @typedef {"connecting" | "live" | "stale"} Liveness */

export class LiveStats {
  /**
   * @param {object} outside
   * @param {() => Pick<EventSource, "addEventListener" | "close">} outside.open
   * @param {(stats: Stats) => void} outside.onStats
   * @param {(liveness: Liveness) => void} outside.onLiveness
   * @param {() => void} outside.onRefused the stream broke: it may be that the sign-in has ended
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.random
   */
  constructor(outside) {
    this.outside = outside;
    /** @type {Pick<EventSource, "addEventListener" | "close"> | null} */
    this.stream = null;
    this.failures = 0;
    this.isStopped = false;
    /** @type {number | undefined} */
    this.retryTimer = undefined;
    /** @type {number | undefined} */
    this.staleTimer = undefined;
  }

  start() {
    this.isStopped = false;
    this.outside.clearTimer(this.retryTimer);
    this.stream?.close();
    const stream = this.outside.open();
    this.stream = stream;
    stream.addEventListener("stats", (event) => this.stream === stream && this.received(/** @type {MessageEvent} */ (event)));
    stream.addEventListener("error", () => this.stream === stream && this.failed());
    this.watch();
  }

  stop() {
    this.isStopped = true;
    this.outside.clearTimer(this.retryTimer);
    this.outside.clearTimer(this.staleTimer);
    this.stream?.close();
    this.stream = null;
  }

  /** The network or the page is back: do not wait for the next try. */
  awaken() {
    if (!this.isStopped && this.stream === null) this.start();
  }

  /** @param {MessageEvent} event */
  received(event) {
    this.failures = 0;
    this.watch();
    this.outside.onStats(JSON.parse(event.data));
    this.outside.onLiveness("live");
  }

  failed() {
    this.stream?.close();
    this.stream = null;
    this.failures += 1;
    this.outside.onLiveness("stale");
    this.outside.onRefused();
    if (this.isStopped) return;
    this.outside.clearTimer(this.staleTimer);
    this.retryTimer = this.outside.setTimer(() => this.start(), backoffMs(this.failures, this.outside.random));
  }

  /** A connection can be dead without a word. */
  watch() {
    this.outside.clearTimer(this.staleTimer);
    this.staleTimer = this.outside.setTimer(() => this.failed(), STALE_MS * Math.min(4, this.failures + 1));
  }
}
