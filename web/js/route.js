/**
 * The address of what is shown: `#/c/ID` is a conversation, everything else a new one. Pure. It is the fragment, so that a
 * reload is always a request for `/`, and the server never learns from an address what somebody reads.
 */

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
