/**
 * What the widget remembers on the site's own origin: the key of an anonymous visitor for good; what was typed and not accepted
 * yet, and whether the window is open, as long as the tab. A browser that keeps nothing only forgets sooner.
 *
 * @import { Waiting } from "./wire.d.ts"
 */

export class Memory {
  /**
   * @param {string} widgetId
   * @param {() => Storage} lasting a getter, because asking for it may throw
   * @param {() => Storage} passing
   */
  constructor(widgetId, lasting, passing) {
    this.name = `kvasir.widget.${widgetId}`;
    this.lasting = lasting;
    this.passing = passing;
  }

  /** @returns {string | null} */
  get visitorKey() {
    return text(this.lasting, `${this.name}.key`);
  }

  set visitorKey(key) {
    keep(this.lasting, `${this.name}.key`, key);
  }

  /** Whether there is a conversation to go on with, so that the page connects before the window is opened. */
  get isActive() {
    return text(this.lasting, `${this.name}.active`) === "1";
  }

  set isActive(value) {
    keep(this.lasting, `${this.name}.active`, value ? "1" : null);
  }

  get isOpen() {
    return text(this.passing, `${this.name}.open`) === "1";
  }

  set isOpen(value) {
    keep(this.passing, `${this.name}.open`, value ? "1" : null);
  }

  /** @returns {Waiting[]} */
  get waiting() {
    try {
      const found = JSON.parse(text(this.passing, `${this.name}.waiting`) ?? "[]");
      return Array.isArray(found) ? found : [];
    } catch {
      return [];
    }
  }

  set waiting(messages) {
    keep(this.passing, `${this.name}.waiting`, messages.length ? JSON.stringify(messages) : null);
  }
}

/**
 * @param {() => Storage} storage
 * @param {string} name
 */
function text(storage, name) {
  try {
    return storage().getItem(name);
  } catch {
    return null;
  }
}

/**
 * @param {() => Storage} storage
 * @param {string} name
 * @param {string | null} value
 */
function keep(storage, name, value) {
  try {
    if (value === null) storage().removeItem(name);
    else storage().setItem(name, value);
  } catch {
    // A page without storage forgets with its end.
  }
}
