/**
 * What the charts show: the server's numbers of the last fifteen minutes, one sample a second, kept in the page. Pure.
 *
 * @import { Stats } from "./wire.d.ts"
 */

import { Ring } from "./ring.js";

export const SAMPLES_MAX = 900;
/** Without a number for longer than this, a line is interrupted instead of drawn straight over what nobody knows. */
const GAP_S = 5;
/** Over how many samples a share of found tokens is counted. */
const HIT_SAMPLES = 60;

/**
 * The numbers of one moment, by the name of the line they belong to; null where nothing was measured.
 *
 * @typedef {Record<string, number | null>} Numbers
 * @typedef {{at_s: number, numbers: Numbers, queried: number, hits: Record<string, number>, uptime_s: number}} Sample
 */

export const SOURCES = /** @type {const} */ (["device", "host", "disk", "prefix"]);
export const TIERS = /** @type {const} */ (["device", "host", "disk"]);

/** Used pages of a tier. @param {Stats} stats @param {string} tier */
export function usedPages(stats, tier) {
  return stats.pages.reduce((sum, count) => sum + (count.tier === tier && count.state !== "free" ? count.pages : 0), 0);
}

export class History {
  constructor() {
    /** @type {Ring<Sample>} */
    this.samples = new Ring(SAMPLES_MAX);
  }

  /** @param {Stats} stats */
  add(stats) {
    const at_s = Date.parse(stats.taken_at) / 1000;
    const last = this.samples.at(-1);
    // A stream that was opened again may tell the same second twice.
    if (last !== undefined && at_s <= last.at_s) return;
    if (last !== undefined && at_s - last.at_s > GAP_S) this.samples.push({ ...last, at_s: last.at_s + 1, numbers: {} });
    const hits = stats.hits.hit_tokens;
    const queried = stats.hits.queried_tokens;
    const earlier = this.samples.at(-Math.min(HIT_SAMPLES, this.samples.length));
    // After a restart the totals begin again at 0, and what was before says nothing of now.
    const isSameStart = earlier !== undefined && stats.uptime_s >= earlier.uptime_s && queried >= earlier.queried;
    const looked = isSameStart ? queried - earlier.queried : 0;
    /** @type {Numbers} */
    const numbers = {
      ttft_p50: stats.ttft_ms.p50,
      ttft_p99: stats.ttft_ms.p99,
      inter_token_p50: stats.inter_token_ms.p50,
      inter_token_p99: stats.inter_token_ms.p99,
      prefill: stats.tokens_per_s.prefill,
      decode: stats.tokens_per_s.decode,
      running: stats.running,
      waiting: stats.queue.waiting,
    };
    for (const source of SOURCES) {
      const found = (hits[source] ?? 0) - (earlier?.hits[source] ?? 0);
      numbers[`hit_${source}`] = looked > 0 ? (100 * found) / looked : null;
    }
    for (const tier of TIERS) numbers[`pages_${tier}`] = usedPages(stats, tier);
    this.samples.push({ at_s, numbers, queried, hits, uptime_s: stats.uptime_s });
  }

  /**
   * As a chart takes it: the moments, then one row per line.
   *
   * @param {readonly string[]} names
   * @returns {[number[], ...(number | null)[][]]}
   */
  columns(names) {
    const samples = this.samples.values();
    return [samples.map((sample) => sample.at_s), ...names.map((name) => samples.map((sample) => sample.numbers[name] ?? null))];
  }

  /**
   * As a table shows it: the newest first, one row every so many seconds, so that a person can read it.
   *
   * @param {readonly string[]} names
   * @param {number} everySamples
   * @returns {{at_s: number, values: (number | null)[]}[]}
   */
  rows(names, everySamples) {
    const rows = [];
    for (let back = 1; back <= this.samples.length; back += everySamples) {
      const sample = /** @type {Sample} */ (this.samples.at(-back));
      rows.push({ at_s: sample.at_s, values: names.map((name) => sample.numbers[name] ?? null) });
    }
    return rows;
  }
}
