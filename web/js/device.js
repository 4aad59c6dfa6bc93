/** What a browser says it is, as people call it. Pure: from the label of a sign-in, which is the browser's own description. */

const BROWSERS = /** @type {const} */ ([
  ["Edg", "Edge"],
  ["OPR", "Opera"],
  ["Firefox", "Firefox"],
  ["HeadlessChrome", "Chrome"],
  ["Chrome", "Chrome"],
  ["Safari", "Safari"],
]);
const SYSTEMS = /** @type {const} */ ([
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Android", "Android"],
  ["Windows", "Windows"],
  ["Mac OS", "macOS"],
  ["CrOS", "ChromeOS"],
  ["Linux", "Linux"],
]);
const LABEL_CHARS_MAX = 60;

/**
 * @param {string} label
 * @returns {string} as `Firefox, Windows`; a program's own name where it is no browser
 */
export function deviceOf(label) {
  const browser = BROWSERS.find(([sign]) => label.includes(`${sign}/`))?.[1];
  const system = SYSTEMS.find(([sign]) => label.includes(sign))?.[1];
  if (browser === undefined) return label.slice(0, LABEL_CHARS_MAX);
  return system === undefined ? browser : `${browser}, ${system}`;
}
