/** Ids the page makes itself: random, so that two pages never make the same. Works on plain http too, unlike randomUUID. */

/** @returns {string} */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
