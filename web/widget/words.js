/**
 * What an answer says, as elements: paragraphs, lists, code, bold, italic and http(s) links, which is what models write in a chat
 * window. Everything else is shown as the text it is. Never HTML.
 */

import { element } from "./dom.js";

const FENCE = /^```/;
const BULLET = /^\s*[-*•]\s+/;
const NUMBER = /^\s*\d+[.)]\s+/;
const HEADING = /^#{1,6}\s+/;
const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/g;

/** @param {string} text @returns {HTMLElement[]} */
export function wordsOf(text) {
  /** @type {HTMLElement[]} */
  const blocks = [];
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (FENCE.test(line)) {
      const end = lines.findIndex((other, index) => index > at && FENCE.test(other));
      const code = lines.slice(at + 1, end < 0 ? lines.length : end).join("\n");
      blocks.push(element("pre", { tabindex: "0" }, element("code", {}, code)));
      at = end < 0 ? lines.length : end + 1;
    } else if (BULLET.test(line) || NUMBER.test(line)) {
      const mark = BULLET.test(line) ? BULLET : NUMBER;
      const taken = takeWhile(lines, at, (other) => mark.test(other));
      const items = taken.map((item) => element("li", {}, ...inline(item.replace(mark, ""))));
      blocks.push(element(mark === BULLET ? "ul" : "ol", {}, ...items));
      at += taken.length;
    } else if (line.trim() === "") {
      at += 1;
    } else if (HEADING.test(line)) {
      // A heading of the answer is none of the site's page.
      blocks.push(element("p", {}, element("strong", {}, ...inline(line.replace(HEADING, "")))));
      at += 1;
    } else {
      const taken = takeWhile(lines, at, (other) => other.trim() !== "" && !FENCE.test(other) && !BULLET.test(other) && !NUMBER.test(other) && !HEADING.test(other));
      const parts = taken.flatMap((part, index) => (index ? [element("br"), ...inline(part)] : inline(part)));
      blocks.push(element("p", {}, ...parts));
      at += taken.length;
    }
  }
  return blocks;
}

/**
 * @param {string[]} lines
 * @param {number} from
 * @param {(line: string) => boolean} holds
 */
function takeWhile(lines, from, holds) {
  let to = from;
  while (to < lines.length && holds(lines[to] ?? "")) to += 1;
  return lines.slice(from, to);
}

/** @param {string} text @returns {(Node | string)[]} */
function inline(text) {
  /** @type {(Node | string)[]} */
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, bold, italic, label, target, address] = found;
    if (found.index > last) parts.push(text.slice(last, found.index));
    if (code) parts.push(element("code", {}, code.slice(1, -1)));
    else if (bold) parts.push(element("strong", {}, bold.slice(2, -2)));
    else if (italic) parts.push(element("em", {}, italic.slice(1, -1)));
    else parts.push(link(target ?? address ?? "", label ?? address ?? ""));
    last = found.index + whole.length;
  }
  if (last < text.length) parts.push(text.slice(last));
  return parts;
}

/** @param {string} address @param {string} label */
function link(address, label) {
  return element("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, label);
}
