/**
 * The address of what is shown: `#/c/ID` is a conversation, `#/settings/PAGE` a page of settings, everything else a new chat.
 * Pure. It is the fragment, so that a reload is always a request for `/`, and the server never learns from an address what
 * somebody reads.
 */

export const SETTINGS_PAGES = /** @type {const} */ (["general", "sessions", "sign-in", "keys", "usage"]);

/** @typedef {(typeof SETTINGS_PAGES)[number]} SettingsPageName */

/**
 * @param {string} hash
 * @returns {string | null} the conversation's id
 */
export function conversationIn(hash) {
  const found = /^#\/c\/([0-9a-zA-Z-]{1,64})$/.exec(hash);
  return found?.[1] ?? null;
}

/** @param {string | null} conversationId */
export function hashOf(conversationId) {
  return conversationId === null ? "#/" : `#/c/${conversationId}`;
}

/**
 * @param {string} hash
 * @returns {SettingsPageName | null}
 */
export function settingsIn(hash) {
  const found = /^#\/settings\/([a-z-]{1,20})$/.exec(hash);
  return SETTINGS_PAGES.find((page) => page === found?.[1]) ?? null;
}

/** @param {SettingsPageName} page */
export function hashOfSettings(page) {
  return `#/settings/${page}`;
}
