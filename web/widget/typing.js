/**
 * Who writes just now: the person at the other end, shown for as long as it is told again; and telling that the visitor does.
 *
 * @import { Person } from "./wire.d.ts"
 */

const SHOWN_MS = 6000;
const TOLD_EVERY_MS = 3000;

export class Typing {
  /**
   * @param {object} outside
   * @param {(callback: () => void, ms: number) => number} outside.setTimer
   * @param {(timer: number | undefined) => void} outside.clearTimer
   * @param {() => number} outside.nowMs
   * @param {() => void} outside.changed
   */
  constructor(outside) {
    this.outside = outside;
    /** @type {Person | null} */
    this.person = null;
    this.lastToldMs = -Infinity;
    /** @type {number | undefined} */
    this.timer = undefined;
  }

  /** @param {Person | null} person */
  heard(person) {
    this.outside.clearTimer(this.timer);
    this.person = person;
    if (person === null) return;
    this.timer = this.outside.setTimer(() => {
      this.person = null;
      this.outside.changed();
    }, SHOWN_MS);
  }

  /** What is written next is another message. */
  sent() {
    this.lastToldMs = -Infinity;
  }

  /** Whether it is time to tell again that the visitor writes. */
  isToBeTold() {
    const now = this.outside.nowMs();
    if (now - this.lastToldMs < TOLD_EVERY_MS) return false;
    this.lastToldMs = now;
    return true;
  }
}
