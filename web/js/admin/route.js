/** The address of a section: `#/sessions`. Pure. It is the fragment, so that a reload is always a request for `/admin`. */

export const SECTIONS = /** @type {const} */ ([
  "overview",
  "sessions",
  "memory",
  "personas",
  "widgets",
  "users",
  "keys",
  "usage",
  "feedback",
  "webhooks",
  "audit",
  "server",
]);
/** @typedef {(typeof SECTIONS)[number]} Section */

/** @param {string} hash @returns {Section} */
export function sectionIn(hash) {
  const name = hash.replace(/^#\//, "");
  return SECTIONS.find((section) => section === name) ?? "overview";
}

/** @param {Section} section */
export function hashOf(section) {
  return `#/${section}`;
}
