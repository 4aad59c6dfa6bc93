/**
 * A table of a list that comes in pages: loading, empty, failed, and the button for more.
 *
 * @import { Saying } from "../../texts.js"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} head
 * @property {(item: T) => any} cell
 * @property {boolean} [isNumber]
 * @property {boolean} [isHeadHidden]
 */

/**
 * @template T
 * @param {object} props
 * @param {string} props.label
 * @param {readonly Column<T>[]} props.columns
 * @param {readonly T[]} props.items
 * @param {(item: T) => string} props.keyOf
 * @param {{isLoading: boolean, problem: Saying | null, hasMore: boolean, more: () => unknown}} [props.listing]
 * @param {string} [props.whenEmpty]
 */
export function DataTable({ label, columns, items, keyOf, listing, whenEmpty }) {
  const { t, say } = useTexts(texts);
  const isEmpty = items.length === 0;
  return html`
    ${listing?.problem && html`<p class="fault-line" role="alert">${say(listing.problem)}</p>`}
    ${isEmpty && !listing?.problem && html`<p class="empty">${listing?.isLoading ? t("loading") : whenEmpty ?? t("empty")}</p>`}
    ${!isEmpty &&
    html`
      <div class="table-frame" role="region" aria-label=${label} tabindex="0">
        <table class="table">
          <thead>
            <tr>${columns.map((column) => html`<th scope="col" class=${column.isNumber ? "is-number" : ""}><span class=${column.isHeadHidden ? "visually-hidden" : ""}>${column.head}</span></th>`)}</tr>
          </thead>
          <tbody>
            ${items.map(
              (item) => html`
                <tr key=${keyOf(item)}>${columns.map((column) => html`<td class=${column.isNumber ? "is-number" : ""}>${column.cell(item)}</td>`)}</tr>
              `,
            )}
          </tbody>
        </table>
      </div>
    `}
    ${listing?.hasMore &&
    html`<button type="button" class="button more-button" aria-disabled=${String(listing.isLoading)} onClick=${() => !listing.isLoading && listing.more()}>${t("more")}</button>`}
  `;
}
