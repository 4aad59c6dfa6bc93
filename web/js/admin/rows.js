/** The rows of a long table: which are shown, in which order, and which of them are on the screen. Pure. */

/** @typedef {{key: string, isDescending: boolean}} Order */

/**
 * A new list in this order. What has no value comes last whichever way; what is equal stays as it was.
 *
 * @template T
 * @param {readonly T[]} items
 * @param {Order} order
 * @param {(item: T, key: string) => string | number | null} valueOf
 * @returns {T[]}
 */
export function sorted(items, order, valueOf) {
  const sign = order.isDescending ? -1 : 1;
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return items
    .map((item) => ({ item, value: valueOf(item, order.key) }))
    .sort((one, other) => {
      if (one.value === null || other.value === null) return Number(one.value === null) - Number(other.value === null);
      if (typeof one.value === "number" && typeof other.value === "number") return sign * (one.value - other.value);
      return sign * compare(String(one.value), String(other.value));
    })
    .map(({ item }) => item);
}

/** The order after a press on a column's head: the other way round, or this column. @param {Order} order @param {string} key @returns {Order} */
export function pressed(order, key) {
  return order.key === key ? { key, isDescending: !order.isDescending } : { key, isDescending: true };
}

/**
 * The items in which every word is found, whatever its case.
 *
 * @template T
 * @param {readonly T[]} items
 * @param {string} query
 * @param {(item: T) => string} textOf
 * @returns {readonly T[]}
 */
export function matching(items, query, textOf) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return items;
  return items.filter((item) => {
    const text = textOf(item).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const OVERSCAN_ROWS = 10;

/**
 * Which rows to draw, from `first` up to and without `end`: those on the screen and some around them, for the next moment of scrolling.
 *
 * @param {{count: number, rowHeight: number, scrollTop: number, height: number}} view
 */
export function windowOf({ count, rowHeight, scrollTop, height }) {
  const top = Math.floor(Math.max(0, scrollTop) / rowHeight);
  const first = Math.max(0, Math.min(top - OVERSCAN_ROWS, count - 1));
  const end = Math.min(count, top + Math.ceil(height / rowHeight) + OVERSCAN_ROWS);
  return { first, end: Math.max(first, end) };
}
