/**
 * The pages of the KV memory as a picture: reads `1200f3r2L` of the server's statistics, where the cells lie, and which one is
 * under a pointer. Pure. It says what kind of thing a page holds, and never whose or what: the server does not tell.
 *
 * @import { Stats } from "./wire.d.ts"
 */

/** What a page may be, in the order of the legend. */
export const KINDS = /** @type {const} */ (["running", "running_persona", "persona", "leased", "cached", "free"]);
/** @typedef {(typeof KINDS)[number]} Kind */
/** @typedef {{start: number, length: number, kind: Kind}} Run */

const LETTERS = /** @type {Record<string, Kind>} */ ({
  f: "free",
  F: "free",
  r: "running",
  R: "running_persona",
  l: "leased",
  L: "persona",
  p: "persona",
  P: "persona",
  c: "cached",
  C: "persona",
});

/**
 * Runs of equal pages in their order. Letters of a newer server that are not known here count as kept for nobody.
 *
 * @param {string} text
 * @returns {Run[]}
 */
export function runsOf(text) {
  /** @type {Run[]} */
  const runs = [];
  let start = 0;
  for (const [, count, letter] of text.matchAll(/(\d*)(\D)/g)) {
    const length = count === "" ? 1 : Number(count);
    const kind = LETTERS[String(letter)] ?? "cached";
    const last = runs.at(-1);
    if (last?.kind === kind) last.length += length;
    else runs.push({ start, length, kind });
    start += length;
  }
  return runs;
}

/**
 * A tier that has no order of its own, as one: what is in it, by kind.
 *
 * @param {Stats} stats
 * @param {string} tier
 * @returns {Run[]}
 */
export function runsOfTier(stats, tier) {
  /** @type {Map<Kind, number>} */
  const counts = new Map();
  for (const { tier: its, state, pages } of stats.pages) {
    if (its !== tier || pages === 0) continue;
    const kind = state === "prefix" ? "persona" : state === "leased" ? "leased" : "cached";
    counts.set(kind, (counts.get(kind) ?? 0) + pages);
  }
  let start = 0;
  return KINDS.filter((kind) => counts.has(kind)).map((kind) => {
    const run = { start, length: counts.get(kind) ?? 0, kind };
    start += run.length;
    return run;
  });
}

/** @param {readonly Run[]} runs */
export function totalOf(runs) {
  const last = runs.at(-1);
  return last === undefined ? 0 : last.start + last.length;
}

/** How many there are of each kind. @param {readonly Run[]} runs @returns {Record<Kind, number>} */
export function countsOf(runs) {
  const counts = /** @type {Record<Kind, number>} */ (Object.fromEntries(KINDS.map((kind) => [kind, 0])));
  for (const run of runs) counts[run.kind] += run.length;
  return counts;
}

/** The run that a page is in. @param {readonly Run[]} runs @param {number} page @returns {Run | undefined} */
export function runAt(runs, page) {
  let [low, high] = [0, runs.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const run = /** @type {Run} */ (runs[middle]);
    if (page < run.start) high = middle - 1;
    else if (page >= run.start + run.length) low = middle + 1;
    else return run;
  }
  return undefined;
}

const CELL_SIZES = [14, 12, 10, 8, 7, 6, 5, 4, 3, 2];
const HEIGHT_WANTED = 360;

/**
 * Cells as large as fit: `pitch` is a cell with the gap beside it.
 *
 * @param {number} pages
 * @param {number} width in CSS pixels
 */
export function layoutOf(pages, width) {
  const columnsFor = (/** @type {number} */ pitch) => Math.max(1, Math.floor(width / pitch));
  const fits = (/** @type {number} */ pitch) => Math.ceil(pages / columnsFor(pitch)) * pitch <= HEIGHT_WANTED;
  const pitch = CELL_SIZES.find(fits) ?? 2;
  const columns = columnsFor(pitch);
  return { pitch, gap: pitch > 3 ? 1 : 0, columns, rows: Math.ceil(pages / columns) };
}

/**
 * The pieces of a run, one per line of the picture, so that a picture of a hundred thousand pages is drawn in a few thousand strokes.
 *
 * @param {Run} run
 * @param {number} columns
 * @returns {Iterable<{row: number, column: number, length: number}>}
 */
export function* strips(run, columns) {
  let page = run.start;
  const end = run.start + run.length;
  while (page < end) {
    const row = Math.floor(page / columns);
    const length = Math.min(end, (row + 1) * columns) - page;
    yield { row, column: page - row * columns, length };
    page += length;
  }
}
