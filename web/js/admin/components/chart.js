/**
 * One chart of the history, drawn by uPlot: lines over the last fifteen minutes. Its names and numbers are HTML above it; the lines
 * themselves are a picture.
 */

import { useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import uPlot from "../../../vendor/uplot/uplot.js";
import { html } from "../../html.js";
import { useColours } from "./colours.js";

const HEIGHT = 176;
/** What is shown at least, so that the first seconds are no sliver; and no more than the history has. */
const SPAN_S = 120;
const LINES = /** @type {const} */ (["series-1", "series-2", "series-3", "series-4"]);
const NAMES = /** @type {const} */ ([...LINES, "ink-soft", "line"]);

/**
 * @param {object} props
 * @param {[number[], ...(number | null)[][]]} props.columns
 * @param {readonly string[]} props.labels
 * @param {string} props.language
 * @param {string} props.says the picture in words
 * @param {(value: number | null) => string} props.shown
 */
export function Chart({ columns, labels, language, says, shown }) {
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const chart = useRef(/** @type {uPlot | null} */ (null));
  const [place, setPlace] = useState(/** @type {number | null} */ (null));
  const colours = useColours(NAMES);
  useLayoutEffect(() => {
    const node = /** @type {HTMLDivElement} */ (frame.current);
    const axis = { stroke: colours["ink-soft"], grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const made = new uPlot(
      {
        width: Math.max(120, node.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
        scales: { x: { range: (drawn) => spanOf(drawn.data[0]) }, y: { range: (_chart, _low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] } },
        axes: [
          { ...axis, size: 26, space: 70, values: (_chart, splits, _axis, _space, increment_s) => splits.map((at_s) => clock(at_s, language, increment_s < 60)) },
          { ...axis, size: 52, space: 34, values: (_chart, splits) => splits.map((value) => compact(value, language)) },
        ],
        series: [{}, ...labels.map((label, index) => ({ label, stroke: colours[/** @type {typeof LINES[number]} */ (LINES[index])], width: 2, points: { show: false } }))],
        hooks: { setCursor: [(drawn) => setPlace(drawn.cursor.idx ?? null)] },
      },
      /** @type {uPlot.AlignedData} */ (columns),
      node,
    );
    chart.current = made;
    const observer = new ResizeObserver(() => node.clientWidth > 0 && made.setSize({ width: node.clientWidth, height: HEIGHT }));
    observer.observe(node);
    return () => {
      observer.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [colours, language, labels.join()]);
  useEffect(() => chart.current?.setData(/** @type {uPlot.AlignedData} */ (columns)), [columns]);
  const moments = columns[0];
  const index = place !== null && place < moments.length ? place : moments.length - 1;
  const at_s = moments[index];
  return html`
    <ul class="chart-names">
      ${labels.map(
        (label, line) => html`<li key=${label}><span class="swatch swatch-series-${line + 1}"></span>${label} <b>${shown(columns[line + 1]?.[index] ?? null)}</b></li>`,
      )}
      <li class="chart-time">${at_s === undefined ? "" : clock(at_s, language, true)}</li>
    </ul>
    <div ref=${frame} class="chart" role="img" aria-label=${says}></div>
  `;
}

/**
 * What is shown: all there is, and at least the last two minutes. Told by the moments themselves, because of a single one uPlot
 * makes a span of years.
 *
 * @param {ArrayLike<number>} moments
 * @returns {[number, number]}
 */
function spanOf(moments) {
  const end_s = moments[moments.length - 1] ?? Date.now() / 1000;
  return [Math.min(moments[0] ?? end_s, end_s - SPAN_S), end_s];
}

/** @param {number} at_s @param {string} language @param {boolean} [hasSeconds] */
function clock(at_s, language, hasSeconds = false) {
  return new Date(at_s * 1000).toLocaleTimeString(language, { hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...(hasSeconds ? { second: "2-digit" } : {}) });
}

/** @param {number} value @param {string} language */
function compact(value, language) {
  return value.toLocaleString(language, { notation: "compact", maximumFractionDigits: 1 });
}
