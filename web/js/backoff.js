/**
 * How long to wait before trying again. Pure: the randomness is handed in.
 */

const FIRST_MS = 400;
const LONGEST_MS = 15_000;

/**
 * Doubles with each failed try up to a limit; the jitter keeps a thousand pages from coming back in the same instant.
 *
 * @param {number} failures how many tries have failed in a row, from 1
 * @param {() => number} random in [0, 1)
 */
export function backoffMs(failures, random) {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 20));
  return full / 2 + (full / 2) * random();
}
