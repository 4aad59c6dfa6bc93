/**
 * Markdown as vnodes. What a model writes can become text, one of the elements below, or a link that `links.js` allows;
 * HTML in it is shown as the characters it is made of. There is no way from here to an HTML string.
 *
 * @import { Token, Tokens } from "../../vendor/marked/marked.js"
 */

import { useMemo, useRef } from "../../vendor/preact/hooks.js";
import { decodeEntities } from "../entities.js";
import { html, memo } from "../html.js";
import { safeHref } from "../links.js";
import { Growing, blocksOf } from "../markdown.js";
import * as chat from "../texts/chat.js";
import { CopyButton } from "./copy_button.js";
import { useTexts } from "./language.js";

/** Deeper nesting is shown as it was written. No reader follows it, and each level costs width. */
const DEPTH_MAX = 12;

/** @param {{text: string, isGrowing: boolean}} props */
export function Markdown({ text, isGrowing }) {
  const growing = useRef(/** @type {Growing | null} */ (null));
  growing.current ??= new Growing();
  const whole = useMemo(() => (isGrowing ? null : blocksOf(text)), [isGrowing, isGrowing ? null : text]);
  const blocks = whole ?? growing.current.read(text);
  return blocks.map((block, index) => html`<${Block} key=${index} block=${block} />`);
}

const Block = memo(({ block }) => blockView(block, 0));

/**
 * @param {Token} written
 * @param {number} depth
 * @returns {any}
 */
function blockView(written, depth) {
  const token = /** @type {any} */ (written);
  if (depth > DEPTH_MAX) return html`<p dir="auto" class="as-written">${token.raw}</p>`;
  switch (token.type) {
    case "paragraph":
      return html`<p dir="auto">${inlineViews(token.tokens, depth)}</p>`;
    case "text":
      return token.tokens ? inlineViews(token.tokens, depth) : decodeEntities(token.text);
    case "heading":
      return heading(token.depth, inlineViews(token.tokens, depth));
    case "code":
      return html`<${CodeBlock} text=${token.text} label=${languageOf(token.lang)} />`;
    case "blockquote":
      return html`<blockquote dir="auto">${blockViews(token.tokens, depth + 1)}</blockquote>`;
    case "list":
      return list(token, depth);
    case "table":
      return html`<${Table} token=${token} depth=${depth} />`;
    case "hr":
      return html`<hr />`;
    case "space":
    case "def":
      return null;
    case "html":
      return html`<p dir="auto" class="as-written">${token.raw.trimEnd()}</p>`;
    default:
      return inlineView(token, depth);
  }
}

/**
 * @param {Token[]} tokens
 * @param {number} depth
 */
function blockViews(tokens, depth) {
  return tokens.map((token) => blockView(token, depth));
}

/**
 * @param {Token[] | undefined} tokens
 * @param {number} depth
 */
function inlineViews(tokens, depth) {
  return (tokens ?? []).map((token) => inlineView(token, depth + 1));
}

/**
 * @param {Token} written
 * @param {number} depth
 * @returns {any}
 */
function inlineView(written, depth) {
  const token = /** @type {any} */ (written);
  if (depth > 2 * DEPTH_MAX) return token.raw;
  switch (token.type) {
    case "text":
      if (token.tokens) return inlineViews(token.tokens, depth);
      return token.escaped ? token.text : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
      return html`<strong>${inlineViews(token.tokens, depth)}</strong>`;
    case "em":
      return html`<em>${inlineViews(token.tokens, depth)}</em>`;
    case "del":
      return html`<del>${inlineViews(token.tokens, depth)}</del>`;
    case "codespan":
      return html`<code dir="ltr">${token.text}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return link(token.href, inlineViews(token.tokens, depth), token.raw);
    case "image":
      return html`<${ImageLink} token=${token} />`;
    case "checkbox":
      return html`<${Checkbox} isChecked=${token.checked} />`;
    case "html":
      // Models write line breaks in table cells this way.
      return /^<br\s*\/?>$/i.test(token.raw) ? html`<br />` : token.raw;
    default:
      return token.raw;
  }
}

/**
 * @param {string} address
 * @param {any} content
 * @param {string} raw
 */
function link(address, content, raw) {
  const href = safeHref(decodeEntities(address));
  return href === null ? raw : html`<a href=${href} target="_blank" rel="noopener noreferrer">${content}</a>`;
}

/**
 * An answer lies below the page's own headings.
 *
 * @param {number} level
 * @param {any} content
 */
function heading(level, content) {
  switch (level) {
    case 1:
      return html`<h3 dir="auto">${content}</h3>`;
    case 2:
      return html`<h4 dir="auto">${content}</h4>`;
    case 3:
      return html`<h5 dir="auto">${content}</h5>`;
    default:
      return html`<h6 dir="auto">${content}</h6>`;
  }
}

/**
 * @param {Tokens.List} token
 * @param {number} depth
 */
function list(token, depth) {
  const items = token.items.map(
    (item) => html`<li dir="auto" class=${item.task ? "task" : null}>${blockViews(item.tokens, depth + 1)}</li>`,
  );
  return token.ordered ? html`<ol start=${token.start === "" ? 1 : token.start}>${items}</ol>` : html`<ul>${items}</ul>`;
}

/** A picture is a link, and loaded only by whoever follows it. @param {{token: Tokens.Image}} props */
function ImageLink({ token }) {
  const { t } = useTexts(chat);
  return link(token.href, t("image", { text: decodeEntities(token.text) || token.href }), token.raw);
}

/** @param {{isChecked: boolean}} props */
function Checkbox({ isChecked }) {
  const { t } = useTexts(chat);
  return html`<input type="checkbox" disabled checked=${isChecked} aria-label=${t(isChecked ? "done" : "toDo")} />`;
}

/** @param {{token: Tokens.Table, depth: number}} props */
function Table({ token, depth }) {
  const { t } = useTexts(chat);
  const classOf = (/** @type {string | null} */ align) => (align ? `align-${align}` : null);
  return html`
    <div class="table-frame" role="region" aria-label=${t("table")} tabindex="0">
      <table>
        <thead>
          <tr>
            ${token.header.map(
              (cell) => html`<th scope="col" dir="auto" class=${classOf(cell.align)}>${inlineViews(cell.tokens, depth)}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${token.rows.map(
            (row) => html`
              <tr>
                ${row.map((cell) => html`<td dir="auto" class=${classOf(cell.align)}>${inlineViews(cell.tokens, depth)}</td>`)}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{text: string, label: string}} props */
function CodeBlock({ text, label }) {
  const { t } = useTexts(chat);
  return html`
    <figure class="code">
      <figcaption>
        <span>${label || t("plainCode")}</span>
        <${CopyButton} text=${text} label=${t("copyCode")} />
      </figcaption>
      <pre dir="ltr" role="group" tabindex="0" aria-label=${label ? t("codeIn", { language: label }) : t("code")}><code>${text}</code></pre>
    </figure>
  `;
}

/** @param {string | undefined} info the words after the opening fence */
function languageOf(info) {
  return /^[\w+#.-]{1,30}/.exec(info ?? "")?.[0] ?? "";
}
