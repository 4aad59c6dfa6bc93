/** A chart with its title, and the same numbers as a table beside it: one press changes between them. */

import { useMemo, useState } from "../../../vendor/preact/hooks.js";
import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as texts from "../../texts/admin_live.js";
import { number, timeOfDay } from "../format.js";
import { Chart } from "./chart.js";
import { useDesk } from "./desk.js";

/** Every so many seconds the table has a row. */
const ROW_EVERY_SAMPLES = 5;

/**
 * The charts of the overview, and which lines of the history each shows. The ends of the names are what the lines are called.
 *
 * @typedef {{id: "ttft" | "inter_token" | "tokens" | "queue" | "hits" | "pages", unit: "ms" | "per_s" | "answers" | "percent" | "pages", digits: number, lines: readonly [name: string, label: LineLabel][]}} ChartOf
 * @typedef {"p50" | "p99" | "prefill" | "decode" | "running" | "waiting" | "device" | "host" | "disk" | "prefix"} LineLabel
 */

/** @type {readonly ChartOf[]} */
export const CHARTS = [
  { id: "ttft", unit: "ms", digits: 1, lines: [["ttft_p50", "p50"], ["ttft_p99", "p99"]] },
  { id: "inter_token", unit: "ms", digits: 2, lines: [["inter_token_p50", "p50"], ["inter_token_p99", "p99"]] },
  { id: "tokens", unit: "per_s", digits: 1, lines: [["prefill", "prefill"], ["decode", "decode"]] },
  { id: "queue", unit: "answers", digits: 0, lines: [["running", "running"], ["waiting", "waiting"]] },
  { id: "hits", unit: "percent", digits: 1, lines: [["hit_device", "device"], ["hit_host", "host"], ["hit_disk", "disk"], ["hit_prefix", "prefix"]] },
  { id: "pages", unit: "pages", digits: 0, lines: [["pages_device", "device"], ["pages_host", "host"], ["pages_disk", "disk"]] },
];

/** @param {{chart: ChartOf, beats: number}} props */
export function ChartCard({ chart, beats }) {
  const { t, language } = useTexts(texts);
  const { history } = useDesk();
  const [isTable, setTable] = useState(false);
  const title = t(`chart.${chart.id}`);
  const unit = t(`unit.${chart.unit}`);
  const names = chart.lines.map(([name]) => name);
  const labels = chart.lines.map(([, label]) => t(`line.${label}`));
  const columns = useMemo(() => history.columns(names), [beats]);
  const shown = (/** @type {number | null} */ value) => number(value, language, chart.digits);
  const now = labels.map((label, line) => `${label} ${shown(columns[line + 1]?.at(-1) ?? null)}`).join(", ");
  return html`
    <section class="card" aria-label=${title}>
      <header class="card-head">
        <div><h2>${title}</h2><p class="card-unit">${unit}</p></div>
        <button type="button" class="button button-small" aria-pressed=${String(isTable)} onClick=${() => setTable(!isTable)}>${t(isTable ? "asChart" : "asTable")}</button>
      </header>
      ${isTable
        ? html`
            <div class="table-frame chart-table" role="region" aria-label=${t("tableOf", { title })} tabindex="0">
              <table class="table">
                <thead><tr><th scope="col">${t("time")}</th>${labels.map((label) => html`<th scope="col" class="is-number">${label}</th>`)}</tr></thead>
                <tbody>
                  ${history.rows(names, ROW_EVERY_SAMPLES).map(
                    ({ at_s, values }) => html`<tr key=${at_s}><td>${timeOfDay(at_s, language)}</td>${values.map((value) => html`<td class="is-number">${shown(value)}</td>`)}</tr>`,
                  )}
                </tbody>
              </table>
            </div>
          `
        : html`<${Chart} columns=${columns} labels=${labels} language=${language} shown=${shown} says=${t("chartSays", { title, values: now })} />`}
    </section>
  `;
}
