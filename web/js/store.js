/**
 * The one state of the page. Whoever changes it replaces it; whoever shows it is told at most once per frame of the screen,
 * however many pieces of text came in between.
 *
 * @template {object} State
 */
export class Store {
  /**
   * @param {State} initial
   * @param {(callback: () => void) => void} schedule when to tell the views
   */
  constructor(initial, schedule) {
    this.state = initial;
    this.schedule = schedule;
    this.isScheduled = false;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {Partial<State>} patch */
  set(patch) {
    this.state = { ...this.state, ...patch };
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.schedule(() => {
      this.isScheduled = false;
      for (const listener of this.listeners) listener();
    });
  }

  /**
   * @param {() => void} listener
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}
