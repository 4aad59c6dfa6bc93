/**
 * Which addresses in an answer become links. Pure. Only absolute http, https and mailto addresses do; all else stays text.
 */

const ALLOWED_PROTOCOLS = new Set(["http:", "https:", "mailto:"]);

/**
 * The address to use as `href`, normalised by the URL parser the browser itself uses; null where it must not be a link.
 *
 * @param {string} address
 * @returns {string | null}
 */
export function safeHref(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  // `https://bank.example@evil.example` shows one host and opens another.
  if (!ALLOWED_PROTOCOLS.has(url.protocol) || url.username !== "" || url.password !== "") return null;
  return url.href;
}
