/**
 * Loads the page's modules, and loads the page again where the network broke in the middle of that: a browser would leave it
 * blank for ever. After a few tries it leaves the sentence that `index.html` holds ready.
 */

const TRIES_KEY = "kvasir.load-tries";
const TRIES_MAX = 5;
const FIRST_WAIT_MS = 500;

/** Without its styles the page is as broken as without a module, only less obviously. */
function areStylesThere() {
  return [...document.querySelectorAll("link[rel=stylesheet]")].every((link) => /** @type {HTMLLinkElement} */ (link).sheet);
}

/** With cookies blocked, nobody can sign in either. */
function isStorageBlocked() {
  try {
    void [sessionStorage.length, localStorage.length];
    return false;
  } catch {
    return true;
  }
}

const BLOCKED =
  "This browser does not let Kvasir store anything. Allow cookies and site data for this address, then reload the page. " +
  "浏览器不允许 Kvasir 存储数据。请允许此地址使用 Cookie 和网站数据，然后刷新页面。";

if (isStorageBlocked()) {
  const place = document.querySelector(".not-loaded");
  if (place) place.textContent = BLOCKED;
  throw new Error(BLOCKED);
}

try {
  // Which page this is, its HTML says: the chat, or the beginning of another.
  await import(document.documentElement.dataset["app"] ?? "./app.js");
  if (!areStylesThere()) throw new Error("a style sheet did not load");
  sessionStorage.removeItem(TRIES_KEY);
} catch (problem) {
  console.error(problem);
  const tries = Number(sessionStorage.getItem(TRIES_KEY) ?? 0);
  if (tries < TRIES_MAX) {
    sessionStorage.setItem(TRIES_KEY, String(tries + 1));
    setTimeout(() => location.reload(), FIRST_WAIT_MS * 2 ** tries);
  }
}
