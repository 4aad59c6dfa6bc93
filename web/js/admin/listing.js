/**
 * A list that comes in pages: what of it is there, and the reads that bring more of it or the same once more. One read follows the other, so
 * that none is lost, and nothing that was asked for before `open` is shown after it. No DOM.
 *
 * @import { Saying } from "../texts.js"
 */

import { messageOf } from "../api.js";

/**
 * @template T
 * @template {{items: T[], next_cursor: string | null}} P
 * @typedef {{items: readonly T[], page: P | null, isLoading: boolean, problem: Saying | null}} Shown
 */

/**
 * @template T
 * @template {{items: T[], next_cursor: string | null}} P
 */
export class Listing {
  /** @param {(shown: Shown<T, P>) => void} show is told of every change */
  constructor(show) {
    /** @type {Shown<T, P>} */
    this.shown = { items: [], page: null, isLoading: true, problem: null };
    this.show = show;
    this.load = /** @type {((cursor: string | null) => Promise<P>) | null} */ (null);
    this.last = Promise.resolve();
  }

  get hasMore() {
    return Boolean(this.shown.page?.next_cursor);
  }

  /** Reads the first page of something new; until it has come, what was there stays. @param {(cursor: string | null) => Promise<P>} load */
  open(load) {
    this.load = load;
    this.last = Promise.resolve();
    this.change({ isLoading: true });
    return this.inTurn(async () => {
      const page = await load(null);
      return { items: page.items, page };
    });
  }

  /** What is still being read is not shown any more. */
  close() {
    this.load = null;
  }

  /** Reads the next page, if there is one. */
  more() {
    this.change({ isLoading: true });
    return this.inTurn(async (load) => {
      const { items, page } = this.shown;
      if (page === null || page.next_cursor === null) return {};
      const next = await load(page.next_cursor);
      return { items: [...items, ...next.items], page: next };
    });
  }

  /** Reads what is shown once more: as many as there are, so that nobody who has read on is thrown back. */
  reload() {
    return this.inTurn(async (load) => {
      const wanted = this.shown.items.length;
      let page = await load(null);
      const items = [...page.items];
      while (items.length < wanted && page.next_cursor !== null) {
        page = await load(page.next_cursor);
        items.push(...page.items);
      }
      return { items, page };
    });
  }

  /** @param {unknown} problem */
  fail(problem) {
    this.change({ problem: messageOf(problem) });
  }

  /** @param {(load: (cursor: string | null) => Promise<P>) => Promise<Partial<Shown<T, P>>>} read @returns {Promise<void>} */
  inTurn(read) {
    const load = this.load;
    if (load === null) return Promise.resolve();
    this.last = this.last.then(async () => {
      if (load !== this.load) return;
      const change = await read(load).catch((problem) => ({ problem: messageOf(problem) }));
      if (load === this.load) this.change({ problem: null, ...change, isLoading: false });
    });
    return this.last;
  }

  /** @param {Partial<Shown<T, P>>} change */
  change(change) {
    this.shown = { ...this.shown, ...change };
    this.show(this.shown);
  }
}
