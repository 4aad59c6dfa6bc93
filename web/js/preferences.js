/**
 * How a person wants the pages of this browser to be: language, colours, size of the text, the key that sends. Kept in local
 * storage, for whoever sits here, signed in or not; every page of Kvasir follows them, and so does every other tab.
 *
 * A page makes one before anything else, so that nothing is seen in other colours or words than the wanted ones.
 */

import { LANGUAGES, languageFor } from "./texts.js";

const KEY = "kvasir.preferences";

/** What each may be; the first is what it is where nothing was chosen. */
export const CHOICES = Object.freeze({
  language: /** @type {const} */ (["auto", .../** @type {(keyof typeof LANGUAGES)[]} */ (Object.keys(LANGUAGES))]),
  theme: /** @type {const} */ (["system", "light", "dark"]),
  textSize: /** @type {const} */ (["normal", "small", "large", "largest"]),
  sendKey: /** @type {const} */ (["enter", "mod-enter"]),
  costLine: /** @type {const} */ (["shown", "hidden"]),
  singleKeys: /** @type {const} */ (["on", "off"]),
});

/** @typedef {{-readonly [Name in keyof typeof CHOICES]: (typeof CHOICES)[Name][number]}} Choices */

/**
 * What is stored, as far as it makes sense: it may be of another version of the page.
 *
 * @param {string | null} text
 * @returns {Choices}
 */
export function choicesIn(text) {
  let stored;
  try {
    stored = JSON.parse(text ?? "{}");
  } catch {
    stored = {};
  }
  const entries = Object.entries(CHOICES).map(([name, values]) => {
    const value = stored?.[name];
    return [name, /** @type {readonly string[]} */ (values).includes(value) ? value : values[0]];
  });
  return /** @type {Choices} */ (Object.fromEntries(entries));
}

export class Preferences {
  /**
   * @param {Pick<Storage, "getItem" | "setItem">} storage
   * @param {{lang: string, dataset: DOMStringMap}} root the element of the whole page, which carries them for the style sheets
   * @param {readonly string[]} languages the browser's
   */
  constructor(storage, root, languages) {
    this.storage = storage;
    this.root = root;
    this.languages = languages;
    this.choices = choicesIn(storage.getItem(KEY));
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.apply();
  }

  get language() {
    return languageFor(this.choices.language, this.languages);
  }

  /** @param {Partial<Choices>} patch */
  change(patch) {
    this.choices = { ...this.choices, ...patch };
    this.apply();
    try {
      this.storage.setItem(KEY, JSON.stringify(this.choices));
    } catch {
      // A full storage only means that this tab alone follows, until it is closed.
    }
  }

  /** Another tab may have changed them. */
  read() {
    this.choices = choicesIn(this.storage.getItem(KEY));
    this.apply();
  }

  apply() {
    this.root.lang = this.language;
    this.root.dataset["theme"] = this.choices.theme;
    this.root.dataset["textSize"] = this.choices.textSize;
    for (const listener of this.listeners) listener();
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
