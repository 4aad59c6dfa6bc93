/**
 * A table of very many rows: only those on the screen are there, and the space of the others. Every row is equally high.
 */

import { useCallback, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { html, memo } from "../../html.js";
import { windowOf } from "../rows.js";

const ROW_HEIGHT_GUESS = 44;

/**
 * @template T
 * @typedef {object} VirtualColumn
 * @property {string} key
 * @property {string} head
 * @property {(item: T) => any} cell
 * @property {boolean} [isNumber]
 * @property {boolean} [isFixed] it cannot be sorted by
 */

/**
 * @template T
 * @param {object} props
 * @param {string} props.label
 * @param {readonly VirtualColumn<T>[]} props.columns
 * @param {readonly T[]} props.items in their order
 * @param {(item: T) => string} props.keyOf
 * @param {{key: string, isDescending: boolean}} props.order
 * @param {(key: string) => void} props.onOrder
 */
export function VirtualTable({ label, columns, items, keyOf, order, onOrder }) {
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [view, setView] = useState({ scrollTop: 0, height: 600, rowHeight: ROW_HEIGHT_GUESS });
  const look = useCallback(() => {
    const node = frame.current;
    if (node === null) return;
    const rowHeight = /** @type {HTMLElement | null} */ (node.querySelector("tbody tr[aria-rowindex]"))?.offsetHeight || ROW_HEIGHT_GUESS;
    const next = { scrollTop: node.scrollTop, height: node.clientHeight, rowHeight };
    setView((before) => (isSameWindow(before, next, items.length) ? before : next));
  }, [items.length]);
  useLayoutEffect(look, [look]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(/** @type {HTMLDivElement} */ (frame.current));
    return () => observer.disconnect();
  }, [look]);
  const { first, end } = windowOf({ ...view, count: items.length });
  return html`
    <div ref=${frame} class="table-frame virtual" role="region" aria-label=${label} tabindex="0" onScroll=${look}>
      <table class="table" aria-rowcount=${items.length + 1}>
        <thead>
          <tr aria-rowindex="1">${columns.map((column) => html`<${Head} key=${column.key} column=${column} order=${order} onOrder=${onOrder} />`)}</tr>
        </thead>
        <tbody>
          <${Space} height=${first * view.rowHeight} columns=${columns.length} />
          ${items.slice(first, end).map((item, index) => html`<${Row} key=${keyOf(item)} item=${item} index=${first + index} columns=${columns} />`)}
          <${Space} height=${(items.length - end) * view.rowHeight} columns=${columns.length} />
        </tbody>
      </table>
    </div>
  `;
}

/** While the table is only scrolled, a row that stays is not drawn again. */
const Row = memo(
  /** @param {{item: any, index: number, columns: readonly VirtualColumn<any>[]}} props */
  ({ item, index, columns }) => html`
    <tr aria-rowindex=${index + 2}>
      ${columns.map((column) => html`<td key=${column.key} class=${column.isNumber ? "is-number" : ""}>${column.cell(item)}</td>`)}
    </tr>
  `,
);

/** Only what changes the drawn rows is worth drawing. @param {View} one @param {View} other @param {number} count @typedef {{scrollTop: number, height: number, rowHeight: number}} View */
function isSameWindow(one, other, count) {
  const [before, after] = [windowOf({ ...one, count }), windowOf({ ...other, count })];
  return one.rowHeight === other.rowHeight && before.first === after.first && before.end === after.end;
}

/** @param {{column: VirtualColumn<any>, order: {key: string, isDescending: boolean}, onOrder: (key: string) => void}} props */
function Head({ column, order, onOrder }) {
  const isCurrent = order.key === column.key;
  const sort = isCurrent ? (order.isDescending ? "descending" : "ascending") : undefined;
  return html`
    <th scope="col" class=${column.isNumber ? "is-number" : ""} aria-sort=${sort}>
      ${column.isFixed
        ? html`<span class="visually-hidden">${column.head}</span>`
        : html`<button type="button" class="sort-button" onClick=${() => onOrder(column.key)}>${column.head}<span aria-hidden="true" class="sort-mark">${isCurrent ? (order.isDescending ? "▾" : "▴") : ""}</span></button>`}
    </th>
  `;
}

/** The rows that are not there. @param {{height: number, columns: number}} props */
function Space({ height, columns }) {
  const cell = useRef(/** @type {HTMLTableCellElement | null} */ (null));
  useLayoutEffect(() => {
    if (cell.current) cell.current.style.height = `${height}px`;
  }, [height]);
  return html`<tr class="space" aria-hidden="true"><td ref=${cell} colspan=${columns}></td></tr>`;
}
