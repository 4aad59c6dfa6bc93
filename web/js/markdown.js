/**
 * Markdown as blocks of tokens. Pure; `components/markdown_view.js` turns the tokens into vnodes.
 *
 * While an answer grows, only its last two blocks can still change, so `Growing` reads again from there: the work for an answer is
 * linear in its length, and blocks that are done keep their identity, so that their views need not render again. The finished
 * text is read once as a whole, because a reference defined at the end may give an earlier `[text]` its link.
 *
 * @import { Token } from "../vendor/marked/marked.js"
 */

import { Lexer } from "../vendor/marked/marked.js";

/** Longer text is shown as it is: nobody reads that much markup, and reading it would hold up the page. */
const MARKDOWN_CHARS_MAX = 200_000;

/**
 * @param {string} text
 * @returns {Token[]}
 */
export function blocksOf(text) {
  if (text.length > MARKDOWN_CHARS_MAX) return [plain(text)];
  try {
    return new Lexer().lex(text);
  } catch {
    // Thousands of nested quotes or lists exhaust the stack of the lexer. The words are still worth showing.
    return [plain(text)];
  }
}

/** The blocks of a text that only ever grows at its end. */
export class Growing {
  constructor() {
    this.text = "";
    /** @type {Token[]} */
    this.blocks = [];
  }

  /**
   * The blocks of `text`; the same objects as before for those that did not change.
   *
   * @param {string} text
   * @returns {Token[]}
   */
  read(text) {
    // The lexer does the same, and the places of its blocks are only known in the text it really reads.
    const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (normal !== this.text) {
      const { kept, length } = this.settled(normal);
      this.blocks = [...kept, ...blocksOf(normal.slice(length))];
      this.text = normal;
    }
    return this.blocks;
  }

  /**
   * The blocks no further text can change, and how much of `text` they are: all before the last two that are not blank. A
   * list goes on after a blank line, and the last line may yet become part of the block before it (`- - -`, then `- - - x`).
   *
   * @param {string} text
   */
  settled(text) {
    const filled = this.blocks.flatMap((block, index) => (block.type === "space" ? [] : [index]));
    const open = filled.at(-2) ?? 0;
    /** @type {Token[]} */
    const kept = [];
    let length = 0;
    for (const block of this.blocks.slice(0, open)) {
      if (!text.startsWith(block.raw, length)) break;
      kept.push(block);
      length += block.raw.length;
    }
    return kept.length === open ? { kept, length } : { kept: [], length: 0 };
  }
}

/**
 * @param {string} text
 * @returns {Token}
 */
function plain(text) {
  return { type: "paragraph", raw: text, text, tokens: [{ type: "text", raw: text, text, escaped: true }] };
}
