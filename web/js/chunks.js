/**
 * A long conversation in pieces of a few messages, of which only those near the screen are drawn. Pure: which messages are one piece,
 * how high a piece probably is, and which pieces a stretch of the page shows.
 *
 *     path     m1 m2 m3 m4 | m5 m6 m7 m8 | m9 m10
 *     drawn    [ 412 px   ]  m5 m6 m7 m8   m9 m10      the first piece is a gap of the height it had, or may have
 *
 * @import { Message } from "./wire.d.ts"
 */

export const CHUNK_MESSAGES = 8;

/** What a message takes beside its lines, and a line. Only a first guess: a piece that was drawn once has its real height. */
const MESSAGE_PX = 70;
const LINE_PX = 26;
const CHAR_PX = 7.5;

/**
 * `from` and `to` are places in the path, `to` not included.
 *
 * @typedef {object} Chunk
 * @property {string} key
 * @property {number} from
 * @property {number} to
 */

/** Cuts a path into chunks, and keeps what was one chunk together when the path grows at either end or changes to another branch. */
export class Chunking {
  constructor() {
    /** @type {Map<string, string>} the chunk of each place in the tree: versions of one message share a place */
    this.keys = new Map();
  }

  /**
   * @param {readonly Message[]} path
   * @returns {Chunk[]}
   */
  of(path) {
    /** @type {Chunk[]} */
    const chunks = [];
    const used = new Set();
    path.forEach((message, index) => {
      const place = `under ${message.parent_id}`;
      const known = this.keys.get(place);
      const last = chunks.at(-1);
      const isFull = last !== undefined && last.to - last.from >= CHUNK_MESSAGES;
      const goesOn = last !== undefined && (known === last.key || (known === undefined && !isFull));
      if (goesOn) last.to = index + 1;
      // A chunk that another branch has torn apart goes on under a name of its own.
      else chunks.push({ key: known !== undefined && !used.has(known) ? known : place, from: index, to: index + 1 });
      const { key } = /** @type {Chunk} */ (chunks.at(-1));
      used.add(key);
      this.keys.set(place, key);
    });
    return chunks;
  }
}

/**
 * @param {readonly Message[]} path
 * @param {Chunk} chunk
 * @param {number} widthPx of a line
 */
export function guessedPx(path, { from, to }, widthPx) {
  const lineChars = Math.max(20, widthPx / CHAR_PX);
  let px = 0;
  for (let index = from; index < to; index += 1) {
    const { length } = path[index]?.content ?? "";
    px += MESSAGE_PX + LINE_PX * Math.ceil(length / lineChars);
  }
  return px;
}

/**
 * The first and the last chunk that a stretch of the page shows, or the nearest one.
 *
 * @param {readonly number[]} heights of all chunks
 * @param {number} topPx
 * @param {number} bottomPx
 * @returns {{first: number, last: number}}
 */
export function stretchOf(heights, topPx, bottomPx) {
  let [first, last, y] = [-1, -1, 0];
  heights.forEach((height, index) => {
    const [begin, end] = [y, y + height];
    y = end;
    if (first < 0 && end > topPx) first = index;
    if (begin < bottomPx) last = index;
  });
  if (first < 0) first = heights.length - 1;
  return { first, last: Math.max(first, last) };
}

/**
 * What is drawn: the chunks that are wanted, and gaps for those between them.
 *
 * @param {readonly Chunk[]} chunks
 * @param {readonly number[]} heights
 * @param {(index: number) => boolean} isWanted
 * @returns {({chunk: Chunk, index: number} | {key: string, px: number})[]}
 */
export function drawn(chunks, heights, isWanted) {
  /** @type {({chunk: Chunk, index: number} | {key: string, px: number})[]} */
  const parts = [];
  chunks.forEach((chunk, index) => {
    if (isWanted(index)) {
      parts.push({ chunk, index });
      return;
    }
    const last = parts.at(-1);
    const px = heights[index] ?? 0;
    if (last && "px" in last) last.px += px;
    else parts.push({ key: `gap ${chunk.key}`, px });
  });
  return parts;
}
