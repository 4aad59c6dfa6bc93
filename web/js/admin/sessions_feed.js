/**
 * Everybody's live sessions, read page after page, again and again while somebody looks. Owns the last whole list: one that was read
 * half is never shown.
 *
 * @import { LiveSession } from "./wire.d.ts"
 * @import { AdminApi } from "./api.js"
 */

const PAUSE_MS = 2000;

/** @typedef {{items: LiveSession[], read_at_ms: number}} SessionList */

export class SessionsFeed {
  /**
   * @param {AdminApi} api
   * @param {object} outside
   * @param {(list: SessionList) => void} outside.onList
   * @param {(problem: unknown) => void} outside.onProblem
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.nowMs
   */
  constructor(api, outside) {
    this.api = api;
    this.outside = outside;
    this.round = 0;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** Reads now, and then again and again. */
  start() {
    this.outside.clearTimer(this.timer);
    this.round += 1;
    void this.read(this.round);
  }

  stop() {
    this.round += 1;
    this.outside.clearTimer(this.timer);
  }

  /** @param {number} round */
  async read(round) {
    try {
      const read_at_ms = this.outside.nowMs();
      /** @type {Map<string, LiveSession>} */
      const found = new Map();
      let cursor = null;
      do {
        const page = await this.api.sessions(cursor);
        if (round !== this.round) return;
        // One that is used while the pages are read may be on two of them.
        for (const session of page.items) found.set(`${session.id} ${session.server}`, session);
        cursor = page.next_cursor;
      } while (cursor !== null);
      this.outside.onList({ items: [...found.values()], read_at_ms });
    } catch (problem) {
      if (round !== this.round) return;
      this.outside.onProblem(problem);
    }
    if (round === this.round) this.timer = this.outside.setTimer(() => void this.read(round), PAUSE_MS);
  }
}
