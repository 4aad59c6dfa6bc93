/**
 * A tier's pages as a picture, one cell a page. A pointer or the arrow keys go from cell to cell, and the line below says what kind
 * of thing it is.
 *
 * @import { Kind, Run } from "../page_map.js"
 */

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../html.js";
import { KINDS, layoutOf, runAt, strips, totalOf } from "../page_map.js";
import { useColours } from "./colours.js";

const NAMES = /** @type {const} */ (["page-running", "page-running-persona", "page-persona", "page-leased", "page-cached", "page-free", "ink"]);

/** @param {Kind} kind @returns {typeof NAMES[number]} */
const colourName = (kind) => /** @type {any} */ (`page-${kind.replace("_", "-")}`);

/**
 * @param {object} props
 * @param {readonly Run[]} props.runs
 * @param {string} props.label
 * @param {string} props.help
 * @param {string} props.empty what the line says while no cell is meant
 * @param {(page: number, kind: Kind) => string} props.says
 */
export function PageCanvas({ runs, label, help, empty, says }) {
  const frame = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(0);
  const [page, setPage] = useState(/** @type {number | null} */ (null));
  const colours = useColours(NAMES);
  const total = totalOf(runs);
  const layout = useMemo(() => layoutOf(total, Math.max(1, width)), [total, width]);
  useLayoutEffect(() => {
    const node = /** @type {HTMLDivElement} */ (frame.current);
    const observer = new ResizeObserver(() => setWidth(node.clientWidth));
    observer.observe(node);
    setWidth(node.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, runs, layout, colours, page);
  }, [runs, layout, colours, width, page]);
  const pointed = useCallback(
    (/** @type {PointerEvent} */ event) => {
      const [column, row] = [Math.floor(event.offsetX / layout.pitch), Math.floor(event.offsetY / layout.pitch)];
      const found = row * layout.columns + column;
      setPage(column < layout.columns && found < total ? found : null);
    },
    [layout, total],
  );
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = stepOf(event.key, layout.columns, total);
    if (step === null) return;
    event.preventDefault();
    setPage((before) => Math.max(0, Math.min(total - 1, before === null ? 0 : before + step)));
  };
  const run = page === null ? undefined : runAt(runs, page);
  const words = page === null || run === undefined ? empty : says(page, run.kind);
  return html`
    <div ref=${frame} class="map-frame">
      <canvas
        ref=${canvas}
        class="map"
        role="slider"
        tabindex="0"
        aria-label=${label}
        aria-roledescription=${help}
        aria-valuemin="1"
        aria-valuemax=${Math.max(1, total)}
        aria-valuenow=${(page ?? 0) + 1}
        aria-valuetext=${words}
        onPointerMove=${pointed}
        onPointerLeave=${() => setPage(null)}
        onKeyDown=${keyDown}
        onFocus=${() => page === null && setPage(0)}
        onBlur=${() => setPage(null)}
      ></canvas>
    </div>
    <p class="map-line">${words}</p>
  `;
}

/** @param {string} key @param {number} columns @param {number} total @returns {number | null} */
function stepOf(key, columns, total) {
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: columns, PageUp: -columns, Home: -total, End: total };
  return steps[key] ?? null;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {readonly Run[]} runs
 * @param {ReturnType<typeof layoutOf>} layout
 * @param {Record<typeof NAMES[number], string>} colours
 * @param {number | null} page
 */
function paint(canvas, runs, { pitch, gap, columns, rows }, colours, page) {
  const scale = devicePixelRatio;
  const [width, height] = [columns * pitch, Math.max(1, rows) * pitch];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(scale, scale);
  for (const kind of KINDS) {
    context.fillStyle = colours[colourName(kind)];
    for (const run of runs) {
      if (run.kind !== kind) continue;
      for (const { row, column, length } of strips(run, columns)) {
        if (gap === 0) context.fillRect(column * pitch, row * pitch, length * pitch, pitch);
        else for (let cell = 0; cell < length; cell += 1) context.fillRect((column + cell) * pitch, row * pitch, pitch - gap, pitch - gap);
      }
    }
  }
  if (page === null) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 2;
  context.strokeRect((page % columns) * pitch - 1, Math.floor(page / columns) * pitch - 1, pitch - gap + 2, pitch - gap + 2);
}
